import PresenceWire
import Testing

@testable import PresenceCore

/// T28–T31: the relationship chain's friends of a user, and their changes that the user receives.
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

    /// Subscribes to `names` as to friends.
    private mutating func followFriends(_ names: [String], by user: String) -> CallAnswer? {
        let targets = names.map { UserID(app: "default", id: $0) }
        cluster.call(.subscribeUserStatus(targets, seconds: nil, sync: false, subscribeType: 3), by: user, on: 0)
        cluster.advance(.milliseconds(50))
        return cluster.lastAnswer(on: 0)
    }

    /// The targets of the user, with the types.
    private mutating func list(of user: String, only: [String]? = nil, type: UInt8? = nil) -> [String] {
        let only = only.map { $0.map { UserID(app: "default", id: $0) } }
        cluster.call(.getSubscribedUserStatus(only: only, offset: 0, limit: 200, subscribeType: type), by: user, on: 0)
        cluster.advance(.milliseconds(50))
        guard case .subscriptions(let page, _, _) = cluster.lastAnswer(on: 0) else { return ["no answer"] }
        return page.map { "\($0.target.id) \($0.subscribeType)" }
    }

    @Test("Only friends can be followed as friends") mutating func friendsOnly() {
        cluster.login("bob", on: 1)
        befriend("bob", ["ann", "carl"])
        let answer = followFriends(["ann", "eve", "carl"], by: "bob")
        guard case .subscribed(let evicted, let refused, _, let nonFriends, _, _, let users)? = answer else {
            Issue.record("not subscribed")
            return
        }
        #expect(evicted == [] && refused == [] && nonFriends == [UserID(app: "default", id: "eve")])
        #expect(users == ["ann", "carl"].map { UserID(app: "default", id: $0) })
        #expect(list(of: "bob") == ["ann 3", "carl 3"])
        set(#"{"errors.shape":"wholeCall"}"#)
        #expect(followFriends(["carl", "eve"], by: "bob") == .refused(.noFriends([UserID(app: "default", id: "eve")])))
        #expect(list(of: "bob") == ["ann 3", "carl 3"])
    }

    /// R8, R9, R10.
    @Test("Subscriptions of one type are listed and ended without the others") mutating func types() {
        set(#"{"friends.autoNotify":false}"#)
        cluster.login("bob", on: 1)
        befriend("bob", ["ann", "carl"])
        cluster.subscribe("bob", to: ["carl", "dora", "emil"], on: 1)
        _ = followFriends(["ann"], by: "bob")
        #expect(list(of: "bob") == ["ann 3", "carl 1", "dora 1", "emil 1"])
        #expect(list(of: "bob", type: 3) == ["ann 3"])
        #expect(list(of: "bob", only: ["ann", "dora"], type: 1) == ["dora 1"])
        cluster.call(.getSubscribedUserStatus(only: nil, offset: 1, limit: 1, subscribeType: 1), by: "bob", on: 0)
        cluster.advance(.milliseconds(50))
        guard case .subscriptions(let page, _, let total) = cluster.lastAnswer(on: 0) else {
            Issue.record("no page")
            return
        }
        #expect(page.map(\.target) == [user("dora")] && total == 3)
        cluster.call(.unsubscribeUserStatus([user("ann"), user("carl")], subscribeType: 1), by: "bob", on: 0)
        cluster.advance(.milliseconds(50))
        #expect(list(of: "bob") == ["ann 3", "dora 1", "emil 1"])
        cluster.call(.unsubscribeUserStatus(nil, subscribeType: 1), by: "bob", on: 0)
        cluster.advance(.milliseconds(50))
        #expect(list(of: "bob") == ["ann 3"])
    }

    @Test("A subscription to a friend ends with the friendship") mutating func friendship() {
        set(#"{"friends.autoNotify":false}"#)
        cluster.login("ann", on: 0)
        cluster.login("carl", on: 2)
        let bob = cluster.login("bob", on: 1)
        befriend("bob", ["ann", "carl"])
        cluster.subscribe("bob", to: ["carl"], on: 1)
        _ = followFriends(["ann", "carl"], by: "bob")
        #expect(list(of: "bob") == ["ann 3", "carl 1"])
        cluster.setStatus("ann", "seen", on: 0)
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] == .string("seen"))
        befriend("bob", [])
        #expect(list(of: "bob") == ["carl 1"])
        cluster.setStatus("ann", "unseen", on: 0)
        cluster.setStatus("carl", "seen", on: 2)
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] == .string("seen"))
        #expect(cluster.clients[bob].view["carl"]?["customStatus"] == .string("seen"))
    }

    @Test("The next owner keeps a subscription to a friend") mutating func nextOwner() {
        set(#"{"friends.autoNotify":false}"#)
        let bob = cluster.user(ownedBy: 0)
        cluster.login("ann", on: 2)
        cluster.login(bob, on: 1)
        befriend(bob, ["ann"])
        _ = followFriends(["ann"], by: bob)
        #expect(list(of: bob) == ["ann 3"])
        cluster.kill(0)
        cluster.advance(.seconds(4))
        // The friendship and the list have been kept by others, and one does not end before the other is known.
        cluster.call(.getSubscribedUserStatus(only: nil, offset: 0, limit: 200), by: bob, on: 1)
        cluster.advance(.seconds(4))
        guard case .subscriptions(let page, _, _) = cluster.lastAnswer(on: 1) else {
            Issue.record("no list")
            return
        }
        #expect(page.map(\.subscribeType) == [3])
    }

    @Test("With the switch off, a friendship alone sends no status") mutating func switchOff() {
        set(#"{"friends.autoNotify":false}"#)
        cluster.login("ann", on: 0, customStatus: "here")
        let bob = cluster.login("bob", on: 1)
        befriend("bob", ["ann"])
        cluster.setStatus("ann", "busy", on: 0)
        #expect(cluster.clients[bob].view["ann"] == nil)
    }

    @Test("Users receive the changes of friends without a subscription") mutating func withoutSubscription() {
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

    @Test("Users stop receiving the changes of a former friend") mutating func endedFriendship() {
        cluster.login("ann", on: 0)
        let bob = cluster.login("bob", on: 1)
        befriend("bob", ["ann"])
        befriend("bob", [])
        let told = cluster.clients[bob].events.count
        cluster.setStatus("ann", "busy", on: 0)
        #expect(cluster.clients[bob].events.count == told)
    }

    @Test("The switch ends and starts the changes of friends, and leaves subscriptions alone") mutating func switchChanges() {
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

    @Test("A friend is still received after the subscription ends") mutating func endedSubscription() {
        cluster.login("ann", on: 0)
        let bob = cluster.login("bob", on: 1)
        befriend("bob", ["ann"])
        cluster.subscribe("bob", to: ["ann"], on: 1)
        cluster.call(.unsubscribeUserStatus(nil), by: "bob", on: 1)
        cluster.advance(.milliseconds(50))
        cluster.setStatus("ann", "busy", on: 0)
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] == .string("busy"))
    }

    @Test("The next owner sends the changes of friends") mutating func friendsOfNextOwner() {
        let bobsName = cluster.user(ownedBy: 0)
        cluster.login("ann", on: 2)
        let bob = cluster.login(bobsName, on: 1)
        befriend(bobsName, ["ann"])
        cluster.kill(0)
        cluster.advance(.seconds(4))
        cluster.setStatus("ann", "busy", on: 2)
        #expect(cluster.clients[bob].view["ann"]?["customStatus"] == .string("busy"))
    }

    /// One side of a split has raised the versions of the hidden views. The other side's list wins: it has a subscription and a newer rule.
    @Test("Raised hidden views do not make a subscription list newer") mutating func raisedHiddenViews() throws {
        cluster.login("bob", on: 1)
        befriend("bob", ["ann"])
        let owner = cluster.ownerIndex(of: "bob")
        let bob = UserID(app: "default", id: "bob")
        let before = cluster.processes[owner].node.owner.list(of: bob)
        #expect(before.added.map(\.target.id.description) == ["ann"])
        var privacy = try #require(cluster.processes[owner].node.owner.kept(bob).record.privacy)
        cluster.advance(.seconds(1))
        privacy.raise(to: Version(milliseconds: cluster.now.wall, counter: 0, node: 9))
        cluster.processes[owner].node.machines.onReplicate([Row(privacy, of: bob)], ticket: 0, from: 1, at: cluster.now)
        #expect(cluster.processes[owner].node.owner.kept(bob).record.privacy?.version ?? .zero >= privacy.version)
        #expect(cluster.processes[owner].node.owner.list(of: bob).version == before.version)
        befriend("bob", ["ann", "eve"])
        #expect(cluster.processes[owner].node.owner.list(of: bob).version > before.version)
    }
}
