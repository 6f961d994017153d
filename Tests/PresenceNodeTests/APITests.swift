import PresenceCore
import PresenceWire
import Testing

@testable import PresenceNode

@Suite struct APITests {
    var policy = Policy()
    let caller = Caller(user: UserID(app: "default", id: "ann"), isAdmin: false, expiresAt: .max)

    func parse(_ operation: API.Operation, _ body: String) throws(Problem) -> API.Parsed {
        let bytes = Array(body.utf8)
        let result: Result<API.Parsed, Problem> = bytes.withUnsafeBufferPointer { bytes in
            Result { () throws(Problem) in try API.parse(operation, body: bytes, caller: caller, policy: SharedPolicy(policy)) }
        }
        return try result.get()
    }

    @Test("A query names its users") func query() throws {
        for _ in 0..<100 {
            let parsed = try parse(.getUserStatus, #"{"userIDs":["bob","carl","bob"]}"#)
            #expect(parsed.call == .getUserStatus([UserID(app: "default", id: "bob"), UserID(app: "default", id: "carl")]))
        }
    }

    @Test("Each call of a user that names a session shows that its client lives, but for a logout") func signs() throws {
        let session = SessionID(stamp: 7, node: 9)
        let fields = #""sessionID":"\#(session)","userIDs":["bob"],"customStatus":"x","value":10001,"checkType":1,"delType":1"#
        for operation in [.setSelfStatus, .getUserStatus, .getFriendList, .publishEvent, .checkFriends, .deleteFriends] as [API.Operation] {
            #expect(try parse(operation, "{\(fields)}").sign == session, "\(operation)")
            // To an operation that does not need it, it is one of the unknown fields.
            if operation != .publishEvent { #expect(try parse(operation, "{\(fields),\"sessionID2\":1}").sign == session) }
        }
        #expect(try parse(.logout, "{\(fields)}").sign == nil)
        #expect(try parse(.getUserStatus, #"{"userIDs":["bob"],"sessionID":7}"#).sign == nil)
    }

    @Test(
        "A call of the relationship chain that names the caller answers so for the caller, and goes on with the others",
        arguments: [API.Operation.addBlackList, .deleteBlackList, .deleteFriends, .checkFriends])
    func caller(operation: API.Operation) throws {
        let parsed = try parse(operation, #"{"userIDs":["bob","ann"],"checkType":2,"delType":1}"#)
        #expect(parsed.errors.map(\.userID) == ["ann"] && parsed.errors.map(\.code) == [6017])
        #expect("\(parsed.call)".contains("bob") && !"\(parsed.call)".contains("ann"))
    }

    @Test("Answers are JSON") func answers() throws {
        for _ in 0..<100 {
            let users = [UserID(app: "default", id: "bob")]
            var json = JSONWriter()
            try API.write(
                .userStatusList([Record(blank: users[0])], users: users, asOf: 5), to: .getUserStatus, of: users[0], errors: [],
                policy: SharedPolicy(policy),
                into: &json)
            #expect(try JSONReader.read(json.bytes)["asOf"] == .integer(5))
        }
    }

    @Test("An unreachable owner makes an entry in errorUserList and a row without a status")
    func unreachableInList() throws {
        let users = ["bob", "carl"].map { UserID(app: "default", id: $0) }
        let page = users.map { Subscription(target: $0, subscribedAt: 5, expiresAt: nil, version: .zero) }
        var json = JSONWriter()
        try API.write(
            .subscriptions(page, records: [nil, Record(blank: users[1])], total: 7), to: .getSubscribedUserStatus, of: caller.user,
            errors: [],
            policy: SharedPolicy(policy), into: &json)
        let answer = try JSONReader.read(json.bytes)
        guard case .array(let rows) = answer["subscriptions"], case .array(let errors) = answer["errorUserList"] else {
            Issue.record("\(answer)")
            return
        }
        #expect(rows.map { $0["userID"] } == ["bob", "carl"] && rows.map { $0["userStatus"] != nil } == [false, true])
        #expect(errors.count == 1 && errors[0]["userID"] == "bob" && errors[0]["code"] == 50001)
        #expect(errors.first?["reason"] == .string(Refusal.unavailable.detail) && answer["total"] == 7)
    }

    @Test("A visibility is accepted as a whole or not at all") func visibility() throws {
        let bob = UserID(app: "default", id: "bob")
        #expect(
            try parse(.setVisibility, #"{"visibility":"list","userIDs":["bob"],"invisible":false}"#).call
                == .setVisibility(.init(mode: .list, isInvisible: false, listed: [bob])))
        #expect(try parse(.setVisibility, "{}").call == .setVisibility(.init()))
        let ids = { (count: Int) in (0..<count).map { "\"u\($0)\"" }.joined(separator: ",") }
        #expect(throws: Never.self) { try parse(.setVisibility, #"{"userIDs":[\#(ids(100))]}"#) }
        for (body, code, problem) in [
            (#"{"visibility":"some"}"#, 6017, "visibility: \"some\" is not one of everyone, friends, list, nobody"),
            (#"{"visibility":7}"#, 6017, "visibility: must be a string"),
            (#"{"invisible":"yes"}"#, 6017, "invisible: must be true or false"),
            (#"{"userIDs":[\#(ids(101))]}"#, 6017, "userIDs: has 101 users; at most 100"), (#"{"userIDs":["bob",""]}"#, 7003, "userIDs[1]"),
        ] {
            let error = #expect(throws: Problem.self) { try parse(.setVisibility, body) }
            #expect(error?.code == code && error?.detail.hasPrefix(problem) == true, "\(String(describing: error))")
        }
    }

    /// JSON knows no integers, only numbers: 60.0 is as whole as 60 (found by Tests/Fuzz/api).
    @Test("A whole number may be written with a fraction") func wholeNumbers() throws {
        let call = try parse(.subscribeUserStatus, #"{"userIDs":["bob"],"expiry":60.0}"#).call
        #expect(call == .subscribeUserStatus([UserID(app: "default", id: "bob")], seconds: 60, sync: false, subscribeType: 1))
        #expect(throws: Problem.self) { try parse(.subscribeUserStatus, #"{"userIDs":["bob"],"expiry":60.5}"#) }
        #expect(throws: Problem.self) { try parse(.publishEvent, #"{"value":1e300}"#) }
        #expect(try parse(.publishEvent, #"{"value":1.5e4}"#).call == parse(.publishEvent, #"{"value":15000}"#).call)
    }
}
