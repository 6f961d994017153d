import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct LastViewsTests: ~Copyable {
    var gateway = Gateway(node: NodeID("n"), settings: GatewaySettings())
    let now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)

    private func record(_ id: String, _ version: Milliseconds) -> Record {
        var record = Record(blank: user(id))
        record.version = Version(milliseconds: version, counter: 0, node: 1)
        record.customStatus = "\(id) v\(version)"
        return record
    }

    private func list(isWhole: Bool) -> ListUpdate {
        ListUpdate(user: user("bob"), version: Version(stamp: 1, node: 1), isWhole: isWhole, added: [], removed: [])
    }

    private mutating func open(resumeFrom position: Milliseconds?) -> Gateway.SessionIndex {
        gateway.receive(.position(9))
        let attach = Attach(session: SessionID(stamp: 1, node: 1), user: user("bob"), platform: "ios")
        let session = gateway.open(attach, resumeFrom: position, at: now)
        gateway.receive(.deliver(record("bob", 1)))
        return session
    }

    private mutating func pushed() -> [String] {
        gateway.endTurn()
        gateway.checkInvariants()
        defer { gateway.output = Gateway.Output() }
        let texts = gateway.output.pushes.map { String(decoding: gateway.output.payloads[Int($0.payload)], as: UTF8.self) }
        return texts.flatMap { text in ["ann", "carl"].flatMap { id in (1...9).map { "\(id) v\($0)" } }.filter(text.contains) }
    }

    @Test(
        "A session that resumes is shown once a user who has ceased to be a friend since, and a new session is not",
        arguments: [(Milliseconds(5), ["ann v2"]), (nil, [])])
    mutating func resumed(from position: Milliseconds?, shown: [String]) {
        _ = open(resumeFrom: position)
        var list = list(isWhole: true)
        list.formerFriends = [("ann", 7), ("carl", 3)].map { ListUpdate.Followed(friend: user($0), since: $1) }
        gateway.receive(.listUpdate(list))
        gateway.receive(.deliver(record("ann", 2)))
        gateway.receive(.deliver(record("carl", 2)))
        #expect(pushed() == shown && gateway.usersCount == 1)
        gateway.receive(.deliver(record("ann", 3)))
        #expect(pushed() == [])
    }

    @Test("A session with a full queue is shown a friend who has left once the queue has room", arguments: [true, false])
    mutating func fullQueue(isWhole: Bool) {
        let session = open(resumeFrom: nil)
        var followed = list(isWhole: true)
        followed.added = [ListUpdate.Followed(friend: user("ann"), since: 1)]
        gateway.receive(.listUpdate(followed))
        gateway.receive(.deliver(record("ann", 1)))
        _ = pushed()
        gateway.block(session, at: now)
        gateway.receive(.deliver(record("ann", 2)))
        var ended = list(isWhole: isWhole)
        if !isWhole { (ended.removed, ended.removedProfiles) = ([user("ann")], [user("ann")]) }
        ended.formerFriends = [ListUpdate.Followed(friend: user("ann"), since: 9)]
        gateway.receive(.listUpdate(ended))
        #expect(pushed() == [])
        gateway.unblock(session)
        #expect(pushed() == ["ann v2"])
        gateway.receive(.deliver(record("ann", 3)))
        #expect(pushed() == [] && gateway.usersCount == 1)
    }

    @Test("A friend who has come back before the last view was sent is followed on") mutating func friendAgain() {
        let session = open(resumeFrom: 5)
        gateway.block(session, at: now)
        var ended = list(isWhole: true)
        ended.formerFriends = [ListUpdate.Followed(friend: user("ann"), since: 9)]
        gateway.receive(.listUpdate(ended))
        gateway.receive(.deliver(record("ann", 1)))
        var again = list(isWhole: false)
        again.added = [ListUpdate.Followed(friend: user("ann"), since: 9)]
        gateway.receive(.listUpdate(again))
        gateway.unblock(session)
        #expect(pushed() == ["ann v1"])
        gateway.receive(.deliver(record("ann", 2)))
        #expect(pushed() == ["ann v2"])
    }
}
