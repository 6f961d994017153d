import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct SubscriptionsTests {
    var list = Subscriptions()

    private func entry(_ target: String, at time: Milliseconds, expiresAt: Milliseconds? = nil, type: UInt8 = 1) -> Subscription {
        Subscription(
            target: user(target), subscribeType: type, subscribedAt: time, expiresAt: expiresAt,
            version: Version(milliseconds: time, counter: 0, node: 1))
    }

    @Test("Beyond the quota the earliest subscriptions are evicted") mutating func quota() {
        for (time, target) in ["z", "m", "a", "k"].enumerated() { _ = list.merge(entry(target, at: Milliseconds(time))) }
        let evicted = list.evict(downTo: 2, version: Version(milliseconds: 9, counter: 0, node: 1))
        #expect(evicted.map(\.target) == [user("z"), user("m")])
        #expect(list.live.map(\.target) == [user("a"), user("k")])
        #expect(list.liveCount == 2)
    }

    @Test("Beyond the quota the earliest subscriptions are inactive, and an eviction leaves them in the list") mutating func inactive() {
        for (time, target) in ["z", "m", "a", "k"].enumerated() { _ = list.merge(entry(target, at: Milliseconds(time))) }
        #expect(list.inactive(beyond: 2).map(\.target) == [user("z"), user("m")])
        #expect(list.active(within: 2).live.map(\.target) == [user("a"), user("k")])
        #expect(list.active(within: 4).liveCount == 4 && list.inactive(beyond: 4) == [])
        _ = list.merge(entry("new", at: 7))
        let evicted = list.evict(downTo: 2, besides: [user("z"), user("m")], version: Version(milliseconds: 9, counter: 0, node: 1))
        #expect(evicted.map(\.target) == [user("a")])
        #expect(list.live.map(\.target) == ["k", "m", "new", "z"].map { user($0) })
    }

    /// A node restarts while a target waits for a slow disk. A client that resumes from an earlier position must still receive the target.
    @Test("An entry that has not been sent yet is not known before it is sent") mutating func unsentEntry() {
        _ = list.merge(entry("told", at: 1).observed(at: 1))
        _ = list.merge(entry("untold", at: 2).observed(at: .max))
        list.observeAll(at: 5)
        #expect(list.live.map(\.observedAt) == [5, .max])
        list.observe(user("untold"), at: 7)
        #expect(list.live.map(\.observedAt) == [5, 7])
    }

    /// The nodes that hold the subscription are down when it ends.
    @Test("An unsubscribe wins over a subscription that arrives later") mutating func lateSubscription() {
        for target in ["friend", "known"] { _ = list.merge(entry(target, at: 1, type: target == "friend" ? 3 : 1)) }
        _ = list.merge(entry("removed", at: 1))
        _ = list.remove([user("removed")], version: Version(milliseconds: 2, counter: 0, node: 1))
        let targets = ["known", "unknown", "removed", "unknown", "friend"].map { user($0) }
        let result = list.unsubscribe(targets, of: 1, version: Version(milliseconds: 5, counter: 0, node: 1), unknownAt: 5)
        #expect(result.ended.map(\.target) == [user("known")])
        #expect(result.others.map(\.target) == [user("unknown"), user("removed")])
        for target in ["known", "unknown", "removed"] {
            let isNew = list.merge(entry(target, at: 4))
            #expect(!isNew && !list.contains(user(target)), "\(target)")
        }
        #expect(list.live.map(\.target) == [user("friend")], "it is of another type")
    }

    @Test("An unsubscribe of all renews each known tombstone") mutating func unsubscribeAll() {
        for target in ["known", "removed"] { _ = list.merge(entry(target, at: 1)) }
        _ = list.remove([user("removed")], version: Version(milliseconds: 2, counter: 0, node: 1))
        let result = list.unsubscribe(nil, of: nil, version: Version(milliseconds: 5, counter: 0, node: 1), unknownAt: nil)
        #expect(result.ended.map(\.target) == [user("known")] && result.others.map(\.target) == [user("removed")])
        let isNew = list.merge(entry("removed", at: 4))
        #expect(!isNew && list.liveCount == 0)
    }

    @Test("An unsubscribe of an unknown target leaves nothing if no other node may know it") mutating func unknownTarget() {
        let result = list.unsubscribe([user("unknown")], of: nil, version: Version(milliseconds: 5, counter: 0, node: 1), unknownAt: nil)
        #expect(result.ended.isEmpty && result.others.isEmpty && list.isEmpty)
    }

    /// The answer to the first attempt was lost. The second names the targets that the first has evicted.
    @Test("The outcome of an earlier attempt is found") mutating func earlierAttempt() {
        let start = Version(milliseconds: 5, counter: 0, node: 2)
        _ = list.merge(entry("old", at: 1))
        _ = list.merge(entry("new", at: 6))
        _ = list.evict(downTo: 1, version: Version(milliseconds: 6, counter: 1, node: 1))
        let done = list.done([user("new")], since: start)
        #expect(done.added.map(\.target) == [user("new")])
        #expect(done.evicted.map(\.target) == [user("old")])
        let before = list.done([user("new")], since: Version(milliseconds: 7, counter: 0, node: 2))
        #expect(before.added.isEmpty && before.evicted.isEmpty, "written before the call began")
        let first = list.done([user("new")], since: nil)
        #expect(first.added.isEmpty, "a first attempt")
    }

    /// Another node's clock has jumped ahead, so its change carries a version after the start of this attempt.
    @Test("The outcome of another call is not an attempt of this one") mutating func otherCall() {
        let start = Version(milliseconds: 5, counter: 0, node: 2)
        for target in ["a", "b", "c", "e"] { _ = list.merge(entry(target, at: target == "c" ? 7 : 6)) }
        _ = list.evict(downTo: 3, version: Version(milliseconds: 7, counter: 1, node: 1))
        for targets in [["b", "d"], ["b"], ["c", "d"]] {
            let done = list.done(targets.map(user), since: start)
            #expect(done.added.isEmpty && done.evicted.isEmpty, "\(targets)")
        }
        let done = list.done([user("c")], since: start)
        #expect(done.added.map(\.target) == [user("c")])
        #expect(done.evicted.map(\.target) == [user("a")])
    }

    @Test("A renewal replaces the expiry and counts as the latest") mutating func renewal() {
        _ = list.merge(entry("a", at: 1, expiresAt: 10))
        _ = list.merge(entry("b", at: 2))
        _ = list.merge(entry("a", at: 3, expiresAt: 99))
        #expect(list.liveCount == 2)
        #expect(list.nextExpiry == 99)
        let evicted = list.evict(downTo: 1, version: Version(milliseconds: 9, counter: 0, node: 1))
        #expect(evicted.map(\.target) == [user("b")])
    }

    @Test("An ended subscription is a tombstone that an older entry does not revive") mutating func tombstone() {
        _ = list.merge(entry("a", at: 1, expiresAt: 10))
        #expect(list.expired(at: 9).isEmpty)
        #expect(list.expired(at: 10).map(\.target) == [user("a")])
        _ = list.remove([user("a")], version: Version(milliseconds: 10, counter: 0, node: 1))
        let isRevived = list.merge(entry("a", at: 5))
        #expect(!isRevived)
        #expect(!list.contains(user("a")))
    }

    private func ended(_ number: Int) -> Subscription {
        var entry = entry("\(number)", at: Milliseconds(number))
        entry.isRemoved = true
        return entry
    }

    private func removal(_ number: Int) -> Version { Version(milliseconds: Milliseconds(number), counter: 0, node: 1) }

    @Test("A tombstone expires, unless it is the newest change") mutating func expiredTombstone() {
        for target in ["a", "b", "c"] { _ = list.merge(entry(target, at: 1)) }
        let hash = list.hash
        _ = list.remove([user("a")], version: removal(10))
        _ = list.remove([user("b"), user("c")], version: removal(20))
        #expect(list.expiresNext == 10 + CoreSettings.tombstoneHorizon)
        #expect(list.expireTombstones(at: 9 + CoreSettings.tombstoneHorizon).isEmpty)
        #expect(list.expireTombstones(at: 10 + CoreSettings.tombstoneHorizon).map(\.target) == [user("a")])
        #expect(list.expiresNext == 20 + CoreSettings.tombstoneHorizon)
        #expect(list.expireTombstones(at: 99 + CoreSettings.tombstoneHorizon).map(\.target) == [user("b")])
        #expect(list.entries.map(\.target) == [user("c")], "the newest change of the list")
        #expect(list.expiresNext == .max)
        for target in ["a", "b", "d"] { _ = list.merge(entry(target, at: 30)) }
        #expect(list.expiresNext == 20 + CoreSettings.tombstoneHorizon, "it is not the newest any more")
        #expect(list.expireTombstones(at: list.expiresNext).map(\.target) == [user("c")])
        #expect(list.live.count == 3)
        var same = Subscriptions()
        for target in ["a", "b", "d"] { _ = same.merge(entry(target, at: 30)) }
        #expect(list.hash == same.hash)
        #expect(list.hash != hash)
    }

    @Test("Of too many tombstones the oldest expire at once, in whatever order they came") mutating func tooManyTombstones() {
        let countMax = Subscriptions.tombstonesMax
        var other = Subscriptions()
        for number in 1...countMax + 2 {
            _ = list.merge(ended(number))
            _ = other.merge(ended(countMax + 3 - number))
            if number == countMax { #expect(list.expiresNext == 1 + CoreSettings.tombstoneHorizon) }
        }
        #expect(list.expiresNext <= 0)
        #expect(list.expireTombstones(at: 0).map(\.target) == [user("1"), user("2")])
        #expect(other.expireTombstones(at: 0).map(\.target) == [user("1"), user("2")])
        #expect(list.hash == other.hash)
        #expect(list.expiresNext == 3 + CoreSettings.tombstoneHorizon)
    }

    @Test("Pages are sorted by target and have no tombstones") mutating func pages() {
        for target in ["d", "b", "c", "a"] { _ = list.merge(entry(target, at: 1)) }
        _ = list.remove([user("b")], version: Version(milliseconds: 2, counter: 0, node: 1))
        #expect(list.page(offset: 0, limit: 2).map(\.target) == [user("a"), user("c")])
        #expect(list.page(offset: 2, limit: 2).map(\.target) == [user("d")])
    }
}
