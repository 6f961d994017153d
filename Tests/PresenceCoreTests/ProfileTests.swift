import PresenceWire
import Testing

@testable import PresenceCore

/// Profiles on three nodes (P1–P8): read, changed, and kept. Ann and ben have different owners.
@Suite struct ProfileTests {
    var cluster = TestCluster(nodes: 3)
    let ann: String
    let ben: String

    init() {
        ann = cluster.user(ownedBy: 0)
        ben = cluster.user(ownedBy: 1)
    }

    private mutating func set(_ settings: String) {
        cluster.call(.setAppPolicy(Array(#"{"settings":\#(settings)}"#.utf8)), by: ann, on: 0)
        cluster.advance(.milliseconds(100))
    }

    private mutating func perform(_ call: FriendCall, by name: String, on node: Int) throws -> JSONValue? {
        cluster.call(.friendCall(call), by: name, on: node)
        cluster.advance(.milliseconds(50))
        guard case .owner(.friendCalled(let result)) = cluster.lastAnswer(on: node) else { return nil }
        return try JSONReader.read(result.json)
    }

    @discardableResult
    private mutating func modify(_ values: [(String, FieldValue)], by name: String, on node: Int = 2) throws -> JSONValue? {
        try perform(.modifyProfile(values.map { Profile.Change(name: $0.0, value: $0.1) }), by: name, on: node)
    }

    /// The profiles of users as a node answers them; nil for a user whose owner does not answer.
    private mutating func profiles(_ names: [String], on node: Int = 2) throws -> [JSONValue?]? {
        cluster.call(.getUsersProfile(names.map(user)), by: ann, on: node)
        cluster.advance(.milliseconds(50))
        guard case .profiles(let profiles, _) = cluster.lastAnswer(on: node) else { return nil }
        return try profiles.map { profile in try profile.map { try JSONReader.read($0.json) } }
    }

    private func isKnown(on node: Int = 2) -> [Bool?] {
        guard case .profiles(let profiles, _) = cluster.lastAnswer(on: node) else { return [] }
        return profiles.map { $0?.isKnown }
    }

    private mutating func friendList(_ query: FriendQuery, by name: String, on node: Int = 2) throws -> JSONValue? {
        cluster.call(.getFriendList(query), by: name, on: node)
        cluster.advance(.milliseconds(50))
        guard case .owner(.listed(let json)) = cluster.lastAnswer(on: node) else { return nil }
        return try JSONReader.read(json)
    }

    private mutating func add(_ target: String, by name: String) {
        cluster.call(.chain(.add(user(target), SentRequest(addTime: 0), isTwoWay: true)), by: name, on: 2)
        cluster.advance(.milliseconds(100))
    }

    @Test("A profile has the fields that were set and empty ones, whichever node is asked (P1, P2, P5)") mutating func fields() throws {
        let answer = try modify(
            [
                ("Nick", .text("Ann")), ("AllowType", .text("DENY")), ("Gender", .integer(2)), ("Birthday", .integer(4_294_967_295)),
                ("SelfSignature", .bytes([0xC3, 0x28])), ("Custom_Blood", .integer(-1)), ("Custom_Gone", .text("")),
            ], by: ann)
        for node in 0..<3 {
            let profile = try perform(.profile, by: ann, on: node)
            #expect(profile == answer)
            #expect(try profiles([ann], on: node)?.first == profile)
            #expect(profile?["userID"]?.textValue == ann && profile?["nick"]?.textValue == "Ann")
            #expect(profile?["allowType"]?.textValue == "DENY")
            #expect(profile?["gender"]?.number == 2 && profile?["birthday"]?.number == 4_294_967_295)
            #expect(profile?["selfSignature"]?["base64"]?.textValue == "wyg=")
            #expect(profile?["custom"] == .object([.init(name: "Blood", value: .integer(-1))]))
            #expect(profile?["faceURL"]?.textValue == "" && profile?["location"]?.textValue == "")
            #expect(["language", "level", "role"].allSatisfy { profile?[$0]?.number == 0 })
        }
    }

    @Test("A user without a profile has an empty one, with the allowType of the app") mutating func empty() throws {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        let profile = try perform(.profile, by: "nobody", on: 1)
        #expect(profile?["allowType"]?.textValue == "CONFIRM" && profile?["nick"]?.textValue == "")
        #expect(profile?["version"]?.textValue == Version.zero.text)
    }

    @Test("Fields that a call does not name keep their values, and a call that sets nothing new moves no version")
    mutating func unchanged() throws {
        let first = try modify([("Nick", .text("Ann")), ("Level", .integer(3))], by: ann)
        let same = try modify([("Nick", .text("Ann"))], by: ann)
        #expect(same == first)
        let second = try modify([("Nick", .text("Annie"))], by: ann)
        #expect(second?["nick"]?.textValue == "Annie" && second?["level"]?.number == 3)
        #expect(second?["version"] != first?["version"])
        #expect(second?["version"]?.textValue == cluster.record(of: ann).profileVersion.text)
    }

    @Test("A change is answered when two disks have it, and a change of one disk alone is written again") mutating func durable() throws {
        cluster.fullDisks = [1, 2]
        #expect(try modify([("Nick", .text("Ann"))], by: ann) == nil)
        cluster.fullDisks = []
        cluster.advance(.seconds(1))
        let answer = try modify([("Nick", .text("Ann"))], by: ann)
        #expect(answer?["nick"]?.textValue == "Ann")
        cluster.kill(0)
        cluster.advance(.seconds(8))
        #expect(try perform(.profile, by: ann, on: 1) == answer)
    }

    @Test("A profile outlives its owner, and the record of the next owner names its version") mutating func owners() throws {
        cluster.login(ann, on: 1)
        let answer = try modify([("Nick", .text("Ann"))], by: ann)
        cluster.kill(0)
        cluster.advance(.seconds(8))
        for node in 1..<3 { #expect(try profiles([ann], on: node)?.first == answer) }
        #expect(cluster.record(of: ann).profileVersion.text == answer?["version"]?.textValue)
        #expect(cluster.record(of: ann).statusType == .online)
    }

    @Test("A profile and its version outlive a restart of all nodes") mutating func restart() throws {
        var cluster = TestCluster(nodes: 1)
        cluster.call(.friendCall(.modifyProfile([.init(name: "Nick", value: .text("Ann"))])), by: ann, on: 0)
        let version = cluster.record(of: ann).profileVersion
        #expect(version > .zero)
        cluster.kill(0)
        try cluster.restart(0)
        cluster.advance(.seconds(1))
        #expect(cluster.record(of: ann).profileVersion == version)
        guard case .owner(.friendCalled(let result)) = cluster.call(.friendCall(.profile), by: ann, on: 0) else {
            Issue.record("no profile")
            return
        }
        #expect(try JSONReader.read(result.json)["nick"]?.textValue == "Ann")
    }

    @Test("Profiles of several users come from their owners in the order of the call; an owner that is gone has none (P3)")
    mutating func several() throws {
        let names = [ben, ann, cluster.user(ownedBy: 2), cluster.user(ownedBy: 1, number: 1)]
        for name in names { try modify([("Nick", .text("I am \(name)"))], by: name) }
        for node in 0..<3 {
            #expect(try profiles(names, on: node)?.map { $0?["nick"]?.textValue } == names.map { "I am \($0)" })
        }
        cluster.kill(1)
        cluster.call(.getUsersProfile(names.map(user)), by: ann, on: 2)
        cluster.advance(.seconds(8))
        #expect(try profiles(names)?.map { $0?["nick"]?.textValue } == names.map { "I am \($0)" })
    }

    @Test("Users who were not imported, never logged in and have no profile are unknown") mutating func unknown() throws {
        cluster.login(ben, on: 0)
        let named = cluster.user(ownedBy: 2)
        try modify([("Nick", .text("C"))], by: named)
        _ = try profiles([ben, named, "zoe"])
        #expect(isKnown() == [true, true, false])
    }

    @Test("Profiles that are too long for one answer are asked for again") mutating func long() throws {
        let names = (0..<12).map { cluster.user(ownedBy: 0, number: $0) }
        // Each byte takes six bytes of JSON.
        let value = FieldValue.bytes(Array(repeating: 1, count: Limits.fieldBytesMax))
        let fields = ["Nick", "FaceUrl", "Location", "SelfSignature"] + (0..<20).map { "Custom_F\($0)" }
        for name in names { try modify(fields.map { ($0, value) }, by: name, on: 0) }
        cluster.heard = []
        let found = try profiles(names, on: 1)
        #expect(found?.map { $0?["userID"]?.textValue } == names && found?.allSatisfy { $0?["nick"]?.textValue.count == 500 } == true)
        let answers = cluster.heard!.filter { if case .answer(_, .profiles) = $0.message { true } else { false } }
        #expect(answers.count > 1)
    }

    @Test("The custom fields that were set the longest ago go, if the app declares others") mutating func custom() throws {
        for number in 0..<25 {
            try modify([("Custom_F\(number)", .integer(1))], by: ann)
            cluster.keepPace()
        }
        guard case .object(let fields) = try perform(.profile, by: ann, on: 1)?["custom"] else {
            Issue.record("no custom fields")
            return
        }
        #expect(Set(fields.map(\.name)) == Set((5..<25).map { "F\($0)" }))
    }

    @Test("Fields that two sides of a split changed are merged, and the record names the merged version", arguments: [0, 1])
    mutating func merged(node: Int) throws {
        try modify([("Nick", .text("Ann"))], by: ann)
        let before = cluster.record(of: ann).profileVersion
        let version = Version(milliseconds: cluster.now.wall - 1, counter: 0, node: 9)
        var other = Profile()
        other.set("Level", to: .integer(4), at: version)
        let row = Row(other, of: user(ann), key: "", version: version)
        cluster.processes[node].node.machines.onReplicate([row], ticket: nil, from: 0, at: cluster.now)
        cluster.processes[node].node.run(at: cluster.now)
        cluster.settle()
        cluster.advance(.seconds(20), step: .milliseconds(500))
        let profile = try perform(.profile, by: ann, on: 2)
        #expect(profile?["nick"]?.textValue == "Ann" && profile?["level"]?.number == 4)
        #expect(cluster.record(of: ann).profileVersion > before)
        #expect(cluster.record(of: ann).profileVersion.text == profile?["version"]?.textValue)
    }

    @Test("The allowType of a user decides about friend requests (P7)") mutating func allowType() throws {
        try modify([("AllowType", .text("DENY"))], by: ben)
        cluster.call(.chain(.add(user(ben), SentRequest(addTime: 0), isTwoWay: true)), by: ann, on: 2)
        cluster.advance(.milliseconds(100))
        #expect(cluster.lastAnswer(on: 2) == .owner(.chained([ChainOutcome(user: user(ben), code: .forbidden)])))
    }

    // MARK: Calls

    private func parse(_ operation: API.Operation, _ body: String, _ settings: String = "{}") throws -> API.Parsed {
        let app = try AppPolicy(try JSONReader.read(Array(#"{"settings":\#(settings)}"#.utf8)))
        let caller = Caller(user: user("ann"), isAdmin: false, expiresAt: .max)
        return try Array(body.utf8).withUnsafeBufferPointer { body in
            try API.parse(operation, body: body, caller: caller, policy: SharedPolicy(app.policy))
        }
    }

    @Test("A call sets standard and declared fields; a field that is null stays as it is") func values() throws {
        let body = #"{"values":{"Nick":"Ann","Level":3.0,"Role":null,"SelfSignature":{"base64":"wyg="},"Custom_Raw":"x","Custom_Blood":2}}"#
        let settings = #"{"profile.customFields":{"Blood":"integer","Raw":"bytes"}}"#
        let expected: [Profile.Change] = [
            .init(name: "Nick", value: .text("Ann")), .init(name: "Level", value: .integer(3)),
            .init(name: "SelfSignature", value: .bytes([0xC3, 0x28])), .init(name: "Custom_Raw", value: .text("x")),
            .init(name: "Custom_Blood", value: .integer(2)),
        ]
        #expect(try parse(.modifySelfProfile, body, settings).call == .friendCall(.modifyProfile(expected)))
    }

    @Test(
        "A key, a type or a value that a profile cannot have is refused with 6017 and the name of the field",
        arguments: [
            ("Name", #""x""#), ("nick", #""x""#), ("Custom_", "1"), ("Custom_Team", "null"), ("Custom_Blood", #""x""#),
            ("Custom_Blood", "1.5"),
            ("Nick", "5"), ("Nick", #"{"base64":"wyg="}"#), ("FaceUrl", "[]"), ("AllowType", #""any""#), ("Gender", "3"), ("Gender", "1.5"),
            ("Birthday", "-1"), ("Level", "4294967296"), ("Role", #""1""#), ("Language", "true"), ("Location", "7"),
            ("SelfSignature", #"{"base64":"x"}"#), ("SelfSignature", #"{"base64":"wyg=","more":1}"#),
            ("Nick", "\"\(String(repeating: "x", count: 101))\""),
        ])
    func refusals(name: String, value: String) {
        let settings = #"{"profile.valueBytes":100,"profile.customFields":{"Blood":"integer"}}"#
        let body = #"{"values":{"\#(name == "Role" ? "Level" : "Role")":1,"\#(name)":\#(value)}}"#
        let error = #expect(throws: Problem.self) { try parse(.modifySelfProfile, body, settings) }
        #expect(error?.code == 6017 && error?.detail.hasPrefix("values.\(name): ") == true, "\(error?.detail ?? "accepted")")
    }

    @Test("Values have the length that the app allows; calls name 1 to 100 users, and need the relationship chain")
    func limits() throws {
        let text = { (count: Int) in #"{"values":{"Nick":"\#(String(repeating: "x", count: count))"}}"# }
        #expect(throws: Never.self) { try parse(.modifySelfProfile, text(500)) }
        #expect(throws: Problem.self) { try parse(.modifySelfProfile, text(501)) }
        #expect(throws: Problem.self) { try parse(.modifySelfProfile, #"{"values":[]}"#) }
        let users = { (count: Int) in #"{"userIDs":[\#((0..<count).map { "\"u\($0)\"" }.joined(separator: ","))]}"# }
        #expect(try parse(.getUsersProfile, users(100)).call == .getUsersProfile((0..<100).map { user("u\($0)") }))
        for count in [0, 101] { #expect(throws: Problem.self) { try parse(.getUsersProfile, users(count)) } }
        for operation in [API.Operation.getSelfProfile, .getUsersProfile, .modifySelfProfile] {
            let body = operation == .getUsersProfile ? users(1) : text(1)
            let error = #expect(throws: Problem.self) { try parse(operation, body, #"{"chain.enabled":false}"#) }
            #expect(error?.code == 72001)
        }
        let error = #expect(throws: Problem.self) {
            try parse(.subscribeUserStatus, #"{"userIDs":["ben"],"subscribeType":4,"sync":true}"#)
        }
        #expect(error?.code == 6017 && error?.detail.hasPrefix("sync: ") == true)
    }

    @Test("Unknown users are named, also where the owner of another cannot be reached") func answer() throws {
        let users = ["ann", "ben", "cid", "zoe"].map(user)
        let profiles = users.enumerated().map { number, user in
            number == 2 ? nil : AnsweredProfile(user: user, isKnown: number == 1, json: Array(#"{"userID":"\#(user.id)"}"#.utf8))
        }
        var policy = Policy()
        policy.mustBeRegistered = true
        let lenient = SharedPolicy(policy)
        var json = JSONWriter()
        try API.write(
            .profiles(profiles, users: users), to: .getUsersProfile, of: users[0], errors: [], policy: lenient, into: &json)
        let answer = try JSONReader.read(json.bytes)
        #expect(answer["profileList"]?.elements.map { $0["userID"]?.textValue } == ["ann", "ben"])
        let errors = answer["errorUserList"]?.elements.map { "\($0["userID"]!.textValue) \($0["code"]!.number)" }
        #expect(errors == ["zoe 70107", "cid 50001"])
        policy.errorShape = .wholeCall
        let strict = SharedPolicy(policy)
        let error = #expect(throws: Problem.self) {
            try API.write(.profiles(profiles, users: users), to: .getUsersProfile, of: users[0], errors: [], policy: strict, into: &json)
        }
        #expect(error?.code == 70107)
    }

    // MARK: With friends

    @Test("A page of friends, and the changes since a sequence, come with their profiles") mutating func friends() throws {
        for name in [ben, cluster.user(ownedBy: 2)] {
            try modify([("Nick", .text("I am \(name)"))], by: name)
            add(name, by: ann)
        }
        let list = try friendList(FriendQuery(withProfile: true), by: ann)
        let nicks = list?["friendList"]?.elements.map { $0["profile"]?["nick"]?.textValue ?? "" }
        #expect(nicks?.count == 2 && nicks == list?["friendList"]?.elements.map { "I am \($0["userID"]!.textValue)" })
        #expect(list?["total"]?.number == 2 && list?["isFull"] == .bool(true))
        let sequence = try #require(list?["seq"]?.textValue)
        let other = cluster.user(ownedBy: 2, number: 1)
        add(other, by: ann)
        let changes = try friendList(FriendQuery(since: sequence, withProfile: true), by: ann)
        #expect(changes?["friendList"]?.elements.map { $0["profile"]?["userID"]?.textValue } == [other])
        #expect(try friendList(FriendQuery(), by: ann)?["friendList"]?.elements.allSatisfy { $0["profile"] == nil } == true)
        #expect(try friendList(FriendQuery(withProfile: true), by: "nobody")?["friendList"]?.elements == [])
    }

    @Test("Requests have the other user's nickname at their time, on both sides (P26)") mutating func nicknames() throws {
        set(#"{"profile.defaultAllowType":"confirm"}"#)
        try modify([("Nick", .text("Ann"))], by: ann)
        try modify([("Nick", .text("Ben"))], by: ben)
        add(ben, by: ann)
        try modify([("Nick", .text("Anna"))], by: ann)
        for (name, nickname, type) in [(ann, "Ben", Int64(2)), (ben, "Ann", 1)] {
            let item = try perform(.requests(RequestQuery()), by: name, on: 2)?["pendencyList"]?.elements.first
            #expect(item?["nickname"]?.textValue == nickname && item?["type"]?.number == type)
        }
    }
}
