import PresenceCore
import PresenceWire
import Testing

@testable import ClusterSimulation

/// The groups that a user certainly has by the answers of its calls.
@Suite struct GroupOracleTests {
    var oracle = GroupOracle()

    private mutating func call(_ call: FriendCall, _ code: ChainCode = .done, at time: Nanoseconds) {
        oracle.ask(call, by: 0)
        oracle.answered(FriendCallResult(code: code), to: call, by: 0, at: time)
    }

    /// Whether a read that was asked for at a moment may have these groups.
    private func admits(_ names: [String], askedAt moment: Nanoseconds) throws -> Bool {
        let groups = names.map { #"{"name":"\#($0)"}"# }.joined(separator: ",")
        let json = try JSONReader.read(Array(#"{"groupList":[\#(groups)]}"#.utf8))
        return oracle.problem(with: json, of: 0, askedAt: moment) == nil
    }

    @Test("A read that begins after the answer has a created group, its new name, and no deleted one") mutating func inTurn() throws {
        call(.createGroups(["a"], users: []), at: 10)
        #expect(try admits(["a"], askedAt: 10))
        #expect(try !admits([], askedAt: 10))
        #expect(try admits([], askedAt: 9))
        call(.renameGroup("a", to: "b"), at: 20)
        #expect(try admits(["b"], askedAt: 20))
        #expect(try !admits(["a"], askedAt: 20))
        #expect(try !admits(["a", "b"], askedAt: 20))
        call(.deleteGroups(["b"]), at: 30)
        #expect(try admits([], askedAt: 30))
        #expect(try !admits(["b"], askedAt: 30))
    }

    @Test("Calls at once leave a name uncertain until the next one, and so does a call without an answer") mutating func atOnce() throws {
        let create = FriendCall.createGroups(["a"], users: [])
        let delete = FriendCall.deleteGroups(["a"])
        oracle.ask(create, by: 0)
        oracle.ask(delete, by: 0)
        oracle.answered(FriendCallResult(), to: create, by: 0, at: 10)
        oracle.answered(FriendCallResult(), to: delete, by: 0, at: 11)
        #expect(try admits(["a"], askedAt: 20))
        #expect(try admits([], askedAt: 20))
        call(create, at: 30)
        #expect(try !admits([], askedAt: 30))
        oracle.ask(delete, by: 0)
        call(create, at: 40)
        #expect(try admits(["a"], askedAt: 50))
        #expect(try admits([], askedAt: 50))
    }

    @Test("A refused call makes no group certain") mutating func refused() throws {
        call(.createGroups(["a"], users: []), .groupsFull, at: 10)
        #expect(try admits(["a"], askedAt: 20))
        #expect(try admits([], askedAt: 20))
        oracle.ask(.deleteGroups(["b"]), by: 0)
        oracle.refused(.deleteGroups(["b"]), by: 0, at: 30)
        #expect(try admits(["b"], askedAt: 40))
        #expect(try admits([], askedAt: 40))
    }
}
