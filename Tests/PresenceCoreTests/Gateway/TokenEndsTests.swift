import PresenceWire
import Testing

@testable import PresenceCore

/// Sessions that end with the tokens that opened them: see ``PresenceCore/TokenEnds``.
@Suite struct TokenEndsTests {
    var cluster = TestCluster(nodes: 3)

    private func names(_ client: Int) -> [String] { cluster.clients[client].events.map(\.name) }

    private func notices(_ client: Int) -> [Int64] {
        cluster.clients[client].events.filter { $0.name == "onTokenExpiring" }.compactMap { $0.data["expiresAt"]?.number }
    }

    private mutating func advance(seconds: Int) { cluster.advance(.seconds(seconds), step: .milliseconds(250)) }

    @Test("A client is notified 30 s before its token ends, its session ends 25 s after, and watchers see OFFLINE")
    mutating func end() {
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        let expiresAt = cluster.now.wall + 60_000
        let ann = cluster.login("ann", on: 0, until: expiresAt)
        advance(seconds: 29)
        #expect(notices(ann).isEmpty)
        advance(seconds: 2)
        #expect(notices(ann) == [expiresAt])
        advance(seconds: 53)
        #expect(cluster.clients[ann].isOpen && cluster.statuses(told: bob, of: "ann").last == "ONLINE")
        advance(seconds: 2)
        #expect(!cluster.clients[ann].isOpen && cluster.clients[ann].events.last?.name == "onKickedOffline")
        #expect(cluster.clients[ann].events.last?.data["reason"] == .string(SessionEnd.tokenExpired))
        advance(seconds: 3)
        #expect(cluster.statuses(told: bob, of: "ann").last == "OFFLINE" && notices(ann) == [expiresAt])
        #expect(cluster.processes[0].gateways[0].value.counters.expiredSessions == 1)
    }

    @Test("A client whose token ends in less than 30 s is notified right after onConnected") mutating func shortToken() {
        let ann = cluster.login("ann", on: 0, until: cluster.now.wall + 3_000)
        #expect(names(ann).prefix(2) == ["onConnected", "onTokenExpiring"])
    }

    @Test("A renewal at any node moves the end of the session, and its watchers see nothing", arguments: 0..<3)
    mutating func renewal(node: Int) {
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        let start = cluster.now.wall
        let ann = cluster.login("ann", on: 0, until: start + 40_000)
        advance(seconds: 20)
        let (session, told) = (cluster.clients[ann].session, cluster.clients[bob].events.count)
        #expect(cluster.call(.renew(session, until: start + 100_000), by: "ann", on: node) == .done)
        // A token that ends earlier arrives late, and changes nothing.
        #expect(cluster.call(.renew(session, until: start + 50_000), by: "ann", on: node) == .done)
        advance(seconds: 60)
        #expect(cluster.clients[ann].isOpen && notices(ann) == [start + 40_000, start + 100_000])
        #expect(cluster.clients[bob].events.count == told)
        advance(seconds: 46)
        #expect(!cluster.clients[ann].isOpen)
    }

    @Test("A renewal with a token that ends no later leaves the end, and the client is notified again", arguments: [0, -5_000])
    mutating func sameEnd(later: Int64) {
        let expiresAt = cluster.now.wall + 20_000
        let ann = cluster.login("ann", on: 0, until: expiresAt)
        let session = cluster.clients[ann].session
        for count in 1...3 {
            advance(seconds: 1)
            #expect(notices(ann) == Array(repeating: expiresAt, count: count))
            #expect(cluster.call(.renew(session, until: expiresAt + later), by: "ann", on: 1) == .done)
        }
        #expect(cluster.call(.renew(session, until: expiresAt + 60_000), by: "ann", on: 1) == .done)
        advance(seconds: 50)
        #expect(cluster.clients[ann].isOpen && notices(ann).last == expiresAt + 60_000)
    }

    @Test("Only an open session of the caller can be renewed") mutating func unknownSession() {
        let ann = cluster.login("ann", on: 0, until: cluster.now.wall + 40_000)
        let session = cluster.clients[ann].session
        let until = cluster.now.wall + 100_000
        for (user, session) in [("bob", session), ("ann", SessionID(stamp: 1, node: 1))] {
            guard case .refused(let refusal) = cluster.call(.renew(session, until: until), by: user, on: 2) else {
                Issue.record("\(user) renewed \(session)")
                continue
            }
            #expect(refusal.code == 6017 && refusal.detail.hasPrefix("sessionID: "))
        }
        cluster.lose(ann)
        guard case .refused = cluster.call(.renew(session, until: until), by: "ann", on: 2) else {
            Issue.record("a lost session was renewed")
            return
        }
    }

    @Test("A changed token.grace holds for open sessions, too") mutating func changedGrace() {
        let ann = cluster.login("ann", on: 0, until: cluster.now.wall + 40_000)
        advance(seconds: 20)
        cluster.call(.setAppPolicy(Array(#"{"settings":{"token.grace":1}}"#.utf8)), by: "admin", on: 1)
        advance(seconds: 19)
        #expect(cluster.clients[ann].isOpen)
        advance(seconds: 3)
        #expect(!cluster.clients[ann].isOpen)
    }

    @Test("A client that comes back with another token within the grace is not seen OFFLINE") mutating func comesBack() {
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        let ann = cluster.login("ann", on: 0, device: "phone", until: cluster.now.wall + 1_000)
        advance(seconds: 27)
        #expect(!cluster.clients[ann].isOpen)
        cluster.login("ann", on: 2, device: "phone", until: cluster.now.wall + 600_000)
        advance(seconds: 5)
        #expect(!cluster.statuses(told: bob, of: "ann").contains("OFFLINE"))
    }

    @Test("A token of the far future ends no session", arguments: [0, 1, 30_000] as [Int64])
    mutating func farFuture(before: Int64) {
        let end = Int64.max - before
        let ann = cluster.login("ann", on: 0, until: end)
        advance(seconds: 60)
        #expect(cluster.clients[ann].isOpen && notices(ann).isEmpty)
    }
}
