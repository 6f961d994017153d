import HTTP2
import NIOCore
import NIOPosix
import NodeFixture
import PresenceClient
import Synchronization
import Testing

/// An app of one test, with its own users and its own policy.
struct App: Sendable {
    let name: String
    let cluster: ServedCluster
    private static let made = Mutex(0)

    /// - Parameters:
    ///   - preset: the document's.
    ///   - settings: what overrides it, as JSON.
    init(_ preset: String, _ settings: String = "{}") async throws {
        cluster = try #require(ClusterTrait.cluster)
        let number = Self.made.withLock { made in
            made += 1
            return made
        }
        name = "app\(number)"
        let answer = try await admin("setAppPolicy", "{\"preset\":\"\(preset)\",\"settings\":\(settings)}")
        try #require(answer.status == 200, "\(answer.json)")
    }

    func token(_ user: String, isAdmin: Bool = false) throws -> String {
        try signedToken(user: user, app: name, isAdmin: isAdmin)
    }

    /// Calls an operation as `user`, on a node.
    func call(_ operation: String, _ body: String, as user: String = "ann", isAdmin: Bool = false, node: Int = 0) async throws -> Answer {
        let response = try await exchange(operation, body, key: nil, as: user, isAdmin: isAdmin, node: node)
        return Answer(status: response.status, json: try JSON(response.body))
    }

    /// Calls an operation as `user`, on a node. The answer is as the node has sent it.
    ///
    /// - Parameter key: the header `Idempotency-Key`; nil for none.
    func exchange(
        _ operation: String, _ body: String, key: String?, as user: String = "ann", isAdmin: Bool = false, node: Int
    ) async throws -> HTTPExchange.Response {
        var headers: [(name: StaticString, value: String)] = [("authorization", "Bearer \(try token(user, isAdmin: isAdmin))")]
        if let key { headers.append(("idempotency-key", key)) }
        return try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: cluster.nodes[node].ports.client, path: "/v1/\(operation)", headers: headers, body: body,
            on: MultiThreadedEventLoopGroup.singleton.next())
    }

    /// Calls an operator's operation with the app's admin token.
    func admin(_ operation: String, _ body: String, node: Int = 0) async throws -> Answer {
        let port = cluster.nodes[node].ports.ops
        return try await send(port, "/admin/v1/\(operation)", body, try token("operator", isAdmin: true))
    }

    /// Changes single settings; the answer comes when all nodes follow.
    func set(_ settings: String, node: Int = 0) async throws {
        let answer = try await admin("setAppPolicy", "{\"settings\":\(settings)}", node: node)
        try #require(answer.status == 200, "\(answer.json)")
    }

    private func send(_ port: Int, _ path: String, _ body: String, _ token: String) async throws -> Answer {
        let response = try await HTTPExchange.send(
            .post, host: "127.0.0.1", port: port, path: path, headers: [("authorization", "Bearer \(token)")], body: body,
            on: MultiThreadedEventLoopGroup.singleton.next())
        return Answer(status: response.status, json: try JSON(response.body))
    }

    /// Logs `user` in on a node, and waits until the session is synced.
    ///
    /// - Parameters:
    ///   - position: that of the last event of an earlier stream, from which this one resumes.
    ///   - seconds: the time for which the token of the stream is valid.
    func login(
        _ user: String, node: Int = 0, query: String = "platform=ios", from position: String? = nil, tokenSeconds seconds: Int = 86_400
    ) async throws -> Session {
        let token = try signedToken(user: user, app: name, seconds: seconds)
        var headers: [(name: StaticString, value: String)] = [("authorization", "Bearer \(token)")]
        if let position { headers.append(("last-event-id", position)) }
        let session = Session(
            HTTPExchange.stream(
                host: "127.0.0.1", port: cluster.nodes[node].ports.client, path: "/v1/events?\(query)", headers: headers,
                on: MultiThreadedEventLoopGroup.singleton.next()))
        try await session.until("\(user) is logged in") { events in
            events.contains { $0.name == "onSubscriptionSyncCompleted" || $0.name == "ended" }
        }
        if let failure = session.events.first(where: { $0.name == "failed" }) {
            throw TestFailure(failure.json.text ?? "")
        }
        return session
    }

    /// The status of `target` as `user` sees it.
    func status(of target: String, as user: String = "watcher", node: Int = 0) async throws -> JSON {
        let answer = try await call("getUserStatus", "{\"userIDs\":[\"\(target)\"]}", as: user, node: node)
        return try #require(answer.statuses.first, "\(answer.json)")
    }

    /// Waits until `target` has a general status, as `user` sees it.
    func until(_ target: String, is type: String, node: Int = 0) async throws {
        try await cluster.until("\(target) is \(type)") { try await status(of: target, as: target, node: node).general == type }
    }

    /// Registers users, as the app's back end does.
    func register(_ users: [String]) async throws {
        for start in stride(from: 0, to: users.count, by: 1_000) {
            let names = users[start..<min(start + 1_000, users.count)].map { "\"\($0)\"" }.joined(separator: ",")
            let answer = try await admin("importUsers", "{\"userIDs\":[\(names)]}")
            try #require(answer.status == 200 && answer.errors == [], "\(answer.json)")
        }
    }

    /// Sets the custom status of `user`, as often as the app's limit of calls refuses it. Returns the answer that is not such a refusal.
    @discardableResult func setStatus(_ text: String, of user: String, node: Int = 0) async throws -> Answer {
        var answer: Answer?
        try await cluster.until("setSelfStatus of \(user) is within the limit of calls") {
            answer = try await call("setSelfStatus", "{\"customStatus\":\"\(text)\"}", as: user, node: node)
            return answer?.code != 7008
        }
        return try #require(answer)
    }

    /// Waits for so many whole seconds: a text of `user` is valid for them, and `session` of that user is told of its end.
    func pass(_ seconds: Int64, _ session: Session, of user: String) async throws {
        let text = "for \(seconds) s, \(session.events.count)"
        let answer = try await call("setSelfStatus", "{\"customStatus\":\"\(text)\",\"expiry\":\(seconds)}", as: user)
        try #require(answer.code == 0, "\(answer.json)")
        try await session.until("\(seconds) s have passed", within: .seconds(seconds + 10)) { events in
            let told = events.compactMap { $0.custom(user) }
            guard let set = told.lastIndex(of: text) else { return false }
            return told[set...].contains("")
        }
    }

    /// On which platforms `user` is, whatever the policy shows to others.
    func platforms(of user: String, node: Int = 0) async throws -> [String] {
        let answer = try await admin("queryOnlineStatus", "{\"userIDs\":[\"\(user)\"]}", node: node)
        return try #require(answer.statuses.first, "\(answer.json)").platforms
    }

    /// The targets of `user`, in the order of their names. The back end asks, because it has no rate limits.
    func followed(by user: String = "ann", node: Int = 0) async throws -> [String] {
        let answer = try await call("getSubscribedUserStatus", "{\"asUser\":\"\(user)\"}", as: "backend", isAdmin: true, node: node)
        try #require(answer.status == 200, "\(answer.json)")
        return answer["subscriptions"].elements.compactMap { $0["userID"]?.text }
    }

    /// The number of targets of `user`. The back end asks.
    func followedCount(by user: String = "ann") async throws -> Int64? {
        try await call("getSubscribedUserStatus", "{\"limit\":1,\"asUser\":\"\(user)\"}", as: "backend", isAdmin: true)["total"].number
    }

    /// The settings in force, from a node.
    func policy(node: Int = 0) async throws -> Answer { try await admin("getAppPolicy", "{}", node: node) }

    /// The configuration with which `user` reaches the nodes through a dialect's client.
    func configuration(of user: String, nodes: [Int] = [0, 1, 2]) -> ClientConfiguration {
        var configuration = ClientConfiguration(addresses: nodes.map { "http://127.0.0.1:\(cluster.nodes[$0].ports.client)" }) {
            try token(user)
        }
        configuration.platform = "ios"
        return configuration
    }
}

/// The answer to a call.
struct Answer: Sendable {
    let status: Int
    let json: JSON

    subscript(_ name: String) -> JSON { json[name] ?? .null }
    /// The stable code (<doc:HTTPAPI#Errors>); 0 for success.
    var code: Int64 { status == 200 ? 0 : self["code"].number ?? -1 }
    var detail: String { self["detail"].text ?? "" }
    var statuses: [JSON] { self["userStatusList"].elements }
    /// `errorUserList` as "user code".
    var errors: [String] { self["errorUserList"].elements.map { "\($0["userID"]?.text ?? "?") \($0["code"]?.number ?? -1)" } }
}

extension JSON {
    /// The fields of a `UserStatus`.
    var general: String? { self["statusType"]?.text }
    var custom: String? { self["customStatus"]?.text }
    var user: String? { self["userID"]?.text }
    var platforms: [String] { self["onlinePlatforms"]?.elements.compactMap(\.text) ?? [] }
    var event: Int64? { self["event"]?["value"]?.number }
}

/// `{"userIDs":["u0",…]}`, with more fields if there are any.
func users(_ names: some Sequence<String>, _ more: String = "") -> String {
    "{\"userIDs\":[" + names.map { "\"\($0)\"" }.joined(separator: ",") + "]" + (more.isEmpty ? "" : "," + more) + "}"
}

/// u000, u001, …
func many(_ range: Range<Int>) -> [String] { range.map { "u" + String(repeating: "0", count: max(4 - "\($0)".count, 0)) + "\($0)" } }
