import PresenceWire
import Testing

@testable import PresenceCore

/// Everything that is derived from users follows each change of them, whichever part of a user it changes.
@Suite struct UserStoreTests {
    var users = UserStore(blankHorizon: .seconds(60))
    let now = Now(instant: Instant(nanoseconds: 5), wall: 1_000)

    /// A user who is ONLINE, follows bob, and has a session in its grace.
    private mutating func insertAnn() -> UserStore.Index {
        let ann = users.insert(user("ann")).index
        let (entry, session) = (subscription("bob", at: 4), session(1))
        users.modify(ann) { user in
            (user.record.version, user.record.statusType, user.record.lastUpdateTime) = (version(3), .online, 3)
            _ = user.subscriptions.merge(entry)
            user.open(session)
            _ = user.disconnect(0, until: now.instant + .seconds(10))
        }
        return ann
    }

    @Test("A change of the record changes the hash of the slot, and taking it back restores the hash")
    mutating func theHashOfTheSlotFollowsTheRecord() {
        let ann = insertAnn()
        let hash = users.hash(of: users[ann].slot)
        #expect(hash != 0)
        for path in [\OwnedUser.record.version, \.record.customStatusVersion] {
            let old = users[ann][keyPath: path]
            users.modify(ann) { $0[keyPath: path] = version(9) }
            #expect(users.hash(of: users[ann].slot) != hash)
            #expect(users.brokenInvariant() == nil)
            users.modify(ann) { $0[keyPath: path] = old }
            #expect(users.hash(of: users[ann].slot) == hash)
        }
        let privacy = Privacy().changed(
            to: Visibility().changed(by: .init(mode: .nobody)), writtenAt: version(3), hiddenView: users[ann].record, at: version(3))
        users.modify(ann) { $0.record.privacy = privacy }
        #expect(users.hash(of: users[ann].slot) != hash)
        #expect(users.brokenInvariant() == nil)
    }

    @Test("Only users that this node owns are counted as ONLINE and as followers")
    mutating func countsFollowTheRole() {
        let ann = insertAnn()
        for _ in 0..<2 {
            #expect([users.onlineCount, users.replicaCount, users.followersCount(of: user("bob"))] == [1, 0, 1])
            users.modify(ann) { user in
                user.isReplica = true
                user.sessions = []
            }
            #expect([users.onlineCount, users.replicaCount, users.followersCount(of: user("bob"))] == [0, 1, 0])
            #expect(users.reviewsCount == 0)
            #expect(users.brokenInvariant() == nil)
            users.modify(ann) { $0.isReplica = false }
            #expect(users.brokenInvariant() == nil)
        }
    }

    @Test("A change of the role and of the list in one closure counts each follower once")
    mutating func theRoleAndTheListChangeTogether() {
        let ann = insertAnn()
        let (carl, noBob) = (subscription("carl", at: 5), subscription("bob", at: 6, isRemoved: true))
        users.modify(ann) { user in
            (user.isReplica, user.sessions) = (true, [])
            _ = user.subscriptions.merge(carl)
        }
        #expect(users.brokenInvariant() == nil)
        users.modify(ann) { user in
            (user.isReplica, user.record.statusType) = (false, .offline)
            _ = user.subscriptions.merge(noBob)
        }
        #expect([users.onlineCount, users.followersCount(of: user("bob")), users.followersCount(of: user("carl"))] == [0, 0, 1])
        #expect(users.brokenInvariant() == nil)
    }

    @Test("The next review is the earliest of the instants at which something of a user ends")
    mutating func reviewsFollowWhatEndsAtAnInstant() {
        let ann = insertAnn()
        #expect(users.nextReview == now.instant + .seconds(10))
        users.modify(ann) { $0.confirmationDeadline = now.instant + .seconds(3) }
        #expect(users.nextReview == now.instant + .seconds(3))
        users.modify(ann) { $0.repairDueAt = now.instant + .seconds(2) }
        #expect(users.nextReview == now.instant + .seconds(2))
        #expect(users.takeReview(at: now.instant) == nil)
        #expect(users.takeReview(at: now.instant + .seconds(2)) == ann)
        users.modify(ann) { $0.repairDueAt = nil }
        #expect(users.nextReview == now.instant + .seconds(3))
        users.scheduleReview(of: ann, notAfter: now.instant + .seconds(1), at: now)
        #expect(users.nextReview == now.instant + .seconds(1))
        #expect(users.brokenInvariant() == nil)
    }

    @Test("A tombstone and a blank record expire by the wall clock, on owner and replica")
    mutating func expiriesFollowTombstones() {
        let ann = users.insert(user("ann")).index
        let (entry, tombstone) = (subscription("bob", at: 5), subscription("carl", at: 4, isRemoved: true))
        users.modify(ann) { user in
            user.isReplica = true
            for entry in [tombstone, entry] { _ = user.subscriptions.merge(entry) }
        }
        #expect(users.takeExpiry(at: 3 + CoreSettings.tombstoneHorizon) == nil)
        #expect(users.takeExpiry(at: 4 + CoreSettings.tombstoneHorizon) == ann)
        users.modify(ann) { _ = $0.subscriptions.expireTombstones(at: 4 + CoreSettings.tombstoneHorizon) }
        #expect(users.brokenInvariant() == nil)
        let eve = users.insert(user("eve")).index
        users.modify(eve) { $0.record.version = version(7) }
        #expect(users.takeExpiry(at: 60_006) == nil)
        #expect(users.takeExpiry(at: 60_007) == eve)
    }

    @Test("A list changes the hash of the slot, and its tombstones expire on owner and replica", arguments: [false, true])
    mutating func listsAreDerived(isReplica: Bool) {
        let ann = users.insert(user("ann")).index
        users.modify(ann) { $0.isReplica = isReplica }
        let old = Row(user: user("ann"), kind: .friend, key: "bob", version: version(4), value: nil)
        let new = Row(user: user("ann"), kind: .friend, key: "carl", version: version(5), value: Array("{}".utf8))
        users.modifyLists(ann) { for row in [new, old] { _ = $0.merge(row) } }
        let hash = users.hash(of: users[ann].slot)
        #expect(hash != 0 && users[ann].isBlank == false)
        #expect(users.listsSize.rows == 2 && users.listsSize.bytes > 0)
        #expect(users.rows(of: users[ann].slot) == [old, new])
        #expect(users.brokenInvariant() == nil)
        var other = new
        other.version = version(6)
        users.modifyLists(ann) { _ = $0.merge(other) }
        #expect(users.hash(of: users[ann].slot) != hash)
        #expect(users.takeExpiry(at: 3 + CoreSettings.tombstoneHorizon) == nil)
        #expect(users.takeExpiry(at: 4 + CoreSettings.tombstoneHorizon) == ann)
        let expired = users.modifyLists(ann) { $0.expireTombstones(at: 4 + CoreSettings.tombstoneHorizon, of: user("ann")) }
        #expect(expired == [old])
        #expect(users.rows(of: users[ann].slot) == [other])
        #expect(users.listsSize.rows == 1)
        #expect(users.brokenInvariant() == nil)
        users.remove(ann)
        #expect(users.listsSize == UserLists.Size())
    }

    @Test("Equal rows in lists of two kinds have different hashes") mutating func hashesOfKinds() {
        let hashes = [Row.Kind.friend, .blocked].map { kind in
            var lists = UserLists()
            _ = lists.merge(Row(user: user("ann"), kind: kind, key: "bob", version: version(4), value: nil))
            return lists.hash
        }
        #expect(hashes[0] != hashes[1])
    }

    @Test("Nothing of a removed user is left")
    mutating func removalLeavesNothing() {
        let ann = insertAnn()
        let slot = users[ann].slot
        users.remove(ann)
        #expect([users.count, users.onlineCount, users.reviewsCount, users.followersCount(of: user("bob"))] == [0, 0, 0, 0])
        #expect(users.hash(of: slot) == 0)
        #expect(users.users(of: slot).isEmpty)
        #expect(users.brokenInvariant() == nil)
    }

    @Test("A derived value that was not brought in line is found", arguments: 0..<8)
    mutating func aPlantedDifferenceIsFound(number: Int) {
        let ann = insertAnn()
        #expect(users.brokenInvariant() == nil)
        let entry = subscription("carl", at: 5)
        let (tombstone, second) = (subscription("dora", at: 1, isRemoved: true), session(0))
        users.changeWithoutDeriving(ann) { user in
            switch number {
            case 0: user.record.version = version(9)
            case 1: user.record.statusType = .offline
            case 2: _ = user.subscriptions.merge(entry)
            case 3: user.isReplica = true
            case 4: user.confirmationDeadline = now.instant
            case 5: _ = user.subscriptions.merge(tombstone)
            case 6: _ = user.lists.merge(Row(tombstone, of: user.record.user))
            default: user.sessions.append(second)
            }
        }
        #expect(users.brokenInvariant() != nil)
    }
}

private func version(_ milliseconds: Milliseconds) -> Version { Version(milliseconds: milliseconds, counter: 0, node: 1) }

private func subscription(_ target: String, at time: Milliseconds, isRemoved: Bool = false) -> Subscription {
    Subscription(
        target: user(target), subscribeType: 1, subscribedAt: time, expiresAt: nil, version: version(time), isRemoved: isRemoved)
}

private func session(_ number: UInt8) -> OwnedSession {
    OwnedSession(
        id: SessionID(stamp: UInt64(number), node: 1), peer: 1, openedAt: 0, platform: "web", deviceID: "", isPushReachable: false,
        registrationID: 0)
}
