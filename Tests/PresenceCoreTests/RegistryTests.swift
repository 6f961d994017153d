import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct RegistryTests {
    var cluster = TestCluster(nodes: 3)

    func ids(_ names: [String]) -> [UserID] { names.map { UserID(app: "default", id: $0) } }

    mutating func setPolicy(_ settings: String) {
        cluster.call(.setAppPolicy(Array("{\"settings\":\(settings)}".utf8)), by: "admin", on: 0)
        cluster.advance(.milliseconds(100))
    }

    mutating func importUsers(_ names: [String], on node: Int = 0) -> CallAnswer? {
        cluster.call(.importUsers(ids(names)), by: "admin", on: node)
        cluster.advance(.milliseconds(100))
        return cluster.lastAnswer(on: node)
    }

    func isKnown(_ name: String, on node: Int) -> Bool {
        cluster.processes[node].node.owner.record(of: UserID(app: "default", id: name)).isOfKnownUser
    }

    @Test("Imported users are on the disks of owners and replicas, and survive them") mutating func importedUsers() throws {
        let names = (0..<3).map { cluster.user(ownedBy: $0) }
        #expect(importUsers(names) == .imported(failed: []))
        for name in names { #expect((0..<3).count { isKnown(name, on: $0) } >= 2) }
        cluster.kill(0)
        cluster.advance(.seconds(10))
        for name in names { #expect(isKnown(name, on: cluster.ownerIndex(of: name))) }
        try cluster.restart(0)
        cluster.advance(.seconds(10))
        for name in names { #expect(isKnown(name, on: cluster.ownerIndex(of: name))) }
    }

    @Test("A subscription to an unknown user is refused by name, and the others are made") mutating func unknownTarget() {
        setPolicy(#"{"users.mustBeRegistered":true}"#)
        cluster.login("ann", on: 1)  // A login registers a user.
        #expect(importUsers(["carl"]) == .imported(failed: []))
        for sync in [false, true] {
            cluster.subscribe("bob", to: ["ann", "ghost", "carl"], on: 2, sync: sync)
            cluster.advance(.milliseconds(100))
            guard case .subscribed([], [], [], [], let unknown, let records, let users) = cluster.lastAnswer(on: 2) else {
                Issue.record("not subscribed")
                return
            }
            #expect(unknown == ids(["ghost"]))
            #expect(users == ids(["ann", "carl"]))
            #expect(records?.map { $0?.user } == (sync ? ids(["ann", "carl"]) : nil))
        }
        let list = cluster.processes[cluster.ownerIndex(of: "bob")].node.owner.kept(UserID(app: "default", id: "bob")).subscriptions
        #expect(list.map(\.target) == ids(["ann", "carl"]))
    }

    @Test("If one bad user fails the call, no target is followed") mutating func wholeCall() {
        setPolicy(#"{"users.mustBeRegistered":true,"errors.shape":"wholeCall"}"#)
        _ = importUsers(["carl"])
        cluster.subscribe("bob", to: ["carl", "ghost"], on: 2)
        cluster.advance(.milliseconds(100))
        #expect(cluster.lastAnswer(on: 2) == .refused(.noSuchUser(ids(["ghost"]))))
        #expect(cluster.processes[cluster.ownerIndex(of: "bob")].node.owner.kept(UserID(app: "default", id: "bob")).subscriptions.isEmpty)
    }

    @Test("An unknown user cannot be kicked") mutating func kick() {
        setPolicy(#"{"users.mustBeRegistered":true}"#)
        cluster.call(.kick(reason: "x"), by: "ghost", on: 0)
        cluster.advance(.milliseconds(100))
        #expect(cluster.lastAnswer(on: 0) == .refused(.noSuchUser(ids(["ghost"]))))
        _ = importUsers(["ghost"])
        cluster.call(.kick(reason: "x"), by: "ghost", on: 0)
        cluster.advance(.milliseconds(100))
        #expect(cluster.lastAnswer(on: 0) == .done)
    }

    private mutating func answer(_ call: Call, by name: String = "bob", origin: Call.Origin = .backEnd) -> CallAnswer? {
        cluster.call(call, by: name, on: 0, origin: origin)
        cluster.advance(.milliseconds(200))
        return cluster.lastAnswer(on: 0)
    }

    @Test("A node that hears no majority says of no user that the app does not know it: the other side may have the registration")
    mutating func cutOffNode() {
        setPolicy(#"{"users.mustBeRegistered":true}"#)
        _ = importUsers(["bob"])
        let name = cluster.user(ownedBy: 1)
        let ghost = ids([name])
        for isCutOff in [false, true] {
            if isCutOff {
                for other in [1, 2] { cluster.losing += [(0, other), (other, 0)] }
                // Each side takes over the users of the other one, and answers for them.
                cluster.advance(.seconds(12))
            }
            let refusal = CallAnswer.refused(isCutOff ? .unavailable : .noSuchUser(ghost))
            let relation = UserRelation(user: ghost[0], isListed: false, hasCaller: isCutOff ? nil : false, isUnknown: !isCutOff)
            let subscribed = answer(.subscribeUserStatus(ghost, seconds: nil, sync: false, subscribeType: 1))
            #expect(subscribed == (isCutOff ? refusal : .subscribed(evicted: [], unknown: ghost, records: nil, users: [])))
            let checked = answer(.checkRelations(ghost, .friends, isTwoWay: true))
            #expect(checked == .relationsChecked([relation]))
            let asUser = answer(.checkRelations(ids(["bob"]), .friends, isTwoWay: false), by: name, origin: .backEndForCaller)
            #expect(asUser == refusal)
            guard case .userStatusList(let records, _, _)? = answer(.getUserStatus(ghost)),
                case .profiles(let profiles, _)? = answer(.getUsersProfile(ghost))
            else {
                Issue.record("no answer")
                return
            }
            #expect(records.map { $0 == nil } == [isCutOff])
            #expect(profiles.map { $0 == nil } == [isCutOff])
        }
    }

    @Test("A user imported on one side of a split is known after it") mutating func split() {
        var owners = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        let ann = UserID(app: "default", id: "ann")
        _ = OwnerRequest(request: Request(id: 1, user: ann, operation: .register), peer: 1, now: cluster.now).perform(
            on: &owners, into: &outbox)
        // The other side has written a newer record and has not received the import.
        var other = Record(blank: ann)
        other.version = Version(milliseconds: cluster.now.wall + 5, counter: 0, node: 2)
        other.statusType = .online
        let imported = owners.record(of: ann)
        for (first, second) in [(other, imported), (imported, other)] {
            var side = Owner(clock: VersionClock(node: 3), settings: CoreSettings())
            let user = side.index(of: ann)
            let kept = [side.keep(first, at: user, now: cluster.now), side.keep(second, at: user, now: cluster.now)]
            #expect(kept == [true, true])
            #expect(side.record(of: ann).isRegistered)
            #expect(side.record(of: ann).statusType == .online)
            #expect(side.record(of: ann).version > other.version)
        }
    }

    @Test("The answer names the users whose owner cannot store them") mutating func failedImport() {
        cluster.isDiskFull = true
        cluster.call(.importUsers(ids(["a", "b"])), by: "admin", on: 0)
        cluster.advance(.seconds(6))
        guard case .imported(let failed) = cluster.lastAnswer(on: 0) else {
            Issue.record("not answered")
            return
        }
        #expect(failed.sorted() == ids(["a", "b"]))
        var json = JSONWriter()
        ImportUsers.Answer(.imported(failed: failed))?.write([], into: &json)
        #expect(!String(decoding: json.bytes, as: UTF8.self).contains("safe to retry"), "an owner may have registered them")
    }
}
