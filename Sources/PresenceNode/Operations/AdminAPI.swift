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
        case .getAppPolicy:
            let app = try app(of: fields, caller)
            json.policy(shell.node.owner.appPolicy(app), followed: shell.node.owner.policy(of: caller.user), of: app)
        case .explain: return try explain(fields, caller, then: respond)
        case .forget:
            try removeMember(fields)
            json.object { _ in }
        case .importUsers: return try importUsers(fields, caller, then: respond)
        case .kick: return try kick(fields, caller, then: respond)
        case .queryOnlineStatus: return try query(fields, caller, then: respond)
        case .setAppPolicy: return try setPolicy(try app(of: fields, caller), body, caller, then: respond)
        }
        respond(.success(json.bytes))
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

    /// Kicks a user. The answer comes after all alive nodes acknowledged the kick, so that no node accepts an older token.
    private func kick(_ fields: Fields, _ caller: Caller, then respond: @escaping Completion) throws(Problem) {
        guard let id = try fields.text("userID", bytesMax: 1_024), Limits.isValidName(id) else { throw .userID("userID") }
        let reason = try fields.text("reason", bytesMax: Limits.nameBytesMax) ?? "kicked"
        shell.perform(.kick(reason: reason), caller: UserID(id, besides: caller.user)) { answer in
            if case .refused(let refusal) = answer { return respond(.failure(Problem(refusal))) }
            respond(.success(Array("{}".utf8)))
        }
    }

    /// Registers users. The answer comes after all users that are not in `errorUserList` are on disk. A repeated import succeeds.
    private func importUsers(_ fields: Fields, _ caller: Caller, then respond: @escaping Completion) throws(Problem) {
        let found = try fields.requiredUsers("userIDs", besides: caller.user, countMax: Limits.importUsersMax)
        let finish = { (failed: [UserID]) in
            var json = JSONWriter(reserving: 256)
            let errors = failed.map { UserError(userID: String($0.id), code: 50001, reason: Refusal.notDurable.detail) }
            json.object { json in json.member("errorUserList", found.errors + errors) }
            respond(.success(json.bytes))
        }
        if found.users.isEmpty { return finish([]) }
        shell.perform(.importUsers(found.users), caller: caller.user) { answer in
            switch answer {
            case .imported(let failed): finish(failed)
            case .refused(let refusal): respond(.failure(Problem(refusal)))
            default: preconditionFailure("importUsers is answered with \(answer)")
            }
        }
    }

    /// Explains what a viewer sees of a target, with a part from each node that has one.
    private func explain(_ fields: Fields, _ caller: Caller, then respond: @escaping Completion) throws(Problem) {
        guard let viewer = try fields.text("viewer", bytesMax: 1_024), Limits.isValidName(viewer) else { throw .userID("viewer") }
        guard let target = try fields.text("target", bytesMax: 1_024), Limits.isValidName(target) else { throw .userID("target") }
        let app = String(caller.user.app)
        shell.perform(.explain(UserID(target, besides: caller.user)), caller: UserID(viewer, besides: caller.user)) { [shell] answer in
            guard case .explained(let parts) = answer else {
                guard case .refused(let refusal) = answer else { preconditionFailure("explain is answered with \(answer)") }
                return respond(.failure(Problem(refusal)))
            }
            var json = JSONWriter(reserving: 2_048)
            json.explanation(parts, viewer: viewer, target: target, policy: shell.node.owner.appPolicy(app)?.policy.preset ?? .rollcall)
            respond(.success(json.bytes))
        }
    }

    /// Returns the records of users, without the restrictions of the app's policy (X1).
    private func query(_ fields: Fields, _ caller: Caller, then respond: @escaping Completion) throws(Problem) {
        let found = try fields.requiredUsers("userIDs", besides: caller.user, countMax: Limits.queryUsersMax)
        var shown = Policy()
        shown.mustBeRegistered = shell.node.owner.policy(of: caller.user).mustBeRegistered
        shell.perform(.getUserStatus(found.users), caller: caller.user) { [shown] answer in
            var json = JSONWriter(reserving: 1_024)
            do throws(Problem) {
                try API.write(answer, to: .getUserStatus, of: caller.user, errors: found.errors, policy: shown, into: &json)
                respond(.success(json.bytes))
            } catch { respond(.failure(error)) }
        }
    }

    /// Returns the app of the call, which must be that of the token: no call reaches another app.
    private func app(of fields: Fields, _ caller: Caller) throws(Problem) -> String {
        let own = String(caller.user.app)
        guard let app = try fields.text("app", bytesMax: Limits.nameBytesMax), app != own else { return own }
        throw .parameter("app: the token is for app \"\(own)\"; \"\(app)\" needs a token of that app")
    }

    /// Changes the policy of an app. The answer comes after all alive nodes have the policy on disk and apply it.
    private func setPolicy(_ app: String, _ body: [UInt8], _ caller: Caller, then respond: @escaping Completion) throws(Problem) {
        let change = body.isEmpty ? Array("{}".utf8) : body
        shell.perform(.setAppPolicy(change), caller: caller.user) { [shell] answer in
            if case .refused(let refusal) = answer { return respond(.failure(Problem(refusal))) }
            var json = JSONWriter(reserving: 1_024)
            json.policy(shell.node.owner.appPolicy(app), followed: shell.node.owner.policy(of: caller.user), of: app)
            respond(.success(json.bytes))
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

extension AppPolicy {
    /// Returns all settings by name. Times that the policy does not set are those of the node.
    fileprivate func settings(followed policy: Policy) -> JSONValue {
        var json = JSONWriter(reserving: 1_024)
        json.object { writeAll(into: &$0) }
        guard case .object(let settings) = (try? JSONReader.read(json.bytes))?["settings"] else {
            preconditionFailure("the settings of a policy are no JSON object: \(String(decoding: json.bytes, as: UTF8.self))")
        }
        let times = ["liveness.timeout": policy.livenessTimeout, "offlineGrace": policy.offlineGrace]
        return .object(
            settings.map { setting in
                guard let time = times[setting.name] else { return setting }
                return JSONValue.Member(name: setting.name, value: .integer(time.components.seconds))
            })
    }
}

extension JSONWriter {
    /// - Parameter parts: the parts from owners and nodes, in the order in which they arrived.
    fileprivate mutating func explanation(
        _ parts: [Explanation], viewer: String, target: String, policy: Policy.Preset
    ) {
        object { json in
            json.member("viewer", viewer)
            json.member("target", target)
            json.member("preset", policy.rawValue)
            if let part = parts.first(where: { $0.part == .target }) { json.member("ownerOfTarget", json: part.json) }
            if let part = parts.first(where: { $0.part == .viewer }) { json.member("ownerOfViewer", json: part.json) }
            json.key("nodes")
            json.array { json in for part in parts where part.part == .view { json.value(part.json) } }
        }
    }

    /// Writes the policy of an app with the values of all settings.
    ///
    /// - Parameter followed: the policy that this node applies.
    mutating func policy(_ known: (policy: AppPolicy, version: Version)?, followed: Policy, of app: String) {
        let said = known?.policy ?? AppPolicy()
        object { json in
            json.member("app", app)
            json.member("preset", said.preset.rawValue)
            json.key("settings")
            json.value(said.settings(followed: followed))
            json.member("version", known?.version ?? .zero)
        }
    }

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
