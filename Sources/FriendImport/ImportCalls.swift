import AsyncHTTPClient
import Foundation
import NIOCore
import NIOSSL
import PresenceWire

/// The calls of an import to a node. A call without an answer is repeated for a while: the node changes nothing twice.
struct ImportCalls: Sendable {
    /// A call that a node has refused: repeating it is useless.
    struct Refused: Error {
        let url: String
        let status: UInt
        let code: Int
        let detail: String

        /// The error of an import whose calls the node refuses, whatever their rows are.
        var ofImport: ImportError { ImportError("\(url) answered \(status): \(detail)", isOfCluster: true) }

        /// Whether a row is at fault: a parameter (6017) or an ID (7003) breaks a rule, or a user is not registered (70107).
        var isOfRow: Bool { [6017, 7003, 70107].contains(code) }
    }

    /// The times after which a call is repeated: half a minute in all, in which the cluster replaces a node.
    private static let pauses: [Duration] = [0.1, 0.3, 1, 2, 4, 8, 15].map { .seconds($0) }
    private static let answerBytesMax = 1 << 20

    private let http: HTTPClient
    private let target: String
    private let token: String
    private let onSilence: @Sendable (String) -> Void
    private let reason: @Sendable (any Error) -> String
    private let isLasting: @Sendable (any Error) -> Bool

    /// Calls to ``FriendImport/Options/target``, over one connection for each of ``FriendImport/Options/callsCount``.
    init(_ options: FriendImport.Options) {
        var configuration = HTTPClient.Configuration(tlsConfiguration: options.tls)
        configuration.redirectConfiguration = .disallow
        configuration.timeout.connect = .seconds(5)
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = options.callsCount
        configuration.connectionPool.retryConnectionEstablishment = false
        http = HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
        (onSilence, reason, isLasting, token) = (options.onSilence, options.reason, options.isLasting, options.token)
        target = options.target.hasSuffix("/") ? String(options.target.dropLast()) : options.target
    }

    /// Runs an import, and closes the connections when it has ended or failed.
    func closed<Result>(after body: () async throws -> Result) async throws -> Result {
        do {
            let result = try await body()
            try await http.shutdown()
            return result
        } catch {
            try await http.shutdown()
            throw error
        }
    }

    /// Adds friends to the list of a user. Returns the code and the text of each result.
    func importFriends(_ rows: [FriendRow], of user: String) async throws -> [RowRefusal] {
        let answer = try await call("importFriends", of: user) { json in
            json.key("friends")
            json.array { json in for row in rows { row.write(into: &json) } }
        }
        return Self.elements(answer["resultList"]).map { Self.result($0) }
    }

    /// Creates a group of a user, unless the user has it. Returns the reason if it cannot be.
    func createGroup(_ name: String, of user: String) async throws -> RowRefusal? {
        let answer = try await call("createFriendGroup", of: user) { json in
            json.key("groupNames")
            json.array { $0.string(name) }
        }
        let result = Self.result(answer)
        return result.code == 0 || result.code == Int(ChainCode.wrongGroup.rawValue) ? nil : result
    }

    /// Takes facts into the lists of a user. Returns the result of each.
    func importFacts(_ facts: [[UInt8]], of user: String, isDryRun: Bool) async throws -> [(refusal: RowRefusal, isNew: Bool)] {
        let answer = try await call("/admin/v1/importFacts") { json in
            json.member("userID", user)
            json.member("isDryRun", isDryRun)
            json.key("facts")
            json.array { json in for fact in facts { json.value(fact) } }
        }
        return Self.elements(answer["resultList"]).map { (Self.result($0), $0["isNew"] == .bool(true)) }
    }

    private static func elements(_ value: JSONValue?) -> [JSONValue] { if case .array(let elements)? = value { elements } else { [] } }

    private static func text(_ value: JSONValue?) -> String? { if case .string(let text)? = value { text } else { nil } }

    private static func result(_ value: JSONValue) -> RowRefusal {
        guard case .integer(let code)? = value["resultCode"] else { return RowRefusal(code: 0, reason: "") }
        return RowRefusal(code: Int(code), reason: Self.text(value["resultInfo"]) ?? "")
    }

    private func call(_ operation: String, of user: String, _ members: (inout JSONWriter) -> Void) async throws -> JSONValue {
        try await call("/v1/\(operation)") { json in
            json.member("asUser", user)
            members(&json)
        }
    }

    private func call(_ path: String, _ members: (inout JSONWriter) -> Void) async throws -> JSONValue {
        var json = JSONWriter(reserving: 8_192)
        json.object { members(&$0) }
        for (number, pause) in Self.pauses.enumerated() {
            let (answer, problem) = try await attempt(path, json.bytes)
            if let answer { return answer }
            if number == 0 { onSilence("\(target): \(problem)") }
            try await Task.sleep(for: pause)
        }
        let (answer, problem) = try await attempt(path, json.bytes)
        guard let answer else { throw ImportError("\(target): \(problem)", isOfCluster: true) }
        return answer
    }

    /// Makes a call. The answer is nil, with the reason, if the call should be repeated.
    private func attempt(_ path: String, _ body: [UInt8]) async throws -> (answer: JSONValue?, problem: String) {
        var request = HTTPClientRequest(url: target + path)
        request.method = .POST
        request.headers.add(name: "authorization", value: "Bearer \(token)")
        request.headers.add(name: "content-type", value: "application/json")
        request.body = .bytes(body)
        let status: UInt
        let bytes: ByteBuffer
        do {
            let response = try await http.execute(request, timeout: .seconds(10))
            (status, bytes) = (response.status.code, try await response.body.collect(upTo: Self.answerBytesMax))
        } catch is CancellationError { throw CancellationError() } catch let error as HTTPClientError {
            return (nil, "no answer: \(error.shortDescription)")
        } catch {
            guard !isLasting(error) else { throw ImportError("\(target): \(reason(error))", isOfCluster: true) }
            return (nil, "no answer: \(reason(error))")
        }
        let answer = try? JSONReader.read(Array(bytes.readableBytesView))
        let detail = Self.text(answer?["detail"]) ?? "not an answer of Rollcall"
        if status == 429 || status >= 500 { return (nil, "\(status): \(detail)") }
        guard status == 200, let answer else {
            var code = 0
            if case .integer(let number)? = answer?["code"] { code = Int(number) }
            throw Refused(url: target + path, status: status, code: code, detail: detail)
        }
        let results = Self.elements(answer["resultList"]) + [answer]
        // A result that is unknown becomes known by the next attempt.
        let isUnknown = results.contains { Self.result($0).code == Int(ChainCode.unavailable.rawValue) }
        return isUnknown ? (nil, ChainCode.unavailable.text) : (answer, "")
    }
}
