import PresenceWire
import Testing

@testable import PresenceCore

/// The end of a friendship that hides a user with visibility `friends` soon after a change: the former friend sees a loss.
@Suite struct WaitingRemovalsTests {
    var cluster = TestCluster(nodes: 3)
    let ann: String
    let ben: String
    private var phone = 0

    init() {
        cluster.waitsForHides = false
        (ann, ben) = (cluster.user(ownedBy: 0), cluster.user(ownedBy: 1))
        cluster.login(ann, on: 1)
        phone = cluster.login(ben, on: 2)
        cluster.subscribe(ben, to: [ann], on: 2)
        cluster.call(.chain(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true)), by: ann, on: 0)
        cluster.advance(.seconds(5))
        cluster.call(.setVisibility(.init(mode: .friends)), by: ann, on: 0)
        cluster.advance(.seconds(5))
        cluster.setStatus(ann, "busy", on: 0)
        cluster.advance(.milliseconds(100))
    }

    private func friends(of name: String) -> [String] {
        cluster.processes[cluster.ownerIndex(of: name)].node.liveKeys(.friend, of: user(name))
    }

    private func codes(of answer: CallAnswer?) -> [ChainCode]? { answer?.outcomes?.map(\.code) }

    /// The status of ann as ben's device shows it.
    private var seen: String? { cluster.clients[phone].view[ann]?["statusType"]?.textValue }

    /// The time from the last sign of life of ann to her OFFLINE, as ben's device shows it.
    private var gone: Milliseconds? {
        let view = cluster.clients[phone].view[ann]
        guard let seenAt = view?["lastSeenTime"]?.number, let goneAt = view?["lastOnlineStatusUpdateTime"]?.number else { return nil }
        return goneAt - seenAt
    }

    private func deletion(isTwoWay: Bool) -> Call { .chain(.delete([user(isTwoWay ? ann : ben)], isTwoWay: isTwoWay)) }

    @Test("A friend who is removed from the own list alone sees a loss, and the call is answered then", arguments: [false, true])
    mutating func oneWay(deletesAll: Bool) {
        let askedAt = cluster.now.wall
        cluster.call(deletesAll ? .chain(.deleteAll(isTwoWay: false)) : deletion(isTwoWay: false), by: ann, on: 0)
        cluster.advance(.milliseconds(1_900))
        #expect(friends(of: ann).isEmpty && friends(of: ben) == [ann])
        #expect(cluster.lastAnswer(on: 0) == nil && seen == "ONLINE")
        cluster.advance(.milliseconds(300))
        #expect(codes(of: cluster.lastAnswer(on: 0)) == [.done] && seen == "OFFLINE" && gone == 2_000)
        #expect(cluster.clients[phone].view[ann]?["lastSeenTime"]?.number == askedAt)
    }

    @Test("A friend who removes the user on both sides sees a loss, and that call is answered at once") mutating func byTheFriend() {
        cluster.call(deletion(isTwoWay: true), by: ben, on: 2)
        cluster.advance(.milliseconds(200))
        #expect(codes(of: cluster.lastAnswer(on: 2)) == [.done] && friends(of: ann).isEmpty && friends(of: ben).isEmpty)
        cluster.advance(.milliseconds(1_700))
        #expect(seen == "ONLINE")
        cluster.advance(.milliseconds(300))
        #expect(seen == "OFFLINE" && gone == 2_000)
    }

    @Test("A friend whom the user removes on both sides is told at once, and sees the user OFFLINE at once") mutating func twoWay() {
        cluster.call(.chain(.delete([user(ben)], isTwoWay: true)), by: ann, on: 0)
        cluster.advance(.milliseconds(200))
        #expect(codes(of: cluster.lastAnswer(on: 0)) == [.done] && seen == "OFFLINE" && friends(of: ben).isEmpty)
    }

    @Test("A friend who is added again before the hiding is shown nothing, and both calls are answered") mutating func addedAgain() {
        cluster.call(deletion(isTwoWay: false), by: ann, on: 0)
        cluster.advance(.milliseconds(500))
        let events = cluster.clients[phone].events.count
        cluster.call(.chain(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true)), by: ann, on: 0)
        cluster.advance(.seconds(4))
        #expect(cluster.processes[0].answers.values.count { codes(of: $0) == [.done] } == 3)
        #expect(cluster.clients[phone].events.count == events && seen == "ONLINE" && friends(of: ann) == [ben])
    }

    @Test("A repetition of the call with the same key has the same answer, while the user hides and afterwards", arguments: [false, true])
    mutating func repeated(waits: Bool) {
        if !waits { cluster.advance(.seconds(5)) }
        let key = CallKey("delete", digest: 1)
        var tokens: [UInt64?] = []
        for node in 0..<3 {
            cluster.call(deletion(isTwoWay: false), key: key, by: ann, on: node)
            cluster.advance(.milliseconds(300))
            #expect(codes(of: cluster.lastAnswer(on: node)) == (waits ? nil : [.done]))
            tokens.append(cluster.processes[node].answers.keys.max())
        }
        cluster.advance(.milliseconds(1_500))
        for node in 0..<3 {
            let token = cluster.processes[node].answers.keys.max()
            #expect(codes(of: token.flatMap { cluster.processes[node].answers[$0] }) == [.done] && (token != tokens[node]) == waits)
        }
        cluster.call(deletion(isTwoWay: false), key: key, by: ann, on: 1)
        cluster.advance(.milliseconds(100))
        #expect(codes(of: cluster.lastAnswer(on: 1)) == [.done] && seen == "OFFLINE")
    }

    @Test("A user who logs out meanwhile is not shown to the former friend any more") mutating func logsOutMeanwhile() {
        cluster.call(deletion(isTwoWay: false), by: ann, on: 0)
        cluster.expectLogoutEndsWait(of: ann, calledOn: 0, shownTo: phone)
    }

    @Test("A new owner shows the former friend a loss that is newer than all that the friend has seen", arguments: [false, true])
    mutating func ownerChanges(isKilled: Bool) throws {
        let changedAt = try #require(cluster.clients[phone].view[ann]?["lastUpdateTime"]?.number)
        cluster.call(deletion(isTwoWay: false), by: ann, on: 1)
        cluster.advance(.milliseconds(500))
        if isKilled { cluster.kill(0) } else { cluster.leave(0) }
        cluster.advance(.seconds(12))
        #expect(cluster.record(of: ann).statusType == .online && cluster.statuses(told: phone, of: ann).last == "OFFLINE")
        #expect(try #require(cluster.clients[phone].view[ann]?["lastSeenTime"]?.number) >= changedAt)
        #expect(cluster.clients.allSatisfy { $0.wentBack == 0 })
    }
}
