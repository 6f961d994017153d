import PresenceWire
import Testing

@testable import PresenceCore

/// The calling session has the answer. The user's other sessions receive the call by their streams (R14).
@Suite struct OriginSessionTests {
    var cluster = TestCluster(nodes: 2)

    /// The events of a client's stream about a subscribe call and about bob.
    private func told(_ client: Int) -> [String] {
        cluster.clients[client].events.compactMap { event in
            if event.name == "onSubscriptionChangedOnOtherDevices" { return event.name }
            guard event.name == "onUserStatusChanged" else { return nil }
            return event.data["userStatusList"]!.elements.contains { $0["userID"]?.textValue == "bob" } ? "bob" : nil
        }
    }

    private mutating func subscribe(on node: Int, originSession: OriginSession = .unknown) {
        cluster.call(
            .subscribeUserStatus([user("bob")], seconds: nil, sync: true, subscribeType: 1), by: "ann", on: node,
            originSession: originSession)
        cluster.advance(.seconds(1))
    }

    /// If the call enters another node, its answer may be lost without the stream's node knowing it. Then the stream sends it, too.
    @Test("The only session counts as the calling one, wherever the call enters", arguments: [(0, []), (1, ["bob"])])
    mutating func onlySession(node: Int, told statuses: [String]) {
        cluster.setStatus("bob", "hello", on: 0)
        let phone = cluster.login("ann", on: 0)
        subscribe(on: node)
        #expect(told(phone) == statuses)
    }

    @Test("Of two sessions on a node the calling one receives no news of its own call") mutating func callingSession() {
        cluster.setStatus("bob", "hello", on: 0)
        let phone = cluster.login("ann", on: 0)
        let desk = cluster.login("ann", on: 0, platform: "web")
        subscribe(on: 0, originSession: .session(cluster.clients[phone].session))
        #expect(told(desk).sorted() == ["bob", "onSubscriptionChangedOnOtherDevices"])
        #expect(!told(phone).contains("onSubscriptionChangedOnOtherDevices"))
    }

    @Test("The user's only session receives the news of a back end's call", arguments: [0, 1]) mutating func backEnd(node: Int) {
        cluster.setStatus("bob", "hello", on: 0)
        let phone = cluster.login("ann", on: 0)
        subscribe(on: node, originSession: .backEnd)
        #expect(told(phone).sorted() == ["bob", "onSubscriptionChangedOnOtherDevices"])
    }
}
