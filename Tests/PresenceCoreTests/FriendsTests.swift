import PresenceWire
import Testing

@testable import PresenceCore

/// T28–T31, R3: the friends of a user by the calls of the relationship chain, and their changes that the user receives.
@Suite struct FriendsTests {
    var cluster = TestCluster(nodes: 3)

    private mutating func decide(_ call: ChainCall, by user: String) {
        cluster.call(.chain(call), by: user, on: 2)
        cluster.advance(.milliseconds(50))
        guard case .owner(.chained(let outcomes)) = cluster.lastAnswer(on: 2), outcomes.allSatisfy({ $0.code == .done }) else {
            Issue.record("\(call) of \(user) is answered \(String(describing: cluster.lastAnswer(on: 2)))")
            return
        }
    }

    private mutating func befriend(_ user: String, _ friends: [String]) {
        for friend in friends { decide(.add(PresenceCoreTests.user(friend), SentRequest(addTime: 0), isTwoWay: true), by: user) }
    }

    private mutating func unfriend(_ user: String, _ friends: [String]) {
        decide(.delete(friends.map { PresenceCoreTests.user($0) }, isTwoWay: true), by: user)
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
        unfriend("bob", ["ann", "carl"])
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
        unfriend("ann", ["bob"])
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

    @Test("A client that resumes is sent a friend that was added before, and whose session it has not followed") mutating func resumed() {
        cluster.login("ann", on: 0, customStatus: "here")
        let bob = cluster.login("bob", on: 1)
        cluster.advance(.seconds(1))
        cluster.setStatus("bob", "latest", on: 1)
        let position = cluster.clients[bob].lastEventID
        cluster.lose(bob)
        cluster.advance(.seconds(1))
        befriend("bob", ["ann"])
        cluster.advance(.seconds(60))
        let again = cluster.login("bob", on: 2, resumeFrom: position)
        #expect(cluster.clients[again].view["ann"]?["customStatus"] == .string("here"))
        cluster.setStatus("ann", "busy", on: 0)
        #expect(cluster.clients[again].view["ann"]?["customStatus"] == .string("busy"))
    }

    /// The rows of the friendship wait for a disk, while positions go on.
    @Test("A client whose session ends before the friend's status was sent receives the status when it resumes")
    mutating func lostBeforePublication() {
        cluster.login("ann", on: 0, customStatus: "here")
        let bob = cluster.login("bob", on: 1)
        let owner = cluster.ownerIndex(of: "bob")
        cluster.heldDisks = [0, 1, 2]
        cluster.call(.chain(.add(user("ann"), SentRequest(addTime: 0), isTwoWay: true)), by: "bob", on: 2)
        cluster.advance(.seconds(1))
        cluster.setStatus("bob", "latest", on: 1)
        let position = cluster.clients[bob].lastEventID
        #expect(cluster.clients[bob].view["ann"] == nil && position > 0 && owner >= 0)
        cluster.lose(bob)
        cluster.heldDisks = []
        cluster.advance(.seconds(3))
        let again = cluster.login("bob", on: 2, resumeFrom: position)
        cluster.advance(.milliseconds(100))
        #expect(cluster.clients[again].view["ann"]?["customStatus"] == .string("here"))
    }

    @Test(
        "After a restart of the only node a client that resumes is shown once a friend who has left since, and nobody who had left before",
        arguments: [(10, nil), (1, "later")] as [(Int, String?)])
    func restartAlone(secondsBefore seconds: Int, shown: String?) throws {
        var cluster = TestCluster(nodes: 1)
        cluster.login("ann", on: 0)
        let bob = cluster.login("bob", on: 0)
        cluster.call(.chain(.add(user("ann"), SentRequest(addTime: 0), isTwoWay: true)), by: "bob", on: 0)
        cluster.advance(.seconds(1))
        cluster.call(.chain(.delete([user("ann")], isTwoWay: true)), by: "bob", on: 0)
        cluster.advance(.seconds(seconds))
        cluster.setStatus("ann", "later", on: 0)
        cluster.setStatus("bob", "latest", on: 0)
        let position = cluster.clients[bob].lastEventID
        cluster.kill(0)
        try cluster.restart(0)
        cluster.advance(.seconds(1))
        let again = cluster.login("bob", on: 0, resumeFrom: position)
        cluster.advance(.milliseconds(100))
        #expect(cluster.clients[again].view["ann"]?["customStatus"] == shown.map { .string($0) })
    }

    @Test("All 10,000 friends of a user are in the list that the gateways receive, and each change costs one push")
    mutating func tenThousand() throws {
        set(#"{"friends.max":10000}"#)
        let bob = cluster.login("bob", on: 1)
        cluster.login("friend-4999", on: 0)
        for start in stride(from: 0, to: 10_000, by: 100) {
            let friends = (start..<start + 100).map { FriendImport(user: user("friend-\($0)")) }
            cluster.call(.friendCall(.importFriends(friends)), by: "bob", on: 2, origin: .backEndForCaller)
        }
        cluster.advance(.seconds(1))
        #expect(cluster.clients[bob].view["friend-4999"]?["statusType"] == .string("ONLINE"))
        let whole = cluster.processes[cluster.ownerIndex(of: "bob")].node.owner.list(of: user("bob"))
        #expect(whole.added.count == 10_000 && whole.profiles.isEmpty)
        let told = cluster.clients[bob].events.count
        cluster.setStatus("friend-4999", "busy", on: 0)
        #expect(cluster.clients[bob].view["friend-4999"]?["customStatus"] == .string("busy"))
        #expect(cluster.clients[bob].events.count == told + 1)
    }
}
