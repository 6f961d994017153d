import PresenceWire
import Testing

@testable import PresenceCore

/// The machines of a node, each driven by itself.
@Suite struct MachineTests {
    private let now = Now(instant: Instant(nanoseconds: 1_000_000_000), wall: 1_000_000)

    private static func peer(_ name: String, generation: UInt64 = 1) -> Peer {
        Peer(id: NodeID(name), generation: generation, address: "\(name):7601")
    }

    private static func cluster(with names: [String] = [], joins: Bool = false) -> Cluster {
        var cluster = Cluster(own: peer("a"), name: "test", gatewaysCount: 2, joins: joins, settings: CoreSettings())
        for name in names {
            let index = cluster.insert(peer(name), rowVersion: .zero).index
            cluster.peers[index].state = .alive
            cluster.peers[index].wasMember = true
        }
        return cluster
    }

    // MARK: Links

    @Test("A message is dropped while its link is down, and queued while it is up") func links() {
        var cluster = Self.cluster(with: ["b"])
        cluster.send(.requestSync, to: 1)
        #expect(cluster.links[1].depth == 0 && cluster.outbox.effects.isEmpty)
        cluster.links.open(to: 1)
        cluster.send(.requestSync, to: 1)
        cluster.send(.requestOffer, to: 1)
        #expect(cluster.links[1].depth == 2)
        #expect(cluster.outbox.effects.count == 1, "one effect asks for both")
        cluster.links.close(to: 1)
        #expect(cluster.links[1].depth == 0)
    }

    @Test("Messages of a node to itself keep their order, and need no link") func local() {
        var cluster = Self.cluster()
        cluster.send(.requestSync, to: 0)
        cluster.send(.requestOffer, to: 0)
        let taken = (0..<3).map { _ in cluster.links.takeLocal() }
        #expect(taken == [.requestSync, .requestOffer, nil])
    }

    @Test("A connection counts only if it is newer than the last one") func connections() {
        var cluster = Self.cluster(with: ["b"])
        let opened = [(1, 2), (1, 2), (1, 1), (2, 1)] as [(UInt64, UInt64)]
        let accepted = opened.map { cluster.links.accept(ConnectionID(generation: $0.0, number: $0.1), from: 1) }
        #expect(accepted == [true, false, false, true])
    }

    @Test("A message to gateways reaches those of the mask") func gateways() {
        var cluster = Self.cluster()
        cluster.sendToGateways(.position(7), mask: 0b10)
        guard case .send(let gateway, _)? = cluster.outbox.effects.first else { return #expect(Bool(false), "no effect") }
        #expect(gateway == 1 && cluster.outbox.effects.count == 1)
    }

    // MARK: Peers

    @Test("The index of a removed node is given to the next new one") func indices() {
        var cluster = Self.cluster(with: ["b", "c"])
        cluster.peers[1].state = .left
        cluster.remove(1)
        #expect(cluster.peerIndex("b") == nil)
        let (first, again) = (cluster.insert(Self.peer("d"), rowVersion: .zero), cluster.insert(Self.peer("d"), rowVersion: .zero))
        #expect(first.index == 1 && first.isNew)
        #expect(again.index == 1 && !again.isNew)
        cluster.peers.checkInvariants()
    }

    @Test("Draining nodes hold no slots, unless all drain") func ringMembers() {
        var cluster = Self.cluster(with: ["b"])
        cluster.peers[1].role = .leaving
        #expect(cluster.peers.ringMembers(isDraining: false).map(\.id) == ["a"])
        #expect(Set(cluster.peers.ringMembers(isDraining: true).map(\.id)) == ["a", "b"])
        #expect(!cluster.othersStay)
    }

    @Test("A restarted member is lost, greeted again and written down") func restartedMember() {
        var cluster = Self.cluster(with: ["b"])
        let steps = cluster.follow(Self.peer("b", generation: 2), .alive, .serving, at: 1)
        #expect(steps.map { "\($0)" } == ["observeAll", "lose", "greet(isNew: false)", "store"])
    }

    @Test("A suspicion changes nothing that is written down") func suspicion() {
        var cluster = Self.cluster(with: ["b"])
        let steps = cluster.follow(Self.peer("b"), .suspect, .serving, at: 1)
        #expect(steps.map { "\($0)" } == ["greet(isNew: false)"])
    }

    // MARK: Durability

    @Test("A disk that takes nothing is tried at each interval, until it takes rows") func diskHealth() {
        var disk = DiskHealth()
        disk.note(isDurable: false, retryAfter: .milliseconds(500), at: now)
        var later = now
        var retries = [disk.tick(retryAfter: .milliseconds(500), at: later)]
        later.instant += .milliseconds(500)
        for _ in 0..<2 { retries.append(disk.tick(retryAfter: .milliseconds(500), at: later)) }
        #expect(disk.isFailing)
        #expect(retries == [false, true, false])
        disk.note(isDurable: true, retryAfter: .milliseconds(500), at: later)
        later.instant += .seconds(5)
        retries.append(disk.tick(retryAfter: .milliseconds(500), at: later))
        #expect(!disk.isFailing)
        #expect(retries.last == false)
    }

    @Test("Changes are refused while the disk fails, and without a second disk where there are other members") func refusals() {
        var replication = Replication()
        #expect(replication.refusalOfChange(of: user("ann"), Self.cluster()) == nil)
        var cluster = Self.cluster(with: ["b"])
        #expect(replication.refusalOfChange(of: user("ann"), cluster)?.code == 50_001)
        cluster.peers[1].role = .leaving
        #expect(replication.refusalOfChange(of: user("ann"), cluster) == nil, "a draining node keeps it while no other is there")
        replication.stored(1, isDurable: false, CoreSettings(), at: now)
        #expect(replication.refusalOfChange(of: user("ann"), Self.cluster())?.code == 50_001)
    }

    @Test("A barrier is acknowledged only once no view is outdated, also beyond the bound of held barriers") func heldBarriers() {
        var replication = Replication()
        var outbox = Outbox()
        for ticket in 1...10_001 as ClosedRange<UInt64> {
            replication.acknowledge(ticket, to: 1, isBarrier: true, staleCount: 1, &outbox)
        }
        replication.releaseBarriers(staleCount: 1, &outbox)
        #expect(outbox.messages.isEmpty)
        replication.releaseBarriers(staleCount: 0, &outbox)
        let sent = outbox.messages.map(\.message)
        #expect(sent.count == 10_000 && sent.last == .replicated(ticket: 10_000), "the caller of the last one is answered 50001")
    }

    // MARK: Relays

    @Test("A position counts once every named record has come") func relays() {
        var relays = RelayTree()
        relays.add(1)
        relays.onComplete(upTo: 10, from: 1)
        #expect(relays.knownUpTo(1) == 10)
        let fanOut = FanOut(settings: CoreSettings())
        relays.onRelayed([SlotHash(slot: 1, hash: 2)], from: 1, fanOut, retryInterval: .milliseconds(100), at: now)
        relays.onComplete(upTo: 20, from: 1)
        #expect(relays.knownUpTo(1) == 10)
        let early = relays.takeOverdue(from: 1, fanOut, at: now)
        #expect(early == nil)
        var later = now
        later.instant += .milliseconds(100)
        let overdue = relays.takeOverdue(from: 1, fanOut, at: later)
        #expect(overdue?.count == 1)
        relays.believe(1)
        #expect(relays.knownUpTo(1) == 20)
    }
}
