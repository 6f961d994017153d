import PresenceCore
import PresenceWire
import Testing

@testable import ClusterSimulation

/// The friends that a back end brings, and histories in which it does.
@Suite struct BroughtFriendsTests {
    private func id(_ user: Int) -> UserID { UserID(app: "default", id: "user-\(user)") }

    private func call(_ action: BackEndAction) throws -> DecidingCall { try #require(DecidingCall(action.call(id))) }

    private func outcomes(_ codes: (user: Int, code: ChainCode)...) -> [ChainOutcome] {
        codes.map { ChainOutcome(user: id($0.user), code: $0.code) }
    }

    @Test("The friends that the deletion of all friends does not name are none, and each is named once") func deleteAll() throws {
        let call = try call(.deleteAll(user: 1, isTwoWay: true))
        let decisions = call.decisions(of: 1, usersCount: 4)
        #expect(decisions.map(\.other) == [0, 2, 3])
        #expect(call.codes(in: outcomes((3, .done)), of: decisions) == [.noFriend, .noFriend, .done])
        #expect(call.codes(in: [], of: decisions) == [.noFriend, .noFriend, .noFriend])
        #expect(call.codes(in: outcomes((3, .done), (3, .done)), of: decisions) == nil)
        #expect(call.codes(in: outcomes((1, .done)), of: decisions) == nil)
    }

    @Test("An answer to an import has each of its users in order") func importAnswer() throws {
        let call = try call(.importFriends(user: 0, friends: [2, 1], group: nil, isDated: false, number: 1))
        let decisions = call.decisions(of: 0, usersCount: 3)
        #expect(call.codes(in: outcomes((2, .done), (1, .selfFull)), of: decisions) == [.done, .selfFull])
        #expect(call.codes(in: outcomes((1, .selfFull), (2, .done)), of: decisions) == nil)
    }

    @Test("An import may have made a row with its remark, its group and its origin, and no other row") func contents() throws {
        var brought = BroughtFriends()
        let call = try call(.importFriends(user: 0, friends: [1], group: 2, isDated: false, number: 7))
        brought.ask(call, by: 0, GroupOracle().marks(of: 0))
        var row = BroughtFriends.Content(
            remark: "import 7", groups: ["group 2"], addWording: "wording 7", addSource: "AddSource_Type_7", addTime: 5)
        #expect(brought.mayBeImport(row, of: 1, to: 0) && !brought.mayBeImport(row, of: 0, to: 1))
        #expect(brought.mayBeImport(of: 1, into: "group 2", of: 0) && !brought.mayBeImport(of: 1, into: "group 1", of: 0))
        #expect(brought.hasImports(to: 0) && !brought.hasImports(to: 1))
        row.remark = "import 8"
        #expect(!brought.mayBeImport(row, of: 1, to: 0))
        #expect(brought.content(of: 1, in: 0) == nil)
        brought.noteMade(1, by: call, of: 0, at: 3)
        #expect(brought.content(of: 1, in: 0)?.content.remark == "import 7")
    }

    @Test("An open call about groups, and a later one, leave it uncertain what the list says about a friend") func marks() {
        var groups = GroupOracle()
        let before = groups.marks(of: 0)
        let create = FriendCall.createGroups(["a"], users: [])
        groups.ask(create, by: 0)
        #expect(groups.marks(of: 0).groups == nil && groups.marks(of: 0).remarks == before.remarks)
        groups.answered(FriendCallResult(), to: create, by: 0, at: 10)
        #expect(groups.marks(of: 0).groups != before.groups)
        #expect(groups.hasGroup(named: "a", 0, askedAt: 10) == true && groups.hasGroup(named: "a", 0, askedAt: 9) == nil)
        #expect(groups.hasGroup(named: "b", 0, askedAt: 0) == false)
    }

    @Test(
        "Histories of back ends keep every guarantee, and friends are brought in them",
        arguments: [HistoryKind.backEndsBringFriends, .backEndsRepeatCalls])
    func histories(kind: HistoryKind) throws {
        let seed = try #require((1...2_000 as ClosedRange<UInt64>).first { HistoryOptions(seed: $0).kind == kind })
        var cluster = SimulatedCluster(HistoryOptions(seed: seed))
        cluster.run()
        if let violation = cluster.violation { Issue.record("\(cluster.options)\n\(violation)\ncluster-simulation --seed \(seed) --log") }
        #expect(
            cluster.truth.groups.brought.hasImports(to: 0) || cluster.truth.groups.brought.hasImports(to: 1)
                || cluster.truth.groups.brought.hasImports(to: 2))
    }
}
