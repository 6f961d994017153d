import PresenceWire
import Testing

@testable import PresenceCore

/// The transitions of the page Terms, at one disk: `a` claims, `b` to `e` answer.
@Suite struct FactSlotTests {
    private static let disks = ["a", "b", "c", "d", "e"].map { DiskID(node: NodeID($0), number: 1) }
    private let a = disks[0], b = disks[1], c = disks[2], d = disks[3], e = disks[4]
    /// The hash of the rows that the disk under test holds.
    private var hash: UInt64 = 7

    private func term(_ number: UInt64, _ claimant: DiskID? = nil) -> Term { Term(number: number, claimant: claimant ?? a) }

    private func set(_ number: UInt64, _ disks: [DiskID]) -> ReplicaSet { ReplicaSet(term: term(number), disks: disks) }

    /// A disk that holds the content of an installed term.
    private func slot(_ own: DiskID? = nil, installed: [DiskID], number: UInt64 = 1) -> FactSlot {
        let record = SlotRecord(promised: term(number), installed: set(number, installed), content: term(number))
        return FactSlot(own: own ?? a, record: record)
    }

    private func handle(_ slot: inout FactSlot, _ input: FactSlot.Input) -> [FactSlot.Output] {
        var outputs: [FactSlot.Output] = []
        slot.handle(input, hash: { hash }, into: &outputs)
        slot.checkInvariants()
        return outputs
    }

    /// Handles an input, and has the disk finish what it is given.
    @discardableResult private func run(_ slot: inout FactSlot, _ input: FactSlot.Input) -> [FactSlot.Output] {
        var outputs = handle(&slot, input)
        var next = 0
        while next < outputs.count {
            if case .store(_, let write) = outputs[next] { outputs += handle(&slot, .stored(write: write, isDurable: true)) }
            next += 1
        }
        return outputs
    }

    private func promise(
        _ number: UInt64, base: UInt64 = 1, accepted: ReplicaSet? = nil, content: UInt64? = 1, hash: UInt64 = 7
    ) -> TermMessage {
        .promise(
            Promise(term: term(number), base: term(base), accepted: accepted, content: content.map { term($0) }, hash: hash))
    }

    private func claiming(installed: [DiskID], ring: [DiskID]? = nil) -> FactSlot {
        var slot = slot(installed: installed)
        run(&slot, .ringChanged(ring ?? installed, others: []))
        return slot
    }

    /// A claimant whose collected rows have the hash 7.
    private func installing(installed: [DiskID], ring: [DiskID]? = nil) -> FactSlot {
        var slot = claiming(installed: installed, ring: ring)
        for disk in installed where disk != a { run(&slot, .received(promise(2), from: disk)) }
        run(&slot, .collected(term(2), hash: 7))
        return slot
    }

    private func active(installed: [DiskID], ring: [DiskID]? = nil) -> FactSlot {
        var slot = installing(installed: installed, ring: ring)
        for disk in (ring ?? installed) + installed where disk != a { run(&slot, .received(.stored(term(2)), from: disk)) }
        return slot
    }

    private func isActive(_ slot: FactSlot) -> Bool { slot.writable != nil }

    // MARK: Promises

    @Test("A disk stores a promise before it answers, with what it holds") func storesPromise() {
        var slot = slot(b, installed: [a, b, c])
        let outputs = handle(&slot, .received(.claim(term(2), base: set(1, [a, b, c])), from: a))
        #expect(outputs == [.store(SlotRecord(promised: term(2), installed: set(1, [a, b, c]), content: term(1)), write: 1)])
        #expect(slot.answer(toRowsOf: term(1)) == .refuse(promised: term(2)))
        #expect(handle(&slot, .stored(write: 1, isDurable: true)) == [.send(promise(2), to: a)])
        // A repeated claim is answered from the disk.
        #expect(handle(&slot, .received(.claim(term(2), base: set(1, [a, b, c])), from: a)) == [.send(promise(2), to: a)])
    }

    @Test("A disk refuses a claim of a smaller term than it has promised") func refusesSmallerTerm() {
        var slot = slot(b, installed: [a, b, c])
        run(&slot, .received(.claim(term(3, c), base: set(1, [a, b, c])), from: c))
        let outputs = run(&slot, .received(.claim(term(3), base: set(1, [a, b, c])), from: a))
        #expect(outputs == [.send(.refusal(promised: term(3, c)), to: a)])
    }

    @Test("A promise that the disk could not write is not answered, and written again at the next claim") func failedWrite() {
        var slot = slot(b, installed: [a, b, c])
        let claim = FactSlot.Input.received(.claim(term(2), base: set(1, [a, b, c])), from: a)
        _ = handle(&slot, claim)
        #expect(handle(&slot, .stored(write: 1, isDurable: false)) == [])
        #expect(handle(&slot, claim) == [.store(slot.record, write: 2)])
        #expect(handle(&slot, .stored(write: 2, isDurable: true)) == [.send(promise(2), to: a)])
    }

    @Test("A claim by an old replica set is answered with the later one") func outdatedBase() {
        var slot = slot(b, installed: [b, c, d], number: 4)
        let outputs = run(&slot, .received(.claim(term(5), base: set(1, [a, b, c])), from: a))
        #expect(outputs == [.send(.outdated(set(4, [b, c, d])), to: a)])
        #expect(slot.record.promised == term(4))
    }

    @Test("A disk learns a later replica set from a claim") func learnsBase() {
        var slot = slot(b, installed: [a, b, c])
        run(&slot, .received(.claim(term(5), base: set(4, [b, c, d])), from: d))
        #expect(slot.record.installed == set(4, [b, c, d]))
    }

    @Test("A promise to another node ends each state of a claimant") func promiseEndsTerm() {
        let claim = FactSlot.Input.received(.claim(term(9, b), base: set(1, [a, b, c])), from: b)
        for var slot in [claiming(installed: [a, b, c]), installing(installed: [a, b, c])] {
            run(&slot, claim)
            #expect(slot.state == .replica(slot.record.content ?? .zero))
        }
        var slot = active(installed: [a, b, c])
        let outputs = run(&slot, .received(.claim(term(9, b), base: set(2, [a, b, c])), from: b))
        #expect(outputs.first == .deactivate(term(2)))
        #expect(slot.state == .replica(term(2)))
    }

    // MARK: Claims

    @Test("An owner asks the installed set, and not the disks of the ring") func claims() {
        var slot = slot(installed: [a, b, c])
        let outputs = run(&slot, .ringChanged([a, d, e], others: []))
        #expect(outputs.contains(.send(.claim(term(2), base: set(1, [a, b, c])), to: b)))
        #expect(!outputs.contains { if case .send(_, to: d) = $0 { true } else { false } })
        // A promise of a disk that was not asked does not count.
        run(&slot, .received(promise(2), from: d))
        run(&slot, .received(promise(2), from: e))
        #expect(run(&slot, .received(promise(2), from: c)) == [.collect(term(2), from: [a])])
    }

    @Test("A node that is not the owner does not claim") func replica() {
        var slot = slot(b, installed: [a, b, c])
        #expect(run(&slot, .ringChanged([a, b, c], others: [])) == [])
        #expect(slot.state == .replica(term(1)))
    }

    @Test("A claimant waits for its own disk") func waitsForOwnDisk() {
        var slot = slot(installed: [a, b, c])
        _ = handle(&slot, .ringChanged([a, b, c], others: []))
        #expect(handle(&slot, .received(promise(2), from: b)) == [])
        #expect(handle(&slot, .received(promise(2), from: c)) == [])
        #expect(handle(&slot, .stored(write: 1, isDurable: true)) == [.collect(term(2), from: [a])])
    }

    @Test("A claimant outside of the installed set needs a majority of that set") func outsider() {
        var slot = FactSlot(own: d, record: SlotRecord(promised: term(1), installed: set(1, [a, b, c])))
        run(&slot, .ringChanged([d, a, b], others: []))
        let own = term(2, d)
        let answer = TermMessage.promise(Promise(term: own, base: term(1), accepted: nil, content: term(1), hash: 7))
        #expect(run(&slot, .received(answer, from: a)) == [])
        #expect(run(&slot, .received(answer, from: c)) == [.collect(own, from: [a])])
    }

    @Test("A node that knows no replica set asks the disks of both rings, and claims by their answer") func asksForBase() {
        var slot = FactSlot(own: d, record: SlotRecord())
        #expect(slot.state == .none)
        let outputs = run(&slot, .ringChanged([d, e], others: [a, b]))
        #expect(outputs == [a, b, e].map { .send(.claim(term(1, d), base: nil), to: $0) })
        let next = run(&slot, .received(.outdated(set(4, [a, b, c])), from: a))
        #expect(next.contains(.send(.claim(term(5, d), base: set(4, [a, b, c])), to: c)))
        // A disk that knows no set either says nothing, and promises nothing.
        var other = FactSlot(own: e, record: SlotRecord())
        #expect(run(&other, .received(.claim(term(1, d), base: nil), from: d)) == [])
        var member = self.slot(b, installed: [a, b, c])
        #expect(run(&member, .received(.claim(term(9, d), base: nil), from: d)) == [.send(.outdated(set(1, [a, b, c])), to: d)])
        #expect(member.record.promised == term(1))
    }

    @Test("An answer with a later replica set starts the claim again, by that set") func claimsAgain() {
        var slot = claiming(installed: [a, b, c])
        let outputs = run(&slot, .received(.outdated(set(4, [c, d, e])), from: c))
        #expect(outputs.contains(.send(.claim(term(5), base: set(4, [c, d, e])), to: d)))
        #expect(run(&slot, .received(promise(5, base: 1), from: d)) == [], "a promise for the earlier set does not count")
    }

    @Test("A refusal ends each state of a claimant, and the next tick claims a larger term") func refusal() {
        for var slot in [claiming(installed: [a, b, c]), installing(installed: [a, b, c]), active(installed: [a, b, c])] {
            let wasActive = isActive(slot)
            let outputs = run(&slot, .received(.refusal(promised: term(8, b)), from: b))
            #expect(outputs == (wasActive ? [.deactivate(term(2))] : []))
            let base = slot.record.installed
            #expect(run(&slot, .tick).contains(.send(.claim(term(9), base: base), to: c)))
        }
        var slot = claiming(installed: [a, b, c])
        run(&slot, .received(promise(2, content: 1, hash: 8), from: b))
        #expect(slot.state.ownTerm == term(2))
        run(&slot, .received(.refusal(promised: term(8, b)), from: b))
        #expect(slot.state == .replica(term(1)))
        // A refusal of a smaller term is late.
        var late = active(installed: [a, b, c])
        run(&late, .received(.refusal(promised: term(1, c)), from: b))
        #expect(isActive(late))
    }

    @Test("A disk that an operator has removed does not count") func removal() {
        var slot = claiming(installed: [a, b, c])
        run(&slot, .removed(c))
        #expect(slot.state != .replica(term(1)))
        #expect(run(&slot, .received(promise(2), from: b)) == [.collect(term(2), from: [a])])
        var alone = claiming(installed: [a, b, c])
        run(&alone, .removed(c))
        #expect(run(&alone, .removed(b)) == [.collect(term(2), from: [a])])
    }

    // MARK: Collecting

    @Test("A claimant joins the rows of the largest content, each once, and its own first") func sources() {
        var same = claiming(installed: [a, b, c])
        #expect(run(&same, .received(promise(2, hash: 7), from: b)) == [.collect(term(2), from: [a])])
        var different = claiming(installed: [a, b, c])
        #expect(run(&different, .received(promise(2, hash: 8), from: b)) == [.collect(term(2), from: [a, b])])
        var newer = slot(installed: [b, c, d], number: 4)
        newer = FactSlot(own: a, record: SlotRecord(promised: term(4), installed: set(4, [b, c, d]), content: term(1)))
        run(&newer, .ringChanged([a, b, c], others: []))
        run(&newer, .received(promise(5, base: 4, content: 4, hash: 8), from: b))
        #expect(run(&newer, .received(promise(5, base: 4, content: 1, hash: 9), from: c)) == [.collect(term(5), from: [b])])
    }

    @Test("Without the rows of a promising disk the claimant needs the promise of another one") func unreachable() {
        var slot = claiming(installed: [a, b, c])
        run(&slot, .received(promise(2, hash: 8), from: b))
        #expect(run(&slot, .unreachable(b)) == [])
        #expect(run(&slot, .received(promise(2, hash: 8), from: c)) == [.collect(term(2), from: [a, c])])
    }

    @Test("A set that another claimant has begun is asked too, and installed before that of the ring") func begunSet() {
        var slot = claiming(installed: [a, b, c])
        let begun = ReplicaSet(term: term(2, b), disks: [b, d, e])
        _ = run(&slot, .received(.refusal(promised: term(2, b)), from: b))
        _ = run(&slot, .tick)
        let outputs = run(&slot, .received(promise(3, accepted: begun), from: b))
        #expect(outputs == [d, e].map { .send(.claim(term(3), base: set(1, [a, b, c])), to: $0) })
        // The disks b and d are a majority of the begun set.
        let content = TermMessage.promise(Promise(term: term(3), base: term(1), accepted: begun, content: term(2, b), hash: 9))
        #expect(run(&slot, .received(content, from: d)) == [.collect(term(3), from: [d])])
        let installs = run(&slot, .collected(term(3), hash: 9))
        let message = TermMessage.install(Installation(set: set(3, [b, d, e]), base: set(1, [a, b, c]), hash: 9))
        #expect([b, d, e].allSatisfy { installs.contains(.send(message, to: $0)) })
        run(&slot, .received(.stored(term(3)), from: d))
        let next = run(&slot, .received(.stored(term(3)), from: b))
        #expect(next.contains(.send(.claim(term(4), base: set(3, [b, d, e])), to: e)), "the ring names other disks")
        #expect(!next.contains(.activate(term(3))))
    }

    // MARK: Installing

    @Test("A term is active when its set has a majority, and the claimant's own disk has stored it") func activates() {
        var slot = claiming(installed: [a, b, c])
        run(&slot, .received(promise(2), from: b))
        let outputs = handle(&slot, .collected(term(2), hash: 7))
        let installed = Installation(set: set(2, [a, b, c]), base: set(1, [a, b, c]), hash: 7)
        #expect(outputs.first == .keep(term(2)))
        #expect(outputs.contains(.send(.install(installed), to: c)))
        #expect(handle(&slot, .received(.stored(term(2)), from: b)) == [])
        #expect(handle(&slot, .received(.stored(term(2)), from: c)) == [], "the own disk has not stored it")
        let last = handle(&slot, .stored(write: 2, isDurable: true))
        #expect(last.last == .activate(term(2)))
        #expect(last.contains(.send(.installed(set(2, [a, b, c])), to: b)))
        #expect(slot.writable == set(2, [a, b, c]))
    }

    @Test("A majority of the old set must know a new set, and its other disks are asked last") func oldSetKnows() {
        var slot = installing(installed: [a, b, c], ring: [a, d, e])
        let message = TermMessage.install(Installation(set: set(2, [a, d, e]), base: set(1, [a, b, c]), hash: 7))
        let outputs = run(&slot, .received(.stored(term(2)), from: d))
        #expect(outputs == [b, c].map { .send(message, to: $0) })
        #expect(run(&slot, .received(.stored(term(2)), from: e)) == [])
        #expect(run(&slot, .received(.stored(term(2)), from: c)).last == .activate(term(2)))
    }

    @Test("A disk with other rows fetches the content, and answers after its disk") func fetches() {
        var slot = slot(b, installed: [a, b, c])
        let message = TermMessage.install(Installation(set: set(2, [a, b, c]), base: set(1, [a, b, c]), hash: 9))
        #expect(handle(&slot, .received(message, from: a)) == [.collect(term(2), from: [a])])
        #expect(slot.answer(toRowsOf: term(2)) == .ignore)
        let outputs = handle(&slot, .collected(term(2), hash: 9))
        #expect(outputs.first == .keep(term(2)))
        #expect(slot.answer(toRowsOf: term(2)) == .store)
        #expect(handle(&slot, .stored(write: 1, isDurable: true)) == [.send(.stored(term(2)), to: a)])
    }

    @Test("A disk with the same rows fetches nothing") func equalRows() {
        var slot = slot(b, installed: [a, b, c])
        let message = TermMessage.install(Installation(set: set(2, [a, b, c]), base: set(1, [a, b, c]), hash: 7))
        #expect(run(&slot, .received(message, from: a)).last == .send(.stored(term(2)), to: a))
        #expect(slot.record.content == term(2))
        #expect(run(&slot, .received(message, from: a)) == [.send(.stored(term(2)), to: a)], "repeated")
    }

    @Test("A disk that is not in the new set stores the set, and keeps its rows until the term is installed") func leavesSet() {
        var slot = slot(b, installed: [a, b, c])
        let message = TermMessage.install(Installation(set: set(2, [a, c, d]), base: set(1, [a, b, c]), hash: 9))
        #expect(run(&slot, .received(message, from: a)).last == .send(.stored(term(2)), to: a))
        #expect(slot.record.accepted == set(2, [a, c, d]))
        #expect(slot.record.content == term(1))
        let outputs = run(&slot, .received(.installed(set(2, [a, c, d])), from: a))
        #expect(outputs.first == .deleteContent)
        #expect(outputs.last == .send(.heard(term(2)), to: a))
        #expect(slot.state == .none)
        #expect(slot.record.installed == set(2, [a, c, d]))
    }

    @Test("A disk drops a fetch of a term when it promises a larger one") func dropsFetch() {
        var slot = slot(b, installed: [a, b, c])
        run(&slot, .received(.install(Installation(set: set(2, [a, b, c]), base: set(1, [a, b, c]), hash: 9)), from: a))
        run(&slot, .received(.claim(term(3, c), base: set(1, [a, b, c])), from: c))
        #expect(run(&slot, .collected(term(2), hash: 9)) == [])
        #expect(slot.record.content == term(1))
        let late = FactSlot.Input.received(.install(Installation(set: set(2, [a, b, c]), base: set(1, [a, b, c]), hash: 9)), from: a)
        #expect(run(&slot, late) == [.send(.refusal(promised: term(3, c)), to: a)])
    }

    @Test("One node installs by its own disk") func alone() {
        var slot = slot(installed: [a])
        #expect(run(&slot, .ringChanged([a], others: [])).last == .collect(term(2), from: [a]))
        #expect(run(&slot, .collected(term(2), hash: 7)).last == .activate(term(2)))
        #expect(slot.isAcknowledged(by: [a]))
    }

    @Test("Another ring during the installation starts a larger term") func ringDuringInstallation() {
        var slot = installing(installed: [a, b, c])
        #expect(run(&slot, .ringChanged([a, b, d], others: [])).contains(.send(.claim(term(3), base: set(1, [a, b, c])), to: c)))
        var other = installing(installed: [a, b, c])
        run(&other, .ringChanged([b, a, c], others: []))
        #expect(other.state == .replica(term(2)), "another node is the owner")
    }

    // MARK: Active

    @Test("A disk that missed the installation fetches the content when it hears of it") func late() {
        var slot = slot(c, installed: [a, b, c])
        let outputs = run(&slot, .received(.installed(set(2, [a, b, c])), from: a))
        #expect(outputs.contains(.collect(term(2), from: [a])))
        #expect(run(&slot, .collected(term(2), hash: 9)).last == .send(.heard(term(2)), to: a))
        #expect(slot.state == .replica(term(2)))
    }

    @Test("A deposed owner is refused when it says that its term is installed, and the set is learned") func lateInstalled() {
        var slot = slot(b, installed: [a, b, c])
        run(&slot, .received(.claim(term(5, c), base: set(1, [a, b, c])), from: c))
        let outputs = run(&slot, .received(.installed(set(2, [a, b, d])), from: a))
        #expect(outputs.first == .send(.refusal(promised: term(5, c)), to: a))
        #expect(slot.record.installed == set(2, [a, b, d]))
    }

    @Test("An active term goes on while the ring names its disks, and after it names another owner") func ringWhileActive() {
        var slot = active(installed: [a, b, c])
        // By another ring another node may have claimed the slot, so the owner asks the disks.
        let questions = [b, c].map { FactSlot.Output.send(.installed(set(2, [a, b, c])), to: $0) }
        #expect(run(&slot, .ringChanged([a, c, b], others: [])) == questions)
        #expect(run(&slot, .ringChanged([b, a, c], others: [])) == questions)
        #expect(isActive(slot))
        let outputs = run(&slot, .ringChanged([a, b, d], others: []))
        #expect(outputs.first == .deactivate(term(2)))
        #expect(outputs.contains(.send(.claim(term(3), base: set(2, [a, b, c])), to: c)))
    }

    @Test("A row is acknowledged by the owner's disk and a majority of the installed set") func acknowledges() {
        var slot = active(installed: [a, b, c], ring: [a, b, d])
        #expect(slot.isAcknowledged(by: [a, d]))
        #expect(!slot.isAcknowledged(by: [a]))
        #expect(!slot.isAcknowledged(by: [b, d]))
        #expect(!slot.isAcknowledged(by: [a, c]), "c is of the set before")
        run(&slot, .received(.refusal(promised: term(3, b)), from: b))
        #expect(!slot.isAcknowledged(by: [a, b, d]))
    }

    // MARK: Time and restarts

    @Test("A tick sends again what has no answer, in each state") func ticks() {
        var claim = claiming(installed: [a, b, c])
        #expect(run(&claim, .tick) == [b, c].map { .send(.claim(term(2), base: set(1, [a, b, c])), to: $0) })
        var collect = claiming(installed: [a, b, c])
        run(&collect, .received(promise(2, hash: 8), from: b))
        #expect(run(&collect, .tick) == [.collect(term(2), from: [a, b])])
        var install = installing(installed: [a, b, c], ring: [a, d, e])
        let message = TermMessage.install(Installation(set: set(2, [a, d, e]), base: set(1, [a, b, c]), hash: 7))
        #expect(run(&install, .tick) == [d, e].map { .send(message, to: $0) })
        run(&install, .received(.stored(term(2)), from: d))
        #expect(run(&install, .tick) == [b, c, e].map { .send(message, to: $0) })
        var active = active(installed: [a, b, c])
        run(&active, .received(.heard(term(2)), from: c))
        #expect(run(&active, .tick) == [.send(.installed(set(2, [a, b, c])), to: b)])
        run(&active, .received(.heard(term(2)), from: b))
        #expect(run(&active, .tick) == [])
    }

    @Test("A restarted owner claims a larger term than any that it has begun") func restart() {
        let claimed = claiming(installed: [a, b, c])
        var slot = FactSlot(own: a, record: claimed.record)
        #expect(slot.state == .replica(term(1)))
        #expect(run(&slot, .ringChanged([a, b, c], others: [])).contains(.send(.claim(term(3), base: set(1, [a, b, c])), to: b)))
    }

    @Test("Each disk serves its rows for the term that it has promised last") func serves() {
        var slot = slot(b, installed: [a, b, c])
        run(&slot, .received(.claim(term(2), base: set(1, [a, b, c])), from: a))
        #expect(slot.serves(term(2)))
        run(&slot, .received(.claim(term(3, c), base: set(1, [a, b, c])), from: c))
        #expect(!slot.serves(term(2)))
    }
}
