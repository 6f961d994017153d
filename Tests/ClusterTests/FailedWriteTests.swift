import Glibc
import HTTP2
import NIOPosix
import NodeFixture
import Testing

/// The answers to calls while a change cannot reach a second disk.
@Suite(.serialized, .timeLimit(.minutes(2))) struct FailedWriteTests {
    private struct Answered: Sendable {
        let isRead: Bool
        let status: Int
        let json: JSON
    }

    private static let reads = [("getSelfProfile", "{}"), ("getFriendList", "{}"), ("getFriendGroups", "{}")]

    /// A call of each kind of fact.
    private static let writes = [
        ("setVisibility", #"{"invisible":true}"#), ("publishEvent", #"{"value":10001}"#), ("setSelfStatus", #"{"customStatus":"x"}"#),
        ("modifySelfProfile", #"{"values":{"Nick":"x"}}"#), ("addFriend", #"{"userID":"eve"}"#), ("addBlackList", #"{"userIDs":["eve"]}"#),
        ("createFriendGroup", #"{"groupNames":["work"]}"#), ("subscribeUserStatus", #"{"userIDs":["eve"]}"#),
    ]

    @Test("An event that cannot reach its second disk is answered 50001, and is published when it is repeated after the other node is back")
    func events() async throws {
        let fixture = try await ServedCluster.start(nodes: 2)
        let names = (0..<6).map { "user\($0)" }
        func publish(_ value: Int, as user: String) async throws -> (status: Int, json: JSON) {
            try await fixture.call("publishEvent", "{\"value\":\(value),\"sendToOnlineUsersOnly\":false}", as: user)
        }
        for user in names { #expect(try await publish(10_000, as: user).status == 200) }
        try fixture.nodes[1].standStill()
        let answers = try await withThrowingTaskGroup(of: (user: String, answered: Answered).self) { calls in
            for user in names {
                calls.addTask {
                    let answer = try await publish(10_001, as: user)
                    return (user, Answered(isRead: false, status: answer.status, json: answer.json))
                }
            }
            return try await calls.reduce(into: []) { $0.append($1) }
        }
        fixture.nodes[1].signal(SIGCONT)
        let refused = answers.filter { $0.answered.status != 200 }
        #expect(!refused.isEmpty, "\(answers)")
        for (user, answer) in refused {
            #expect(answer.status == 503 && answer.json["code"]?.number == 50_001, "\(user): \(answer.json)")
            #expect(answer.json["eventID"] == nil && answer.json["userStatus"] == nil)
        }
        for user in names {
            var published: String?
            try await fixture.until("\(user) can publish again") {
                let answer = try await publish(10_002, as: user)
                published = answer.json["eventID"]?.text
                return answer.status == 200
            }
            for node in 0..<2 {
                try await fixture.until("the event of \(user) is known at node \(node)") {
                    let asked = try await fixture.call("getUserStatus", "{\"userIDs\":[\"\(user)\"]}", as: user, node: node)
                    let event = asked.json["userStatusList"]?.elements.first?["event"]
                    return event?["value"]?.number == 10_002 && event?["eventID"]?.text == published
                }
            }
        }
        try await fixture.stop()
    }

    /// Publishes an event with the same key at each call.
    private func publishAgain(as user: String, node: Int, in fixture: ServedCluster) async throws -> HTTPExchange.Response {
        try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: fixture.nodes[node].ports.client, path: "/v1/publishEvent",
            headers: [("authorization", "Bearer \(try signedToken(user: user))"), ("idempotency-key", "key")], body: #"{"value":10001}"#,
            on: MultiThreadedEventLoopGroup.singleton.next())
    }

    @Test("An event that may have taken effect is published once: its repetitions have one answer, and a follower is told of one event")
    func repeatedEvent() async throws {
        let fixture = try await ServedCluster.start(nodes: 2)
        let names = (0..<6).map { "user\($0)" }
        let users = names.map { "\"\($0)\"" }.joined(separator: ",")
        var events = try fixture.events("follower").makeAsyncIterator()
        let followed = try await fixture.call("subscribeUserStatus", "{\"userIDs\":[\(users)],\"expiry\":3600}", as: "follower")
        #expect(followed.status == 200)
        try fixture.nodes[1].standStill()
        let refused = try await withThrowingTaskGroup(of: HTTPExchange.Response.self) { calls in
            for user in names { calls.addTask { try await publishAgain(as: user, node: 0, in: fixture) } }
            return try await calls.reduce(into: []) { $0.append($1) }
        }
        fixture.nodes[1].signal(SIGCONT)
        #expect(refused.contains { $0.text.contains(#""mayTakeEffect":true"#) }, "\(refused.map(\.text))")
        for answer in refused where answer.text.contains(#""mayTakeEffect":true"#) {
            #expect(answer.status == 503 && answer.text.contains(#""code":50001"#) && !answer.text.contains("safe to retry"))
        }

        var published: Set<String> = []
        for user in names {
            var first = ""
            try await fixture.until("the event of \(user) is published") {
                let answer = try await publishAgain(as: user, node: 1, in: fixture)
                first = answer.text
                return answer.status == 200
            }
            for node in 0..<2 { #expect(try await publishAgain(as: user, node: node, in: fixture).text == first) }
            published.insert(try #require(try JSON(Array(first.utf8))["eventID"]?.text))
            #expect(try await fixture.call("publishEvent", #"{"value":10002}"#, as: user).status == 200)
        }
        // The follower has been told all before the last event of each user.
        var text = ""
        var lastCount = 0
        while lastCount < names.count, let piece = try await events.next() {
            text += String(decoding: piece, as: UTF8.self)
            lastCount = Set(text.matches(of: /"eventID":"([0-9a-f]+)","value":10002/).map { $0.1 }).count
        }
        let told = Set(text.matches(of: /"eventID":"([0-9a-f]+)","value":10001/).map { String($0.1) })
        #expect(published.count == names.count && !told.isEmpty && told.isSubset(of: published), "\(told) of \(published)")
        try await fixture.stop()
    }

    /// The other node keeps the second copy of every change. While it is paused, each read waits for the change before it.
    @Test("Of calls that fail together, only those that may have written say that they may take effect") func reads() async throws {
        let fixture = try await ServedCluster.start(nodes: 2)
        try fixture.nodes[1].standStill()
        let answers = try await withThrowingTaskGroup(of: Answered.self) { calls in
            for user in (0..<6).map({ "user\($0)" }) {
                calls.addTask {
                    let answer = try await fixture.call("modifySelfProfile", #"{"values":{"Nick":"x"}}"#, as: user)
                    return Answered(isRead: false, status: answer.status, json: answer.json)
                }
                for (operation, body) in Self.reads {
                    calls.addTask {
                        let answer = try await fixture.call(operation, body, as: user)
                        return Answered(isRead: true, status: answer.status, json: answer.json)
                    }
                }
            }
            return try await calls.reduce(into: []) { $0.append($1) }
        }
        let refused = answers.filter { $0.status == 503 }
        #expect(refused.contains { !$0.isRead && $0.json["mayTakeEffect"] == .bool(true) }, "\(answers)")
        #expect(refused.contains { $0.isRead }, "\(answers)")
        for answer in answers where answer.isRead { #expect(answer.json["mayTakeEffect"] == nil, "\(answer.json)") }
        for answer in refused where answer.json["mayTakeEffect"] != nil {
            #expect(answer.json["detail"]?.text?.contains("safe to retry") == false, "\(answer.json)")
        }
        try await fixture.nodes[1].kill()
        try await fixture.nodes[0].stop()
    }

    @Test("A call of any kind that may have written does not say that it is safe to retry") func writes() async throws {
        let fixture = try await ServedCluster.start(nodes: 2)
        try fixture.nodes[1].standStill()
        let answers = try await withThrowingTaskGroup(of: (operation: String, answered: Answered).self) { calls in
            for (operation, body) in Self.writes {
                for number in 0..<4 {
                    // Each call is of a user of its own, and waits for no other one.
                    calls.addTask {
                        let answer = try await fixture.call(operation, body, as: "\(operation)\(number)")
                        return (operation, Answered(isRead: false, status: answer.status, json: answer.json))
                    }
                }
            }
            return try await calls.reduce(into: []) { $0.append($1) }
        }
        for (operation, _) in Self.writes {
            let unsure = answers.filter { $0.operation == operation }.map { $0.answered }.filter { $0.json["mayTakeEffect"] == .bool(true) }
            #expect(!unsure.isEmpty, "\(operation): \(answers)")
            for answer in unsure {
                #expect(answer.status == 503 && answer.json["code"]?.number == 50_001, "\(operation): \(answer.json)")
                #expect(answer.json["detail"]?.text?.contains("safe to retry") == false, "\(operation): \(answer.json)")
            }
        }
        try await fixture.nodes[1].kill()
        try await fixture.nodes[0].stop()
    }
}
