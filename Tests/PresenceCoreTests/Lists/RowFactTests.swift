import PresenceWire
import Testing

@testable import PresenceCore

/// The rows of profiles and of the relationship chain: written, read back, and refused if another program has damaged them.
@Suite struct RowFactTests {
    static let version = Version(milliseconds: 1_790_000_000_000, counter: 2, node: 7)

    private static let friend: Friend = {
        var friend = Friend(addTime: 1_790_000_000_001)
        friend.remark = "Ann \"from\" Köln"
        friend.groupIDs = [1, 7, .max]
        friend.addWording = "hello"
        friend.addSource = "AddSource_Type_iOS"
        friend.customFields = [
            CustomField(name: "Blood", value: .integer(.max)), CustomField(name: "Note", value: .text("écrit")),
            CustomField(name: "Raw", value: .bytes([0xFF, 0])),
        ]
        return friend
    }()

    private static let sent: SentRequest = {
        var sent = SentRequest(addTime: 5)
        (sent.remark, sent.groupID, sent.addWording, sent.addSource) = ("remark", 3, "wording", "AddSource_Type_Web")
        return sent
    }()

    private static let received: ReceivedRequest = {
        var received = ReceivedRequest(addTime: 5)
        (received.addWording, received.addSource) = ("wording", "AddSource_Type_Web")
        return received
    }()

    private static let profile: Profile = {
        var profile = Profile()
        let older = Version(milliseconds: 5, counter: 0, node: 1)
        profile.set("Nick", to: .text("Ann"), at: older)
        profile.set("AllowType", to: .text("CONFIRM"), at: version)
        profile.set("FaceUrl", to: .text(""), at: version)
        profile.set("SelfSignature", to: .bytes([0xC3, 0x28]), at: older)
        profile.set("Location", to: .text("Köln"), at: version)
        profile.set("Gender", to: .integer(2), at: older)
        for name in ["Birthday", "Language", "Level", "Role"] { profile.set(name, to: .integer(4_294_967_295), at: older) }
        profile.set("Custom_Blood", to: .integer(-1), at: older)
        return profile
    }()

    /// Writes a fact, reads it back, and passes it through the codec between nodes.
    private func check<Fact: RowFact>(_ fact: Fact, key: String, expiresAt: Milliseconds? = nil) throws {
        let row = Row(fact, of: user("ann"), key: key, version: Self.version, expiresAt: expiresAt)
        #expect(row.kind == Fact.kind && row.kind.isOfUser && row.key == key && row.expiresAt == expiresAt)
        try row.checkListed()
        #expect(try Fact(row) == fact)
        var writer = WireWriter()
        writer.row(row)
        let bytes = writer.bytes
        let received = try bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            return try reader.row()
        }
        #expect(received == row)
        var tombstone = row
        tombstone.value = nil
        try tombstone.checkListed()
        let error = #expect(throws: RowError.self) { try Fact(tombstone) }
        #expect(error?.description.contains("the value is missing") == true)
    }

    @Test("Every fact is read back as it was written") func roundTrips() throws {
        try check(Self.friend, key: "bob")
        try check(Friend(addTime: 0), key: "bob")
        try check(Self.sent, key: "bob")
        try check(SentRequest(addTime: 1), key: "bob")
        try check(Self.received, key: "bob")
        try check(ReceivedRequest(addTime: 1), key: "bob")
        try check(BlockedUser(since: 7), key: "bob")
        try check(FriendGroup(name: "Kollegen"), key: "12")
        try check(ReadRequests(timestamp: 9), key: "")
        try check(ProfileSubscription(subscribeType: 2, subscribedAt: 5), key: "bob", expiresAt: 99)
        try check(ProfileSubscription(subscribeType: 4, subscribedAt: 5), key: "bob")
        try check(Self.profile, key: "")
        try check(Profile(), key: "")
        var forced = SentRequest(addTime: 4)
        forced.isForced = true
        let commands: [ChainCommand] = [
            .add(forced, isTwoWay: true),
            .add(Self.sent, isTwoWay: true), .add(SentRequest(addTime: 4), isTwoWay: false), .accept(remark: "r", isTwoWay: true),
            .accept(remark: "", isTwoWay: false), .reject, .delete, .block,
        ]
        for command in commands { try check(OutboxCommand(command, version: Self.version, begunAt: 8), key: "bob") }
    }

    @Test("The largest profile and the largest friend fit into a row", arguments: [0, 34, 255] as [UInt8])
    func largestRows(byte: UInt8) throws {
        let value = FieldValue.bytes(Array(repeating: byte, count: Limits.fieldBytesMax))
        let names = (0..<Limits.customFieldsMax).map { "custom\($0 + 10)" }
        let fields = ["Location", "SelfSignature"] + (byte == 255 ? [] : ["Nick", "FaceUrl"]) + names.map { "Custom_\($0)" }
        var (profile, friend) = (Profile(), Self.friend)
        for name in fields { profile.set(name, to: value, at: Self.version) }
        friend.customFields = names.map { CustomField(name: $0, value: value) }
        (friend.remark, friend.addWording) = (String(repeating: "\0", count: 96), String(repeating: "\"", count: 120))
        let rows = [
            Row(profile, of: user("ann"), key: "", version: Self.version), Row(friend, of: user("ann"), key: "bob", version: Self.version),
        ]
        for row in rows {
            try row.checkListed()
            #expect(row.value!.count <= Limits.rowBytesMax)
        }
    }

    @Test("The kinds of rows keep their numbers on disk") func numbers() {
        let kinds: [Row.Kind] = [
            .status, .subscription, .member, .clock, .policy, .kick, .visibility, .profile, .friend, .pendencyOut, .pendencyIn, .blocked,
            .friendGroup, .pendencyRead, .chainOutbox, .profileSubscription, .webhookLog, .answeredCall, .deletion,
        ]
        #expect(kinds.map(\.rawValue) == Array(1...19) && kinds == Row.Kind.allCases)
        #expect(Row.Kind.ofUsers.map(\.rawValue) == [1, 2, 7] + Array(8...19))
    }

    @Test("A row of an unknown kind is refused") func unknownKind() {
        var writer = WireWriter()
        writer.row(Row(BlockedUser(since: 1), of: user("ann"), key: "bob", version: Self.version))
        let place = writer.bytes.firstIndex(of: Row.Kind.blocked.rawValue)!
        var bytes = writer.bytes
        bytes[place] = 20
        #expect(throws: DecodeError.unknownTag(20)) {
            try bytes.withUnsafeBytes { bytes in
                var reader = WireReader(bytes)
                return try reader.row()
            }
        }
    }

    // MARK: Damaged rows

    struct Damage: Sendable, CustomTestStringConvertible {
        let kind: Row.Kind
        var key = "bob"
        var expiresAt: Milliseconds?
        let json: String
        /// The words that the error must have.
        let words: String

        var testDescription: String { "\(kind) \(key) \(json.prefix(60))" }
    }

    private static func long(_ count: Int) -> String { String(repeating: "x", count: count) }

    private static let damages: [Damage] = [
        Damage(kind: .webhookLog, key: "", json: "{}", words: "the versions of removed events are missing"),
        Damage(kind: .friend, json: "[]", words: "the value is not an object"),
        Damage(kind: .friend, json: "{", words: "the value is not JSON"),
        Damage(kind: .friend, json: "{}", words: "addTime is missing"),
        Damage(kind: .friend, json: #"{"addTime":"1"}"#, words: "addTime is not a whole number of"),
        Damage(kind: .friend, json: #"{"addTime":9007199254740993}"#, words: "addTime is not a whole number of"),
        Damage(kind: .friend, json: #"{"addTime":1,"remark":7}"#, words: "remark is not a text"),
        Damage(kind: .friend, json: #"{"addTime":1,"remark":"\#(long(97))"}"#, words: "remark has 97 bytes, at most 96"),
        Damage(kind: .friend, json: #"{"addTime":1,"addWording":"\#(long(121))"}"#, words: "addWording has 121 bytes, at most 120"),
        Damage(kind: .friend, json: #"{"addTime":1,"addSource":"\#(long(24))"}"#, words: "addSource has 24 bytes, at most 23"),
        Damage(kind: .friend, json: #"{"addTime":1,"groupIDs":3}"#, words: "groupIDs is not an array"),
        Damage(kind: .friend, json: #"{"addTime":1,"groupIDs":["3"]}"#, words: "groupIDs is not a sorted array"),
        Damage(kind: .friend, json: #"{"addTime":1,"groupIDs":[3,3]}"#, words: "groupIDs is not a sorted array"),
        Damage(kind: .friend, json: #"{"addTime":1,"groupIDs":[-1]}"#, words: "groupIDs is not a sorted array"),
        Damage(kind: .friend, json: #"{"addTime":1,"groupIDs":\#(Array(1...33))}"#, words: "groupIDs has 33 groups, at most 32"),
        Damage(kind: .friend, json: #"{"addTime":1,"custom":[]}"#, words: "custom is not an object"),
        Damage(kind: .friend, json: #"{"addTime":1,"custom":{"too long a":1}}"#, words: "custom.too long a is not a name"),
        Damage(kind: .friend, json: #"{"addTime":1,"custom":{"A":1.5}}"#, words: "custom.A is neither a number nor bytes"),
        Damage(kind: .friend, json: #"{"addTime":1,"custom":{"A":{"base64":"?"}}}"#, words: "custom.A is neither"),
        Damage(kind: .friend, json: #"{"addTime":1,"custom":{"A":"\#(long(501))"}}"#, words: "custom.A has 501 bytes, at most 500"),
        Damage(
            kind: .friend, json: #"{"addTime":1,"custom":{\#((0..<21).map { "\"f\($0)\":1" }.joined(separator: ","))}}"#,
            words: "custom has 21 fields, at most 20"),
        Damage(kind: .friend, key: "", json: #"{"addTime":1}"#, words: "the key is not a user's ID"),
        Damage(kind: .friend, expiresAt: 5, json: #"{"addTime":1}"#, words: "expires at 5"),
        Damage(kind: .pendencyOut, json: #"{"addTime":1,"groupID":4294967296}"#, words: "groupID is not a whole number of"),
        Damage(kind: .pendencyOut, json: #"{"addTime":1,"remark":[]}"#, words: "remark is not a text"),
        Damage(kind: .pendencyIn, json: #"{"addTime":1,"addWording":null}"#, words: "addWording is not a text"),
        Damage(kind: .pendencyIn, json: #"{"addSource":"x"}"#, words: "addTime is missing"),
        Damage(kind: .blocked, json: #"{"since":true}"#, words: "since is not a whole number of"),
        Damage(kind: .friendGroup, key: "1", json: #"{"name":""}"#, words: "name is missing or empty"),
        Damage(kind: .friendGroup, key: "1", json: #"{"name":"\#(long(31))"}"#, words: "name has 31 bytes, at most 30"),
        Damage(kind: .friendGroup, key: "01", json: #"{"name":"x"}"#, words: "the key is not a number"),
        Damage(kind: .friendGroup, key: "x", json: #"{"name":"x"}"#, words: "the key is not a number"),
        Damage(kind: .pendencyRead, key: "", json: #"{"timestamp":"x"}"#, words: "timestamp is not a whole number of"),
        Damage(kind: .pendencyRead, json: #"{"timestamp":1}"#, words: "the key is not empty"),
        Damage(kind: .chainOutbox, json: #"{"command":"steal"}"#, words: "command is \"steal\", not add"),
        Damage(kind: .chainOutbox, json: #"{"command":"add","addTime":1,"isTwoWay":1}"#, words: "isTwoWay is not true or false"),
        Damage(kind: .chainOutbox, json: #"{"command":"block","version":"0"}"#, words: "version is not a version"),
        Damage(kind: .chainOutbox, json: #"{"command":"block","begunAt":1}"#, words: "version is missing"),
        Damage(kind: .chainOutbox, json: #"{"command":"block","version":"\#(version.text)"}"#, words: "begunAt is missing"),
        Damage(kind: .profileSubscription, json: #"{"subscribeType":3,"subscribedAt":1}"#, words: "subscribeType is not 2 or 4"),
        Damage(kind: .profileSubscription, json: #"{"subscribedAt":1}"#, words: "subscribeType is not 2 or 4"),
        Damage(
            kind: .profileSubscription, expiresAt: 1 << 54, json: #"{"subscribeType":2,"subscribedAt":1}"#, words: "expires at"),
        Damage(kind: .profile, key: "", json: #"{"Nick":"Ann"}"#, words: "Nick is not a value and its version"),
        Damage(kind: .profile, key: "", json: #"{"Nick":["Ann","x"]}"#, words: "Nick is not a value and its version"),
        Damage(kind: .profile, key: "", json: #"{"Nick":[5,"\#(version.text)"]}"#, words: "Nick is not a text"),
        Damage(kind: .profile, key: "", json: #"{"Gender":[3,"\#(version.text)"]}"#, words: "Gender is not a whole number of 0 to 2"),
        Damage(kind: .profile, key: "", json: #"{"Level":["x","\#(version.text)"]}"#, words: "Level is not a whole number of 0 to"),
        Damage(kind: .profile, key: "", json: #"{"AllowType":["ALL","\#(version.text)"]}"#, words: "AllowType is not one of ANY"),
        Damage(kind: .profile, key: "", json: #"{"Location":[1,"\#(version.text)"]}"#, words: "Location is not bytes"),
        Damage(kind: .profile, key: "", json: #"{"Nick":["\#(long(501))","\#(version.text)"]}"#, words: "Nick has 501 bytes, at most 500"),
        Damage(kind: .profile, key: "", json: #"{"Age":[1,"\#(version.text)"]}"#, words: "Age is not a field of a profile"),
        Damage(kind: .profile, key: "", json: #"{"Custom_a b":[1,"\#(version.text)"]}"#, words: "Custom_a b is not a field"),
        Damage(kind: .profile, key: "", json: #"{"Nick":["Ann","\#(Version.max.text)"]}"#, words: "Nick is newer than the row"),
        Damage(kind: .status, json: "{}", words: "is not a row of a list"),
    ]

    @Test("A damaged row is refused with its name and that of its wrong field", arguments: damages) func damagedRows(damage: Damage) {
        let row = Row(
            user: user("ann"), kind: damage.kind, key: damage.key, version: Self.version, value: Array(damage.json.utf8),
            expiresAt: damage.expiresAt)
        let error = #expect(throws: RowError.self) { try row.checkListed() }
        #expect(error?.description.hasPrefix("row of default/ann, kind \(damage.kind), key \"\(damage.key)\": ") == true)
        #expect(error?.description.contains(damage.words) == true, "\(error?.description ?? "no error")")
    }

    @Test("A row of another kind is not read as this fact") func otherKind() {
        let row = Row(BlockedUser(since: 1), of: user("ann"), key: "bob", version: Self.version)
        let error = #expect(throws: RowError.self) { try Friend(row) }
        #expect(error?.description.contains("is not of kind friend") == true)
    }

    @Test("A friend moves by a row with other groups and by a tombstone, and does not move by a tombstone without a row before it")
    func movedMembers() {
        var grouped = Friend(addTime: 1)
        grouped.groupIDs = [3]
        let row = Row(grouped, of: user("ann"), key: "bob", version: Self.version)
        let plain = Row(Friend(addTime: 1), of: user("ann"), key: "bob", version: Self.version)
        let tombstone = Row(user: user("ann"), kind: .friend, key: "bob", version: Self.version, value: nil)
        let held = { (row: Row) in RowList.Entry(key: row.key, version: row.version, value: row.value, expiresAt: row.expiresAt) }
        #expect(row.movesMember(insteadOf: nil) && row.movesMember(insteadOf: held(plain)) && !row.movesMember(insteadOf: held(row)))
        #expect(tombstone.movesMember(insteadOf: held(row)) && !tombstone.movesMember(insteadOf: held(plain)))
        #expect(!tombstone.movesMember(insteadOf: nil) && !tombstone.movesMember(insteadOf: held(tombstone)))
        #expect(plain.movesMember(insteadOf: held(row)) && !plain.movesMember(insteadOf: held(tombstone)))
    }

    // MARK: Profiles

    @Test("Two copies of a profile keep the newer value of each field, whichever is merged into the other") func mergedProfiles() {
        func at(_ time: Milliseconds) -> Version { Version(milliseconds: time, counter: 0, node: 1) }
        var (one, other) = (Profile(), Profile())
        one.set("Nick", to: .text("old"), at: at(1))
        one.set("Level", to: .integer(5), at: at(4))
        other.set("Nick", to: .text("new"), at: at(3))
        other.set("Role", to: .integer(1), at: at(2))
        other.set("Level", to: .integer(4), at: at(1))
        let (before, after) = (one, other)
        one.merge(after)
        other.merge(before)
        #expect(one == other)
        #expect(one["Nick"] == .text("new") && one["Level"] == .integer(5) && one["Role"] == .integer(1) && one["Gender"] == nil)
        #expect(one.fields.map(\.name) == ["Level", "Nick", "Role"] && one.fields.map(\.version).max() == at(4))
    }
}
