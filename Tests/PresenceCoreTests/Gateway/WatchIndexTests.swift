import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct WatchIndexTests: ~Copyable {
    var watches = WatchIndex()

    /// Adds users and, for each of them, a session with the same index.
    private mutating func open(_ names: String...) -> [WatchIndex.UserIndex] {
        names.enumerated().map { number, name in
            let index = watches.insert(user(name))
            watches.addSession(UInt32(number), of: index)
            return index
        }
    }

    @Test("A session follows a user once, and only the first follower of a user counts as the first")
    mutating func follow() {
        let users = open("ann", "bob")
        expect(watches.follow(users[0], by: 1) == .followed(isFirst: true))
        expect(watches.follow(users[0], by: 0) == .followed(isFirst: false))
        expect(watches.follow(users[0], by: 1) == .unchanged)
        expect(watches.watchers(of: users[0]) == [1, 0] && watches.targets(of: 1) == [users[0]])
        watches.checkInvariants()
    }

    @Test("The targets of a session are sorted, in whatever order it followed them")
    mutating func targetsAreSorted() {
        let users = open("ann", "bob", "carl")
        for user in [2, 0, 1] { _ = watches.follow(users[user], by: 0) }
        expect(watches.targets(of: 0) == users.sorted())
        expect(watches.follows(users[1], 0) && !watches.follows(users[1], 1))
        watches.checkInvariants()
    }

    @Test("When a session stops following, the watcher that takes its position can stop as well")
    mutating func unfollowMovesTheLastWatcher() {
        let users = open("ann", "bob", "carl", "dora")
        for session in 0..<UInt32(4) { _ = watches.follow(users[0], by: session) }
        expect(watches.unfollow(users[0], by: 1))
        expect(watches.watchers(of: users[0]) == [0, 3, 2])
        watches.checkInvariants()
        expect(watches.unfollow(users[0], by: 3))
        expect(watches.watchers(of: users[0]) == [0, 2])
        expect(!watches.unfollow(users[0], by: 3))
        watches.checkInvariants()
    }

    @Test("A user whose profile alone is followed stays, and the watcher that takes a position can stop as well")
    mutating func profiles() {
        let users = open("ann", "bob", "carl")
        let dora = watches.insert(user("dora"))
        expect(watches.followProfile(of: dora, by: 1) == .followed(isFirst: true))
        expect(watches.followProfile(of: dora, by: 1) == .unchanged)
        expect(watches.followProfile(of: dora, by: 0) == .followed(isFirst: false))
        expect(watches.follow(dora, by: 2) == .followed(isFirst: false))
        expect(watches.followProfile(of: users[0], by: 1) == .followed(isFirst: true))
        expect(watches.profiles.targets(of: 1) == [users[0], dora] && watches.targets(of: 1) == [])
        expect(watches.unfollow(dora, by: 2) && watches.removeUnused([dora]) == [])
        watches.checkInvariants()
        expect(watches.unfollowProfile(of: dora, by: 1) && watches.profiles.watchers(of: dora) == [0])
        watches.checkInvariants()
        expect(watches.unfollowProfile(of: dora, by: 0) && !watches.unfollowProfile(of: dora, by: 0))
        expect(watches.removeUnused([dora]) == [user("dora")])
        watches.checkInvariants()
    }

    @Test("Only users without watchers and sessions are removed, and each is returned once")
    mutating func removeUnused() {
        let users = open("ann", "bob")
        let carl = watches.insert(user("carl"))
        _ = watches.follow(users[1], by: 0)
        watches.removeSession(1, of: users[1])
        expect(watches.removeUnused([users[0], users[1], carl, carl]) == [user("carl")])
        expect(watches.usersCount == 2 && watches.index(of: user("carl")) == nil)
        _ = watches.unfollow(users[1], by: 0)
        expect(watches.removeUnused([users[1]]) == [user("bob")])
        expect(watches.sessions(of: users[0]) == [0])
        watches.checkInvariants()
    }

    @Test("The version of a subscription list and the time since when a record is known only rise")
    mutating func versionsRise() {
        let ann = open("ann")[0]
        for stamp in [3, 7, 5] as [UInt64] { watches.raiseListVersion(of: ann, to: Version(stamp: stamp, node: 1)) }
        expect(watches.listVersion(of: ann) == Version(stamp: 7, node: 1))
        watches.raiseKnownSince(of: ann, to: 9)
        expect(watches.record(of: ann) == nil)
        watches.store(Record(blank: user("ann")), of: ann)
        for time in [4, 8, 6] as [Milliseconds] { watches.raiseKnownSince(of: ann, to: time) }
        expect(watches.record(of: ann)?.knownSince == 8)
    }

    @Test("Both directions agree after a thousand random changes")
    mutating func randomChanges() {
        var random = SplitMix64(seed: 7)
        let users = open("ann", "bob", "carl", "dora", "eve", "fred")
        var expected: Set<[UInt32]> = []
        for _ in 0..<1_000 {
            let (user, session) = (users.randomElement(using: &random)!, UInt32.random(in: 0..<6, using: &random))
            if Bool.random(using: &random) {
                let isNew = watches.follow(user, by: session) != .unchanged
                expect(isNew == expected.insert([session, user]).inserted)
            } else {
                let wasFollowing = watches.unfollow(user, by: session)
                expect(wasFollowing == (expected.remove([session, user]) != nil))
            }
            watches.checkInvariants()
        }
        for session in 0..<UInt32(6) {
            expect(watches.targets(of: session) == users.filter { expected.contains([session, $0]) }.sorted())
        }
    }
}
