import PresenceWire
import Testing

@testable import PresenceCore

/// Removal of users who have been away for `users.forgetAfter`: 100 s here. Their blank records are kept for 70 s.
@Suite struct RemovalTests {
    private static let settings: CoreSettings = {
        var settings = CoreSettings()
        settings.policy.forgetAfterSeconds = 100
        settings.blankHorizon = .seconds(70)
        settings.watchLinger = .seconds(1)
        settings.digestInterval = .seconds(3)
        return settings
    }()

    var cluster = TestCluster(nodes: 3, settings: settings)

    private mutating func pass(_ seconds: Int64) { cluster.advance(.seconds(seconds), step: .milliseconds(250)) }

    /// The nodes that have something of a user in memory, and those that have rows of it on disk.
    private func places(of user: String) -> (memory: [Int], disk: [Int]) {
        let id = UserID(app: "default", id: user)
        let memory = cluster.processes.indices.filter { cluster.processes[$0].node.owner.index(ofKnown: id) != nil }
        let disk = cluster.processes.indices.filter { index in
            cluster.processes[index].disk.rows.values.contains { $0.user == id && $0.kind.isOfUser }
        }
        return (memory, disk)
    }

    private func isGone(_ user: String) -> Bool { places(of: user).memory.isEmpty && places(of: user).disk.isEmpty }

    private mutating func loginAndLose(_ user: String) {
        let client = cluster.login(user, on: 0)
        pass(1)
        cluster.lose(client)
        pass(3)
    }

    /// Whether the user was removed: the owner has written a blank record.
    private func isRemoved(_ user: String) -> Bool { cluster.record(of: user).isBlank }

    @Test("A user who was away for long enough is removed, and nothing is left of it when the blank record ends")
    mutating func theUnusedAreRemoved() {
        loginAndLose("ann")
        let last = cluster.record(of: "ann")
        pass(90)
        #expect(cluster.record(of: "ann") == last && last.statusType == .offline)
        pass(15)
        #expect(isRemoved("ann") && cluster.record(of: "ann").version > last.version)
        #expect(places(of: "ann").memory.count == 3 && places(of: "ann").disk.count == 3)
        pass(60)
        #expect(places(of: "ann").disk.count == 3)
        pass(10)
        #expect(isGone("ann"))
        #expect(cluster.processes.reduce(0) { $0 + $1.node.statistics.owner.usersRemoved } == 3)
        #expect(cluster.record(of: "ann") == Record(blank: user("ann")))
    }

    @Test("No user is removed while the setting is off")
    mutating func offByDefault() {
        var settings = Self.settings
        settings.policy.forgetAfterSeconds = 0
        cluster = TestCluster(nodes: 3, settings: settings)
        loginAndLose("ann")
        pass(300)
        #expect(places(of: "ann").disk.count == 3)
    }

    /// The facts that keep a user.
    enum Value: CaseIterable {
        case session, customStatus, event, rule, subscription, follower, followerWhoIsAway, registration
    }

    @Test("A user who keeps something of value stays", arguments: Value.allCases)
    mutating func theValuableStay(value: Value) {
        loginAndLose("ann")
        switch value {
        case .session: cluster.login("ann", on: 1)
        case .customStatus: cluster.setStatus("ann", "on holiday", on: 0)
        case .event:
            cluster.call(
                .publishEvent(value: 10_001, ext: "", seconds: 600, isForOnlineOnly: false, isSynced: false), by: "ann", on: 0)
        case .rule: cluster.call(.setVisibility(Visibility.Change(mode: .nobody)), by: "ann", on: 0)
        case .subscription: cluster.subscribe("ann", to: ["bob"], on: 0)
        case .follower:
            cluster.login("bob", on: 2)
            cluster.subscribe("bob", to: ["ann"], on: 2)
        case .followerWhoIsAway: cluster.subscribe("bob", to: ["ann"], on: 2)
        case .registration: cluster.call(.importUsers([user("ann")]), by: "admin", on: 0)
        }
        pass(400)
        #expect(!isRemoved("ann") && places(of: "ann").disk.count == 3)
    }

    @Test("If users must be registered, none is removed")
    mutating func theRegisteredStay() {
        var settings = Self.settings
        settings.policy.mustBeRegistered = true
        cluster = TestCluster(nodes: 3, settings: settings)
        loginAndLose("ann")
        pass(300)
        #expect(places(of: "ann").disk.count == 3)
    }

    @Test("A user without followers is removed at once if it was away for long enough")
    mutating func theUnfollowedAreRemoved() {
        loginAndLose("ann")
        cluster.subscribe("bob", to: ["ann"], on: 2)
        pass(200)
        #expect(!isRemoved("ann"))
        cluster.call(.unsubscribeUserStatus([user("ann")]), by: "bob", on: 2)
        pass(5)
        #expect(isRemoved("ann"))
        pass(75)
        #expect(isGone("ann"))
    }

    @Test("A removed user who comes back has a newer version than any client holds", arguments: [80, 180] as [Int64])
    mutating func whoComesBackIsNewer(absence: Int64) {
        loginAndLose("ann")
        let bob = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: ["ann"], on: 2)
        pass(1)
        #expect(cluster.statuses(told: bob, of: "ann") == ["OFFLINE"])
        cluster.call(.unsubscribeUserStatus([user("ann")]), by: "bob", on: 2)
        let last = cluster.record(of: "ann").version
        pass(105)
        #expect(isRemoved("ann"))
        pass(absence - 105)
        #expect(isGone("ann") == (absence > 175))
        cluster.login("ann", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 2)
        pass(1)
        #expect(cluster.record(of: "ann").version > last)
        #expect(cluster.statuses(told: bob, of: "ann") == ["OFFLINE", "ONLINE"])
        #expect(cluster.clients[bob].wentBack == 0)
        pass(400)
        #expect(cluster.record(of: "ann").statusType == .online && places(of: "ann").disk.count == 3)
    }

    @Test("A follower of a removed user keeps the blank record, and receives nothing when it is written again")
    mutating func aFollowedBlankRecordStays() {
        loginAndLose("ann")
        pass(110)
        #expect(isRemoved("ann"))
        let bob = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: ["ann"], on: 2)
        pass(1)
        let told = cluster.statuses(told: bob, of: "ann")
        pass(200)
        #expect(isRemoved("ann") && places(of: "ann").memory.count == 3 && places(of: "ann").disk.count == 3)
        #expect(cluster.statuses(told: bob, of: "ann") == told)
        cluster.call(.unsubscribeUserStatus([user("ann")]), by: "bob", on: 2)
        pass(75)
        #expect(isGone("ann"))
    }

    @Test("A node that was down when a user was removed does not bring it back", arguments: 0..<3)
    mutating func aNodeThatWasAwayBringsNobodyBack(number: Int) throws {
        let ann = cluster.user(ownedBy: 0)
        loginAndLose(ann)
        pass(90)
        let rows = cluster.processes[number].disk
        pass(15)
        #expect(isRemoved(ann))
        cluster.kill(number)
        cluster.processes[number].disk = rows
        pass(5)
        try cluster.restart(number, settings: Self.settings)
        pass(5)
        #expect(isRemoved(ann))
        #expect(places(of: ann).memory.count == 3)
        pass(70)
        #expect(isGone(ann))
    }

    @Test("A node that was down when a blank record ended starts with it and forgets it", arguments: 0..<3)
    mutating func endedRowsAreForgottenAtTheStart(number: Int) throws {
        let ann = cluster.user(ownedBy: 0)
        loginAndLose(ann)
        pass(120)
        #expect(isRemoved(ann))
        cluster.kill(number)
        pass(60)
        #expect(places(of: ann).disk == [number])
        try cluster.restart(number, settings: Self.settings)
        pass(5)
        #expect(isGone(ann))
    }

    @Test("While a member is missing no user is removed")
    mutating func nobodyIsRemovedWhileAMemberIsMissed() throws {
        let ann = cluster.user(ownedBy: 0)
        loginAndLose(ann)
        cluster.kill(2)
        pass(200)
        #expect(!isRemoved(ann))
        try cluster.restart(2, settings: Self.settings)
        pass(10)
        #expect(isRemoved(ann))
    }

    @Test("A question that is lost on its way is asked again")
    mutating func aLostQuestionIsAskedAgain() {
        let ann = cluster.user(ownedBy: 0)
        loginAndLose(ann)
        let askedAt = cluster.record(of: ann).lastUpdateTime + 100_000
        cluster.advance(.milliseconds(askedAt - 300 - cluster.now.wall))
        #expect(!isRemoved(ann))
        cluster.losing = [(0, 1), (0, 2)]
        cluster.advance(.milliseconds(1_000))
        #expect(cluster.processes[0].node.machines.removal.question?.users == [user(ann)])
        cluster.losing = []
        for other in 1...2 { cluster.link(0, other) }
        #expect(!isRemoved(ann))
        pass(5)
        #expect(isRemoved(ann))
    }

    @Test("A change between the question and its answers keeps the user")
    mutating func aChangeMeanwhileKeepsTheUser() {
        let ann = cluster.user(ownedBy: 0)
        loginAndLose(ann)
        pass(90)
        let index = cluster.processes[0].node.owner.index(ofKnown: user(ann))
        #expect(index != nil)
        cluster.setStatus(ann, "back soon", on: 0)
        var outbox = Outbox()
        let later = Now(instant: cluster.now.instant, wall: cluster.now.wall + 60_000)
        UserRemoval.remove(user(ann), from: &cluster.processes[0].node.machines.owner, in: &outbox[at: later])
        #expect(cluster.record(of: ann).customStatus == "back soon" && outbox.rows.isEmpty)
    }

    @Test("The end of a subscription is remembered as long as that of any other user")
    mutating func aFreshTombstoneStays() {
        let ann = cluster.user(ownedBy: 0)
        loginAndLose(ann)
        pass(110)
        #expect(isRemoved(ann))
        pass(30)
        cluster.subscribe(ann, to: ["bob"], on: 0)
        cluster.call(.unsubscribeUserStatus(nil), by: ann, on: 0)
        pass(60)
        #expect(places(of: ann).disk.count == 3, "its blank record would have ended, but for the tombstone")
        pass(15)
        #expect(isGone(ann))
    }

    @Test("A user who never logged in and keeps only ended subscriptions is removed")
    mutating func aListOfEndedSubscriptionsIsRemoved() {
        cluster.subscribe("ann", to: ["bob"], on: 0)
        cluster.call(.unsubscribeUserStatus(nil), by: "ann", on: 0)
        pass(95)
        #expect(cluster.record(of: "ann").version == .zero && places(of: "ann").disk.count == 3)
        pass(10)
        #expect(isRemoved("ann") && cluster.record(of: "ann").version > .zero)
        pass(75)
        #expect(isGone("ann"))
    }

    @Test("The setting works from the moment in which an app sets it, and until it is switched off")
    mutating func switchedOnAndOff() {
        var settings = Self.settings
        settings.policy.forgetAfterSeconds = 0
        cluster = TestCluster(nodes: 3, settings: settings)
        loginAndLose("ann")
        pass(1)
        func set(_ seconds: Int) -> Call { .setAppPolicy(Array(#"{"settings":{"users.forgetAfter":\#(seconds)}}"#.utf8)) }
        #expect(cluster.call(set(86_400), by: "admin", on: 0) == .done)
        cluster.now.wall += 86_400_000
        pass(15)
        #expect(isRemoved("ann"))
        loginAndLose("ann")
        cluster.call(set(0), by: "admin", on: 0)
        cluster.now.wall += 864_000_000
        pass(15)
        #expect(!isRemoved("ann"))
    }

    @Test("At most 256 users are asked about at a time, and all of them are looked at within the interval")
    mutating func manyUsers() {
        var settings = Self.settings
        settings.removalInterval = .seconds(2)
        cluster = TestCluster(nodes: 1, settings: settings)
        for number in 0..<600 { loginAndLogout("user-\(number)") }
        pass(15)
        let later = Now(instant: cluster.now.instant, wall: cluster.now.wall + 200_000)
        var found: [UserID] = []
        var walk = UserRemoval()
        for _ in 0..<3 { found += Self.next(of: cluster.processes[0].node.owner, &walk, at: later) }
        #expect(Set(found).count == 600)
        pass(400)
        #expect(cluster.processes[0].node.statistics.usersOwned == 0)
        #expect(cluster.processes[0].disk.rows.values.filter { $0.kind.isOfUser }.isEmpty)
    }

    /// The users whom the next step of a walk finds.
    ///
    /// One access of the owner: two in one call end the process in a debug build without symbols (Swift 6.3.1).
    private static func next(of owner: borrowing Owner, _ walk: inout UserRemoval, at now: Now) -> [UserID] {
        walk.next(of: owner.users, owner.policies, countMax: 256, at: now)
    }

    private mutating func loginAndLogout(_ user: String) {
        let client = cluster.login(user, on: 0)
        cluster.close(client, .loggedOut)
    }
}
