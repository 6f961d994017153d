import PresenceWire
import Testing

@testable import ClusterSimulation
@testable import PresenceCore

/// Answers that change nothing, and say what rows say that are on their way to a disk.
@Suite struct DeferredAnswerTests {
    var cluster = TestCluster(nodes: 1)

    private func friends(_ answer: CallAnswer?) throws -> [String]? {
        guard case .owner(.listed(let json)) = answer else { return nil }
        return try JSONReader.read(json)["friendList"]?.elements.compactMap { $0["userID"]?.textValue }
    }

    private func code(_ answer: CallAnswer?) -> UInt32? {
        guard let outcomes = answer?.outcomes else { return nil }
        return outcomes.first?.code.rawValue
    }

    private static let readFriends = Call.getFriendList(FriendQuery())
    private static func delete(_ other: String) -> Call { .chain(.delete([user(other)], isTwoWay: false)) }

    private mutating func addAndDeleteOnHeldDisk() {
        cluster.call(.chain(.add(user("ben"), SentRequest(addTime: 0), isTwoWay: true)), by: "ann", on: 0)
        cluster.settle()
        cluster.heldDisks = [0]
        #expect(cluster.call(Self.delete("ben"), by: "ann", on: 0) == nil)
    }

    private mutating func releaseDisk() {
        cluster.heldDisks = []
        // A turn of the process ends.
        cluster.advance(.milliseconds(50))
    }

    @Test("A list is answered when the disk has its newest rows, and that of another user at once") mutating func list() throws {
        addAndDeleteOnHeldDisk()
        #expect(cluster.call(Self.readFriends, by: "ann", on: 0) == nil)
        #expect(try friends(cluster.call(Self.readFriends, by: "ben", on: 0)) == ["ann"])
        #expect(cluster.call(Self.readFriends, by: "ann", on: 0) == nil)
        releaseDisk()
        #expect(try friends(cluster.lastAnswer(on: 0)) == [])
        #expect(try friends(cluster.call(Self.readFriends, by: "ann", on: 0)) == [])
    }

    @Test("31704 is answered when the disk has the rows of the removal") mutating func code() {
        addAndDeleteOnHeldDisk()
        #expect(cluster.call(Self.delete("ben"), by: "ann", on: 0) == nil)
        releaseDisk()
        #expect(code(cluster.lastAnswer(on: 0)) == 31_704)
        #expect(code(cluster.call(Self.delete("ben"), by: "ann", on: 0)) == 31_704)
    }

    @Test("A list whose rows the disk refuses is not answered: 50001") mutating func refused() {
        addAndDeleteOnHeldDisk()
        #expect(cluster.call(Self.readFriends, by: "ann", on: 0) == nil)
        cluster.isDiskFull = true
        releaseDisk()
        guard case .refused(let refusal) = cluster.lastAnswer(on: 0) else {
            Issue.record("answered \(String(describing: cluster.lastAnswer(on: 0)))")
            return
        }
        #expect(refusal.code == 50_001)
    }

    @Test("A profile is answered when the disk has it, to its user and to others", arguments: ["ann", "ben"])
    mutating func profile(reader: String) throws {
        cluster.heldDisks = [0]
        let nick = Profile.Change(name: Profile.Standard.nick.rawValue, value: FieldValue.bytes(Array("Ann".utf8)))
        #expect(cluster.call(.friendCall(.modifyProfile([nick])), by: "ann", on: 0) == nil)
        #expect(cluster.call(.getUsersProfile([user("ann")]), by: reader, on: 0) == nil)
        releaseDisk()
        guard case .profiles(let profiles, _) = cluster.lastAnswer(on: 0) else {
            Issue.record("answered \(String(describing: cluster.lastAnswer(on: 0)))")
            return
        }
        #expect(try JSONReader.read(profiles[0]!.json)["nick"]?.textValue == "Ann")
    }
}
