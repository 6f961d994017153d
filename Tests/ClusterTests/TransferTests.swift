import Foundation
import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// `rollcall export` and `rollcall import` between two clusters of three nodes, and `exportUser`.
@Suite(.serialized, .timeLimit(.minutes(5))) struct TransferTests {
    private func ops(_ fixture: ServedCluster, node: Int = 0) -> [String] {
        ["--ops", "http://127.0.0.1:\(fixture.nodes[node].ports.ops)"]
    }

    /// Calls an operation as a back end that names the user; throws unless it is answered 200.
    @discardableResult
    private func call(_ operation: String, _ members: String, by user: String, _ fixture: ServedCluster, node: Int = 0) async throws -> JSON
    {
        let answer = try await fixture.call(operation, #"{"asUser":"\#(user)",\#(members)}"#, as: "operator", isAdmin: true, node: node)
        guard answer.status == 200 else { throw TestFailure("\(operation): \(answer.json)") }
        return answer.json
    }

    /// Writes something of each kind: groups, friends, remarks, requests, blocks, profiles and subscriptions of the types 1 and 2.
    private func fill(_ fixture: ServedCluster) async throws {
        try await fixture.setPolicy(#"{"profile.defaultAllowType":"confirm"}"#)
        for (number, user) in ["ann", "ben", "cid", "dan"].enumerated() {
            try await call("modifySelfProfile", #""values":{"Nick":"Nick of \#(user)","Level":\#(number)}"#, by: user, fixture)
        }
        try await call("addFriend", #""userID":"ben","remark":"Benny","force":true"#, by: "ann", fixture, node: 1)
        try await call("createFriendGroup", #""groupNames":["work","chess"],"userIDs":["ben"]"#, by: "ann", fixture, node: 2)
        try await call("addFriend", #""userID":"cid","addWording":"hello","group":"chess""#, by: "ann", fixture)
        try await call("pendencyReport", #""timestamp":1000"#, by: "cid", fixture)
        try await call("addBlackList", #""userIDs":["eve"]"#, by: "ann", fixture, node: 1)
        try await call("subscribeUserStatus", #""userIDs":["cid","dan"],"expiry":3600"#, by: "ann", fixture)
        try await call("subscribeUserStatus", #""userIDs":["dan"],"subscribeType":2"#, by: "ann", fixture)
        try await call("subscribeUserStatus", #""userIDs":["ben"],"subscribeType":3"#, by: "ann", fixture)
        let friends = (0..<100).map { #"{"userID":"f\#($0)","groups":["work"],"addTime":\#($0)}"# }.joined(separator: ",")
        try await call("importFriends", "\"friends\":[\(friends)]", by: "ann", fixture)
    }

    private func export(_ name: String, _ fixture: ServedCluster, node: Int) async throws -> [String] {
        let path = "\(fixture.directory)/\(name)"
        let ended = try await RollcallBinary.run(["export", path] + ops(fixture, node: node))
        #expect(ended.status == 0, "\(ended.output)")
        #expect(!FileManager.default.fileExists(atPath: path + ".part"))
        return try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map(String.init)
    }

    @Test("An app that is exported and imported into an empty cluster is exported there as the same lines") func roundTrip() async throws {
        let old = try await ServedCluster.start(nodes: 3)
        try await fill(old)
        let lines = try await export("facts.ndjson", old, node: 2)
        #expect(lines.count > 110)
        for (kind, words) in [
            ("friendGroup", "chess"), ("friend", "Benny"), ("pendencyOut", "\"key\":\"cid\""), ("pendencyIn", "hello"),
            ("blocked", "eve"), ("profile", "Nick of dan"), ("subscription", "expiresAt"), ("profileSubscription", "dan"),
        ] {
            #expect(lines.contains { $0.contains("\"kind\":\"\(kind)\"") && $0.contains(words) }, "\(kind)")
        }
        let other = try await RollcallBinary.run(["export", "\(old.directory)/other.ndjson", "--app", "other"] + ops(old))
        #expect(other.status == 0 && other.output.hasPrefix("0 facts: "), "\(other.output)")

        let new = try await ServedCluster.start(nodes: 3)
        let file = "\(old.directory)/facts.ndjson"
        let trial = try await RollcallBinary.run(["import", file, "--dry-run"] + ops(new, node: 1))
        #expect(trial.status == 0, "\(trial.output)")
        #expect(trial.output.contains("dry run: \(lines.count) rows: \(lines.count) imported, 0 present already, 0 refused"))
        #expect(try await export("empty.ndjson", new, node: 0) == [])

        let ended = try await RollcallBinary.run(["import", file] + ops(new, node: 1))
        #expect(ended.status == 0, "\(ended.output)")
        #expect(ended.output.contains("\(lines.count) rows: \(lines.count) imported, 0 present already, 0 refused"))
        for node in 0..<3 { #expect(try await export("again.ndjson", new, node: node) == lines) }

        let groups = try await call("getFriendGroups", #""groupNames":["work"]"#, by: "ann", new)
        #expect(groups["groupList"]?.elements.first?["userCnt"]?.number == 101)
        let accepted = try await call("doResponse", #""userID":"ann","responseType":1"#, by: "cid", new, node: 2)
        #expect(accepted["resultCode"]?.number == 0)

        let repeated = try await RollcallBinary.run(["import", file] + ops(old))
        #expect(repeated.status == 0, "\(repeated.output)")
        #expect(repeated.output.contains("\(lines.count) rows: 0 imported, \(lines.count) present already, 0 refused"))
        try await new.stop()
        try await old.stop()
    }

    @Test("Refused lines are in the report with their reasons, and the mended report can be imported") func report() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let good = #"{"userID":"ann","kind":"friend","key":"ben","value":{"addTime":1}}"#
        let lines = [
            "not JSON", good, #"{"userID":"ann","kind":"friend","key":"cid","value":{"addTime":"soon"}}"#,
            #"{"userID":"ann","kind":"shoe","key":"cid","value":{}}"#,
            #"{"userID":"ann","kind":"friend","key":"ann","value":{"addTime":1}}"#,
        ]
        let path = "\(fixture.directory)/bad.ndjson"
        try Data((["{}"] + lines).joined(separator: "\n").utf8).write(to: URL(filePath: path))
        let ended = try await RollcallBinary.run(["import", path] + ops(fixture))
        #expect(ended.status == 1 && ended.output.contains("6 rows: 1 imported, 0 present already, 5 refused"), "\(ended.output)")
        let report = try String(contentsOfFile: "\(path).refused.ndjson", encoding: .utf8).split(separator: "\n").map {
            try JSON(Array($0.utf8))
        }
        #expect(report.compactMap { $0["row"]?.number } == [1, 2, 4, 5, 6])
        #expect(report.compactMap { $0["code"]?.number } == [7003, 0, 6017, 6017, 6017])
        #expect(
            report[2]["reason"]?.text?.contains("addTime") == true && report[3]["reason"]?.text?.contains("kind: must be one of") == true)

        let mended = #"{"userID":"ann","kind":"friend","key":"cid","value":{"addTime":2},"row":4,"code":6017,"reason":"addTime"}"#
        try Data(mended.utf8).write(to: URL(filePath: path))
        let again = try await RollcallBinary.run(["import", path] + ops(fixture, node: 2))
        #expect(again.status == 0 && again.output.contains("1 rows: 1 imported"), "\(again.output)")
        #expect(!FileManager.default.fileExists(atPath: "\(path).refused.ndjson"))
        try await fixture.stop()
    }

    @Test("A name with control characters or as base 64 is refused with its line, and nobody is shown it") func shownTexts() async throws {
        let fixture = try await ServedCluster.start(nodes: 3)
        let names = [#""Ann\n\u0000""#, #""\u009bAnn""#, #"{"base64":"QW5u"}"#]
        let bad = names.flatMap { name in
            ["Nick", "FaceUrl"].map { #"{"userID":"ann","kind":"profile","key":"","value":{"\#($0)":\#(name),"Level":7}}"# }
        }
        let good = [
            #"{"userID":"ann","kind":"friend","key":"ben","value":{"addTime":1}}"#,
            #"{"userID":"ben","kind":"profile","key":"","value":{"Nick":"Ben","SelfSignature":"two\nlines"}}"#,
        ]
        let path = "\(fixture.directory)/names.ndjson"
        try Data((bad + good).joined(separator: "\n").utf8).write(to: URL(filePath: path))
        let ended = try await RollcallBinary.run(["import", path] + ops(fixture, node: 1))
        #expect(ended.status == 1 && ended.output.contains("8 rows: 2 imported, 0 present already, 6 refused"), "\(ended.output)")
        let report = try String(contentsOfFile: "\(path).refused.ndjson", encoding: .utf8).split(separator: "\n").map {
            try JSON(Array($0.utf8))
        }
        #expect(report.compactMap { $0["row"]?.number } == Array(1...6))
        #expect(report.compactMap { $0["code"]?.number } == Array(repeating: 6017, count: 6))
        for (number, row) in report.enumerated() {
            let field = number % 2 == 0 ? "Nick" : "FaceUrl"
            let rule = number < 4 ? "a text without control characters" : "a text, not base 64"
            #expect(row["reason"]?.text?.contains("\(field) must be \(rule)") == true, "\(row)")
        }
        let answer = try await fixture.call("getUsersProfile", #"{"userIDs":["ann","ben"]}"#, as: "ben", node: 2)
        let profiles = answer.json["profileList"]?.elements ?? []
        #expect(profiles.map { $0["nick"]?.text } == ["", "Ben"] && profiles.map { $0["faceURL"]?.text } == ["", ""], "\(answer.json)")
        #expect(profiles.first?["level"]?.number == 0, "a refused line sets none of its fields")
        try await fixture.stop()
    }

    @Test("exportUser answers at each node all that the cluster holds about a user, to an app's back end alone") func everything()
        async throws
    {
        let fixture = try await ServedCluster.start(nodes: 3)
        try await fill(fixture)
        let stream = try fixture.events("ann", node: 1, query: "platform=ios&deviceID=p")
        var iterator = stream.makeAsyncIterator()
        _ = try await iterator.next()
        for node in 0..<3 {
            let answer = try await fixture.admin("exportUser", #"{"userID":"ann"}"#, node: node)
            #expect(answer.status == 200 && answer.json["userID"]?.text == "ann" && answer.json["cursor"] == nil, "\(answer.json)")
            #expect(answer.json["sessions"]?.elements.compactMap { $0["deviceID"]?.text } == ["p"])
            let facts = answer.json["facts"]?.elements ?? []
            let kinds = Set(facts.compactMap { $0["kind"]?.text })
            #expect(
                kinds.isSuperset(of: ["status", "profile", "friendGroup", "friend", "pendencyOut", "blocked", "subscription"]), "\(kinds)")
            #expect(facts.allSatisfy { $0["userID"]?.text == "ann" })
            let mentions = Set((answer.json["mentionedBy"]?.elements ?? []).map { "\($0["userID"]?.text ?? "") \($0["kind"]?.text ?? "")" })
            #expect(mentions == ["ben friend", "cid pendencyIn"], "\(mentions)")
        }
        for (body, words) in [("{}", "userID"), (#"{"userID":"ann","cursor":"page 2"}"#, "cursor")] {
            let refused = try await fixture.admin("exportUser", body)
            #expect(refused.status == 400 && refused.json["detail"]?.text?.contains(words) == true, "\(refused.json)")
        }
        let token = try signedToken(user: "ann")
        let own = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: fixture.nodes[0].ports.ops, path: "/admin/v1/exportUser",
            headers: [("authorization", "Bearer \(token)")], body: #"{"userID":"ann"}"#, on: MultiThreadedEventLoopGroup.singleton.next())
        #expect(own.status == 403)
        let elsewhere = try await fixture.admin("exportUser", #"{"userID":"ann"}"#, app: "other")
        #expect(elsewhere.json["facts"]?.elements == [] && elsewhere.json["mentionedBy"]?.elements == [])
        withExtendedLifetime(stream) {}
        try await fixture.stop()
    }

    @Test("A wrong kind of export is refused, and an export that no node answers leaves no file") func refused() async throws {
        let fixture = try await ServedCluster.start()
        let token = try signedToken(user: "operator", isAdmin: true)
        let wrong = try await HTTPExchange.send(
            .get, host: "127.0.0.1", port: fixture.nodes[0].ports.ops, path: "/admin/v1/export?kind=shoes",
            headers: [("authorization", "Bearer \(token)")], on: MultiThreadedEventLoopGroup.singleton.next())
        #expect(wrong.status == 400 && wrong.text.contains("kind: must be online or all"), "\(wrong.text)")
        let port = fixture.nodes[0].ports.ops
        try await fixture.stop()
        let path = "\(fixture.directory)/none.ndjson"
        let ended = try await RollcallBinary.run(["export", path, "--ops", "http://127.0.0.1:\(port)"])
        #expect(ended.status == 69, "\(ended.output)")
        #expect(!FileManager.default.fileExists(atPath: path) && !FileManager.default.fileExists(atPath: path + ".part"))
    }
}
