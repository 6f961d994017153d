import HTTP2
import NIOCore
import PresenceCore
import PresenceWire

/// The operations of operators: `POST /admin/v1/<operation>` on the ops port, for tokens with role `admin`.
///
/// Requests are received and answered on the loop of the ops port. The loop of the core carries them out.
final class AdminAPI {
    /// An operation; its name is the word in the path.
    enum Operation: String, CaseIterable {
        case clusterStatus, drain, explain, forget, getAppPolicy, importUsers, kick, queryOnlineStatus, setAppPolicy
    }

    private let authenticator: Authenticator
    private let shell: Shell
    private let drain: () -> Bool
    /// Counts of answers by operation and code; code 0 is success. Used only on the loop of the ops port.
    private(set) var answered: [Operation: [Int: UInt64]] = [:]

    /// - Parameter drain: begins to drain the node; returns false when no other node is alive.
    init(shell: Shell, authenticator: Authenticator, drain: @escaping () -> Bool) {
        self.authenticator = authenticator
        self.shell = shell
        self.drain = drain
    }

    /// Answers a request whose path begins with `/admin/v1/`.
    func requestReceived(_ request: HTTPRequest, operation name: String, on connection: HTTPServerConnection) {
        guard let operation = Operation(rawValue: name) else {
            let names = Operation.allCases.map(\.rawValue).joined(separator: ", ")
            return respond(
                .noSuchPath("no such operation \"\(name)\"; the operations are POST /admin/v1/ and one of \(names)"), request.stream,
                connection)
        }
        guard request.method == .post else {
            return respond(.wrongMethod("\(name) is called with POST"), request.stream, connection, allow: "POST")
        }
        let header = String(decoding: request.authorization, as: UTF8.self)
        guard header.lowercased().hasPrefix("bearer ") else {
            let problem = Problem.notLoggedIn("no Authorization header; send \"Authorization: Bearer <JWT>\"")
            return respond(problem, request.stream, connection, to: operation)
        }
        let pending = Pending(
            api: self, operation: operation, body: Array(request.body), stream: request.stream, connection: connection)
        let (authenticator, eventLoop, wall) = (authenticator, connection.eventLoop, Clock.now().wall)
        Task {
            let result = await authenticator.check(Array(header.utf8.dropFirst(7)), at: wall)
            eventLoop.execute { pending.finish(result) }
        }
    }

    /// A request whose token is being checked. Only ``perform(for:)`` runs on the loop of the core; the rest runs on that of the ops port.
    private final class Pending: @unchecked Sendable {
        let api: AdminAPI
        let operation: Operation
        let body: [UInt8]
        let stream: StreamID
        let connection: HTTPServerConnection

        init(api: AdminAPI, operation: Operation, body: [UInt8], stream: StreamID, connection: HTTPServerConnection) {
            self.api = api
            self.operation = operation
            self.body = body
            self.stream = stream
            self.connection = connection
        }

        func finish(_ result: Result<Caller, AuthenticationError>) {
            switch result {
            case .failure(let error): api.respond(.notLoggedIn(error.reason), stream, connection, to: operation)
            case .success(let caller) where !caller.isAdmin:
                api.respond(.wrongRole("the token is valid but lacks the claim \"role\":\"admin\""), stream, connection, to: operation)
            case .success(let caller): api.shell.eventLoop.execute { self.perform(for: caller) }
            }
        }

        private func perform(for caller: Caller) {
            let respond = { (answer: Result<[UInt8], Problem>) in
                self.connection.eventLoop.execute { self.respond(answer) }
            }
            do throws(Problem) { try api.perform(operation, body, caller, then: respond) } catch { respond(.failure(error)) }
        }

        private func respond(_ answer: Result<[UInt8], Problem>) {
            switch answer {
            case .success(let json):
                api.count(operation, code: 0)
                connection.respond(to: stream, HTTPResponse(status: 200, contentType: .json, body: ByteBuffer(bytes: json)))
            case .failure(let problem): api.respond(problem, stream, connection, to: operation)
            }
        }
    }

    private typealias Completion = (Result<[UInt8], Problem>) -> Void

    private func perform(_ operation: Operation, _ body: [UInt8], _ caller: Caller, then respond: @escaping Completion) throws(Problem) {
        let fields = try body.withUnsafeBufferPointer { body throws(Problem) in try Fields(body) }
        var json = JSONWriter(reserving: 512)
        switch operation {
        case .clusterStatus: json.clusterStatus(shell.node.cluster.status)
        case .drain:
            let isDraining = drain()
            json.object { $0.member("isDraining", isDraining) }
        case .forget:
            try removeMember(fields)
            json.object { _ in }
        case .getAppPolicy:
            try GetAppPolicy.check(fields, by: caller.user)
            GetAppPolicy.write(of: caller.user, shell.node.owner, into: &json)
        case .explain: return try call(.explain, fields, body, caller, then: respond)
        case .importUsers: return try call(.importUsers, fields, body, caller, then: respond)
        case .kick: return try call(.kick, fields, body, caller, then: respond)
        case .queryOnlineStatus: return try call(.queryOnlineStatus, fields, body, caller, then: respond)
        case .setAppPolicy: return try call(.setAppPolicy, fields, body, caller, then: respond)
        }
        respond(.success(json.bytes))
    }

    /// Performs a call, and responds when it is answered.
    private func call(
        _ operation: API.OperatorCall, _ fields: Fields, _ body: [UInt8], _ caller: Caller, then respond: @escaping Completion
    ) throws(Problem) {
        let parsed = try operation.type.parse(fields, of: body, by: caller.user)
        shell.perform(parsed.call, caller: parsed.subject) { [shell] answer in
            var json = JSONWriter(reserving: 1_024)
            do throws(Problem) {
                try API.write(answer, to: parsed, of: operation, shell.node.owner, into: &json)
                respond(.success(json.bytes))
            } catch { respond(.failure(error)) }
        }
    }

    /// Removes a dead member, which then no longer counts towards the quorum.
    private func removeMember(_ fields: Fields) throws(Problem) {
        guard let name = try fields.text("node", bytesMax: Limits.nameBytesMax) else {
            throw .parameter("node: is missing; it must be the name of a dead member")
        }
        switch shell.update({ node, now in node.removeMember(NodeID(name), at: now) }) {
        case .removed: return
        case .alive:
            let detail = "node: \"\(name)\" is alive; stop it with SIGTERM instead, then it leaves the cluster by itself"
            throw Problem(status: 409, code: 6017, detail: detail)
        case .unknown:
            let detail = "node: \"\(name)\" is not a member; clusterStatus names the members"
            throw Problem(status: 404, code: 6017, detail: detail)
        }
    }

    private func count(_ operation: Operation, code: Int) { answered[operation, default: [:]][code, default: 0] += 1 }

    /// - Parameter operation: the operation for the metrics; nil when the request names none.
    private func respond(
        _ problem: Problem, _ stream: StreamID, _ connection: HTTPServerConnection, to operation: Operation? = nil,
        allow: StaticString? = nil
    ) {
        if let operation { count(operation, code: problem.code) }
        connection.respond(
            to: stream,
            HTTPResponse(
                status: problem.status, contentType: .problem, body: ByteBuffer(bytes: problem.json), retryAfter: problem.retryAfter,
                allow: allow))
    }
}

extension JSONWriter {
    fileprivate mutating func clusterStatus(_ status: ClusterStatus) {
        object { json in
            json.member("node", status.node.rawValue)
            json.key("members")
            json.array { json in
                for member in status.members {
                    json.object { json in
                        json.member("node", member.peer.id.rawValue)
                        json.member("state", member.state.rawValue)
                        json.member("address", member.peer.address)
                        json.member("weight", Int64(member.peer.weight))
                        json.member("slotsOwned", Int64(member.slotsOwned))
                        json.member("startedAt", Int64(clamping: member.peer.generation))
                    }
                }
            }
        }
    }
}
