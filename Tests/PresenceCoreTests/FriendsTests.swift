import PresenceWire
import Testing

@testable import PresenceCore

/// T28–T31: what the relationship chain says of a user's friends, and what the user is told of them.
@Suite struct FriendsTests {
    var cluster = TestCluster(nodes: 3)

    private mutating func befriend(_ user: String, _ friends: [String]) {
        cluster.call(.setVisibility(.init(friends: friends.map { UserID(app: "default", id: $0) })), by: user, on: 2)
        cluster.advance(.milliseconds(50))
    }

    private mutating func set(_ settings: String) {
        cluster.call(.setAppPolicy(Array("{\"settings\":\(settings)}".utf8)), by: "admin", on: 0)
        cluster.advance(.milliseconds(100))
    }

    @Test mutating func changesOfFriendsAreToldWithoutASubscription() {
        cluster.login("ann", on: 0, customStatus: "here")
        let bob = cluster.login("bob", on: 1)
        befriend("bob", ["ann"])
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] == .string("here"))
        cluster.setStatus("ann", "busy", on: 0)
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] == .string("busy"))
        let another = cluster.login("bob", on: 2, platform: "web")
        #expect(cluster.clients[another].view["ann"]?["customStatus"] == .string("busy"))
        // They take no place in the list.
        cluster.call(.getSubscribedUserStatus(only: nil, offset: 0, limit: 200), by: "bob", on: 0)
        #expect(cluster.lastAnswer(on: 0) == .subscriptions([], records: [], total: 0))
    }

    @Test mutating func whoIsNoFriendAnyMoreIsNotToldOf() {
        cluster.login("ann", on: 0)
        let bob = cluster.login("bob", on: 1)
        befriend("bob", ["ann"])
        befriend("bob", [])
        let told = cluster.clients[bob].events.count
        cluster.setStatus("ann", "busy", on: 0)
        #expect(cluster.clients[bob].events.count == told)
    }

    @Test mutating func theSwitchEndsAndBeginsWhatIsToldOfFriendsAndLeavesSubscriptions() {
        cluster.login("ann", on: 0)
        cluster.login("carl", on: 2)
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["carl"], on: 1)
        befriend("bob", ["ann"])
        set(#"{"friends.autoNotify":false}"#)
        cluster.setStatus("ann", "unseen", on: 0)
        cluster.setStatus("carl", "seen", on: 2)
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] == .string(""))
        #expect(cluster.clients[bob].view["carl"]?["customStatus"] == .string("seen"))
        set(#"{"friends.autoNotify":true}"#)
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] == .string("unseen"))
    }

    @Test mutating func aFriendIsToldOfWhenTheSubscriptionEnds() {
        cluster.login("ann", on: 0)
        let bob = cluster.login("bob", on: 1)
        befriend("bob", ["ann"])
        cluster.subscribe("bob", to: ["ann"], on: 1)
        cluster.call(.unsubscribeUserStatus(nil), by: "bob", on: 1)
        cluster.advance(.milliseconds(50))
        cluster.setStatus("ann", "busy", on: 0)
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] == .string("busy"))
    }

    @Test mutating func friendsAreToldOfByWhoOwnsTheUserNext() {
        let bobsName = cluster.user(ownedBy: 0)
        cluster.login("ann", on: 2)
        let bob = cluster.login(bobsName, on: 1)
        befriend(bobsName, ["ann"])
        cluster.kill(0)
        cluster.advance(.seconds(4))
        cluster.setStatus("ann", "busy", on: 2)
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] == .string("busy"))
    }
}
