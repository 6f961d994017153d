import PresenceWire
import Testing

@testable import PresenceCore

/// R6: how many users may follow one user, counted over all nodes.
@Suite struct FollowersTests {
    var cluster = TestCluster(nodes: 3)

    private mutating func allow(_ followers: Int, _ settings: String = "") {
        cluster.call(
            .setAppPolicy(Array("{\"settings\":{\"subscription.maxPerTarget\":\(followers)\(settings)}}".utf8)), by: "admin", on: 0)
        cluster.advance(.milliseconds(100))
    }

    /// Whether `user` may follow `target` from now on.
    private mutating func follows(_ user: String, _ target: String, on node: Int) -> Bool {
        guard case .subscribed(_, _, let followerLimitReached, _, _, _, _) = cluster.subscribe(user, to: [target], on: node) else {
            Issue.record("\(user) is answered \(cluster.lastAnswer(on: node).map { "\($0)" } ?? "nothing")")
            return false
        }
        return !followerLimitReached.contains(self.user(target))
    }

    private func user(_ id: String) -> UserID { UserID(app: "default", id: id) }

    @Test("The follower limit is reached exactly, and the next follower is refused by name", arguments: [1, 2, 3, 7]) mutating func limit(
        most: Int
    ) {
        allow(most)
        for number in 0..<most { #expect(follows("fan\(number)", "star", on: number % 3)) }
        for node in 0..<3 { #expect(!follows("late\(node)", "star", on: node)) }
        // A follower may call again, and every user may follow others.
        #expect(follows("fan0", "star", on: 2))
        #expect(follows("late0", "somebody", on: 2))
        cluster.call(.unsubscribeUserStatus([user("star")]), by: "fan0", on: 1)
        #expect(follows("late1", "star", on: 0))
        #expect(!follows("late2", "star", on: 0))
    }

    @Test("5,000 users follow, and the next one is refused") mutating func fiveThousand() {
        for number in 0..<5_000 where !follows("fan\(number)", "star", on: number % 3) { Issue.record("\(number) is refused") }
        for node in 0..<3 { #expect(!follows("late\(node)", "star", on: node)) }
    }

    @Test("One of several targets is refused, and the others are followed") mutating func oneOfSeveral() {
        allow(1)
        _ = follows("fan", "star", on: 0)
        let answer = cluster.subscribe("ann", to: ["bob", "star", "carl"], on: 1, sync: true)
        guard case .subscribed(_, _, [user("star")], _, _, let records?, let users) = answer else {
            Issue.record("\(answer.map { "\($0)" } ?? "nothing")")
            return
        }
        #expect(users == [user("bob"), user("carl")])
        #expect(records.count == 2)
    }

    @Test("If errors fail the whole call, no target is followed") mutating func wholeCall() {
        allow(1, #","errors.shape":"wholeCall""#)
        _ = follows("fan", "star", on: 0)
        #expect(cluster.subscribe("ann", to: ["bob", "star"], on: 1) == .refused(.tooManyFollowers([user("star")], most: 1)))
    }

    /// R7, reported as T37 reports errors.
    @Test("Without room for all targets no target is followed") mutating func noRoom() {
        let settings = #"{"subscription.maxPerSubscriber":2,"subscription.overflow":"reject","errors.shape":"wholeCall"}"#
        cluster.call(.setAppPolicy(Array("{\"settings\":\(settings)}".utf8)), by: "admin", on: 0)
        cluster.advance(.milliseconds(100))
        let refusal = CallAnswer.refused(.tooManySubscriptions([user("dora")], most: 2))
        #expect(cluster.subscribe("bob", to: ["ann", "carl", "dora"], on: 1) == refusal)
        #expect(followed(by: "bob") == [])
        for node in 0..<3 { #expect(follows("bob", "ann", on: node) && follows("bob", "carl", on: node)) }
        #expect(cluster.subscribe("bob", to: ["dora", "ann"], on: 2) == refusal)
        #expect(followed(by: "bob") == [user("ann"), user("carl")])
    }

    private mutating func followed(by id: String) -> [UserID] {
        guard case .subscriptions(let page, _, _) = cluster.call(.getSubscribedUserStatus(only: nil, offset: 0, limit: 10), by: id, on: 0)
        else {
            Issue.record("no list")
            return []
        }
        return page.map(\.target).sorted()
    }

    @Test("The count survives the nodes that kept it") mutating func lostNodes() throws {
        allow(6)
        for number in 0..<6 { #expect(follows("fan\(number)", "star", on: number % 3)) }
        cluster.kill(0)
        cluster.advance(.seconds(4))
        #expect(!follows("late", "star", on: 1))
        try cluster.restart(0)
        cluster.advance(.seconds(20))
        #expect(!follows("late", "star", on: 0))
    }

    /// Against a model, by any sequence of calls on any nodes.
    @Test("The limit is never exceeded and never missed", arguments: 1...8) mutating func model(most: Int) {
        allow(most)
        var random = SplitMix64(seed: UInt64(most))
        var followers: [Set<String>] = [[], []]
        for _ in 0..<150 {
            let (user, star) = ("fan\(random.next() % 12)", Int(random.next() % 2))
            let node = Int(random.next() % 3)
            if random.next() % 3 == 0 {
                cluster.call(.unsubscribeUserStatus([self.user("star\(star)")]), by: user, on: node)
                followers[star].remove(user)
            } else {
                let hasRoom = followers[star].contains(user) || followers[star].count < most
                #expect(follows(user, "star\(star)", on: node) == hasRoom)
                if hasRoom { followers[star].insert(user) }
            }
        }
        let counted = cluster.processes.map { $0.node.owner.users.followersCount(of: user("star0")) }.reduce(0, +)
        #expect(counted == followers[0].count)
    }

    @Test("No answer overflows the sum") mutating func overflow() {
        let process = cluster.processes[0]
        let call = process.node.machines.calls.waiting.add(
            PendingCalls.Pending(
                gateway: 0, token: 1, caller: user("ann"), viewer: nil, call: .getVisibility, deadline: cluster.now.instant, begunAt: .zero,
                originSessions: []))
        process.node.machines.calls.waiting[call]?.followerSums = PendingCalls.FollowerSums(targets: [user("star")], counts: [1])
        for _ in 0..<3 { process.node.machines.calls.add([.max, 7], to: call) }
        #expect(process.node.machines.calls.waiting[call]?.followerSums?.counts == [1 + 3 << 32])
    }

    @Test("Shared counts beyond the bound are dropped") func sharedMax() {
        var followers = FollowerCounts()
        followers.change(user("star"), by: 1)
        for number in 0...FollowerCounts.sharedMax { _ = followers.share(user("\(number)")) }
        #expect(followers.share(user("star")) == 1)
        #expect(!followers.hasRoom(for: user("star"), share: 5))
        #expect(followers.hasRoom(for: user("1"), share: 5))
    }
}
