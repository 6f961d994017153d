import HTTP2
import Logging
import NIOCore
import PresenceCore
import PresenceWire

/// The operations of operators: `POST /admin/v1/<operation>` on the ops port, for tokens with role `admin`.
///
/// Requests are received and answered on the loop of the ops port. The loop of the core carries them out.
final class AdminAPI {
    /// An operation; its name is the word in the path.
    enum Operation: String, CaseIterable {
        case backup, clusterLoad, clusterStatus, deleteUser, drain, explain, export, exportUser, forget, getAppPolicy, importFacts,
            importUsers, kick, onlineUsers, queryOnlineStatus, recentLoad, reloadKeys, replayWebhooks, setAppPolicy
    }

    /// The operation of a request.
    private enum Route {
        case own(Operation)
        /// An operation of clients, for the user in `asUser`.
        case client(API.Operation)

        init?(_ name: String) {
            if let operation = Operation(rawValue: name) {
                self = .own(operation)
            } else if let operation = API.Operation.allCases.first(where: { $0.name == name }), operation != .streamTicket {
                self = .client(operation)
            } else {
                return nil
            }
        }

        var name: String {
            switch self {
            case .own(let operation): operation.rawValue
            case .client(let operation): operation.name
            }
        }

        var isExport: Bool { if case .own(.export) = self { true } else { isBackup } }
        var isBackup: Bool { if case .own(.backup) = self { true } else { false } }
    }

    private let keys: TokenKeys
    private let shell: Shell
    private let webhookRules: WebhookRules
    private let drain: () -> Bool
    /// Counts of answers by operation and code; code 0 is success. Used only on the loop of the ops port, as the next two.
    private(set) var answered: [String: [Int: UInt64]] = [:]
    private var exports = Exports()
    private let backupRule: BackupRule
    private let store: any Store
    private var recentLoad = RecentLoad()

    /// - Parameter drain: begins to drain the node; returns false when no other node is alive.
    init(
        shell: Shell, store: any Store, keys: TokenKeys, webhookRules: WebhookRules, backupRule: BackupRule, drain: @escaping () -> Bool
    ) {
        (self.store, self.backupRule) = (store, backupRule)
        self.keys = keys
        self.webhookRules = webhookRules
        self.shell = shell
        self.drain = drain
    }

    var logger: Logger { shell.logger }

    /// Answers a request whose path begins with `/admin/v1/`.
    func requestReceived(_ request: HTTPRequest, operation name: String, on connection: HTTPServerConnection) {
        guard let route = Route(name) else {
            let names = Operation.allCases.map(\.rawValue).joined(separator: ", ")
            return respond(
                .noSuchPath("no such operation \"\(name)\"; the operations are POST /admin/v1/ and one of \(names), or one of POST /v1/"),
                request.stream,
                connection)
        }
        guard route.isExport ? request.method.isRead : request.method == .post else {
            return respond(
                .wrongMethod("\(name) is called with \(route.isExport ? "GET" : "POST")"), request.stream, connection,
                allow: route.isExport ? "GET, HEAD" : "POST")
        }
        let span = shell.tracer.begin(request, route.name, on: connection)
        let token: [UInt8]
        do throws(Problem) {
            token = try Callers.bearerToken(in: Array(request.authorization))
        } catch {
            return respond(error, request.stream, connection, to: route.name, span: span)
        }
        let content = route.isBackup ? .backup : route.isExport ? Exports.Content(query: Array(request.target)) : .online
        guard let content else {
            return respond(.parameter("kind: must be online or all"), request.stream, connection, to: route.name, span: span)
        }
        let pending = Pending(
            api: self, route: route, content: content, target: Array(request.target), body: Array(request.body),
            key: request.idempotencyKey.map { Array($0) },
            span: span, isHead: request.method == .head, stream: request.stream, connection: connection)
        let (authenticator, eventLoop, wall) = (keys.authenticator, connection.eventLoop, Clock.now().wall)
        Task {
            let result = await authenticator.check(token, at: wall)
            eventLoop.execute { pending.finish(result) }
        }
    }

    /// A request whose token is being checked.
    ///
    /// Only ``perform(for:)`` runs on the loop of the core, which knows the kicks. The rest runs on the loop of the ops port.
    private final class Pending: @unchecked Sendable {
        let api: AdminAPI
        private let route: Route
        /// The content of an export.
        private let content: Exports.Content
        private let target: [UInt8]
        let body: [UInt8]
        private let key: [UInt8]?
        /// The span of the request in the client's trace; nil for a request without one.
        private let span: RequestSpan?
        /// Whether only the head of an export is wanted.
        private let isHead: Bool
        let stream: StreamID
        let connection: HTTPServerConnection

        fileprivate init(
            api: AdminAPI, route: Route, content: Exports.Content, target: [UInt8], body: [UInt8], key: [UInt8]?, span: RequestSpan?,
            isHead: Bool, stream: StreamID, connection: HTTPServerConnection
        ) {
            self.target = target
            self.api = api
            self.route = route
            self.content = content
            self.body = body
            self.key = key
            self.span = span
            self.isHead = isHead
            self.stream = stream
            self.connection = connection
        }

        func finish(_ result: Result<Caller, AuthenticationError>) {
            switch result {
            case .failure(let error): respond(.failure(Problem(error)))
            case .success(let caller) where !caller.isAdmin:
                respond(.failure(.wrongRole("the token is valid but lacks the claim \"role\":\"admin\"")))
            case .success(let caller): api.shell.eventLoop.execute { self.perform(for: caller) }
            }
        }

        private func perform(for caller: Caller) {
            let respond = { (answer: Result<[UInt8], Problem>) in
                self.connection.eventLoop.execute { self.respond(answer) }
            }
            do throws(Problem) {
                if api.shell.node.isVoid(caller) { throw .kicked(caller) }
                if isHead {
                    if route.isBackup { try api.backupRule.check(caller.user, target, api.keys.authenticator.apps, at: Clock.now().wall) }
                    return connection.eventLoop.execute { self.respondHead(for: caller) }
                }
                switch route {
                case .own(.recentLoad): connection.eventLoop.execute { self.respond(self.api.recentLoad(self.body)) }
                case .own(.backup):
                    try api.backupRule.check(caller.user, target, api.keys.authenticator.apps, at: Clock.now().wall)
                    connection.eventLoop.execute { self.api.beginBackup(of: caller.user, self.stream, self.connection) }
                case .own(.export):
                    connection.eventLoop.execute { self.api.beginExport(of: caller.user, self.content, self.stream, self.connection) }
                case .own(let operation): try api.perform(operation, body, caller, span, then: respond)
                case .client(let operation): try api.perform(operation, body, key: key, caller, span, then: respond)
                }
            } catch { respond(.failure(error)) }
        }

        /// Answers HEAD as GET would be answered. No export begins.
        private func respondHead(for caller: Caller) {
            if !route.isBackup, let problem = api.exportRefusal(of: caller.user) { return respond(.failure(problem)) }
            api.count(route.name, code: 0)
            if let span { api.shell.tracer.end(span) }
            connection.respond(to: stream, headOfStream: route.isBackup ? .octets : .ndjson)
        }

        private func respond(_ answer: Result<[UInt8], Problem>) {
            switch answer {
            case .success(let json):
                api.count(route.name, code: 0)
                if let span { api.shell.tracer.end(span) }
                connection.respond(to: stream, HTTPResponse(json: json))
            case .failure(let problem): api.respond(problem, stream, connection, to: route.name, span: span)
            }
        }
    }

    private typealias Completion = (Result<[UInt8], Problem>) -> Void

    private func perform(
        _ operation: Operation, _ body: [UInt8], _ caller: Caller, _ span: RequestSpan?, then respond: @escaping Completion
    ) throws(Problem) {
        let fields = try body.withUnsafeBufferPointer { body throws(Problem) in try Fields(body) }
        var json = JSONWriter(reserving: 512)
        switch operation {
        case .clusterStatus: json.clusterStatus(shell.node.cluster.status, releaseOf: shell.release)
        case .drain:
            let isDraining = drain()
            json.object { $0.member("isDraining", isDraining) }
        case .forget:
            try removeMember(fields)
            json.object { _ in }
        case .getAppPolicy:
            try GetAppPolicy.check(fields, by: caller.user)
            GetAppPolicy.write(of: caller.user, shell.node.owner, into: &json)
        case .clusterLoad: return try call(.clusterLoad, fields, body, caller, span, then: respond)
        case .deleteUser: return try call(.deleteUser, fields, body, caller, span, then: respond)
        case .explain: return try call(.explain, fields, body, caller, span, then: respond)
        case .backup, .export, .recentLoad: preconditionFailure("\(operation) is answered on the loop of the ops port")
        case .exportUser: return try call(.exportUser, fields, body, caller, span, then: respond)
        case .importFacts: return try call(.importFacts, fields, body, caller, span, then: respond)
        case .onlineUsers: return try call(.onlineUsers, fields, body, caller, span, then: respond)
        case .importUsers: return try call(.importUsers, fields, body, caller, span, then: respond)
        case .kick: return try call(.kick, fields, body, caller, span, then: respond)
        case .queryOnlineStatus: return try call(.queryOnlineStatus, fields, body, caller, span, then: respond)
        case .reloadKeys: return reloadKeys(caller, then: respond)
        case .replayWebhooks: return try call(.replayWebhooks, fields, body, caller, span, then: respond)
        case .setAppPolicy:
            if let problem = webhookRules.problem(ofPolicy: body) { throw .parameter("webhook.url: \(problem)") }
            return try call(.setAppPolicy, fields, body, caller, span, then: respond)
        }
        respond(.success(json.bytes))
    }

    /// Performs an operation of clients for a user of the app, who sees what the user's own call would see.
    private func perform(
        _ operation: API.Operation, _ body: [UInt8], key header: [UInt8]?, _ caller: Caller, _ span: RequestSpan?,
        then respond: @escaping Completion
    ) throws(Problem) {
        let key = try operation.key(header, body: body)
        let policy = SharedPolicy(shell.node.owner.policy(of: caller.user))
        let parsed = try body.withUnsafeBufferPointer { body throws(Problem) in
            try API.parse(operation, body: body, caller: caller, policy: policy)
        }
        shell.perform(parsed.call, key: key, caller: parsed.subject, seesAll: false, trace: span?.context) { [shell] answer in
            var json = JSONWriter(reserving: 1_024)
            do throws(Problem) {
                try API.write(
                    answer, to: operation, of: parsed.subject, errors: parsed.errors, policy: policy, unsure: shell.node.cluster.unsure,
                    into: &json)
                respond(.success(json.bytes))
            } catch { respond(.failure(error)) }
        }
    }

    /// Performs a call, and responds when it is answered.
    private func call(
        _ operation: API.OperatorCall, _ fields: Fields, _ body: [UInt8], _ caller: Caller, _ span: RequestSpan?,
        then respond: @escaping Completion
    ) throws(Problem) {
        let parsed = try operation.type.parse(fields, of: body, by: caller.user)
        shell.perform(parsed.call, caller: parsed.subject, trace: span?.context) { [shell] answer in
            var json = JSONWriter(reserving: 1_024)
            do throws(Problem) {
                try API.write(answer, to: parsed, of: operation, shell.node.owner, unsure: shell.node.cluster.unsure, into: &json)
                respond(.success(json.bytes))
            } catch { respond(.failure(error)) }
        }
    }

    /// Reads the keys of the node's apps again, and responds with those of the caller's app.
    private func reloadKeys(_ caller: Caller, then respond: @escaping Completion) {
        nonisolated(unsafe) let respond = respond
        let (node, app) = (shell.peer.id.rawValue, String(caller.user.app))
        Task { [keys] in
            do throws(ConfigurationError) { try await keys.reload() } catch {
                let detail = "the keys are not reloaded, and the previous ones stay in use: \(error)"
                return respond(.failure(Problem(status: 409, code: 6017, detail: detail)))
            }
            var json = JSONWriter(reserving: 512)
            json.reloadedKeys(keys.authenticator.keys(of: app), node: node)
            respond(.success(json.bytes))
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

    private func count(_ operation: String, code: Int) { answered[operation, default: [:]][code, default: 0] += 1 }

    /// - Parameter operation: the operation for the metrics; nil when the request names none.
    private func respond(
        _ problem: Problem, _ stream: StreamID, _ connection: HTTPServerConnection, to operation: String? = nil,
        allow: StaticString? = nil, span: RequestSpan? = nil
    ) {
        if let operation { count(operation, code: problem.code) }
        shell.tracer.refused(problem, operation, stream, on: connection, span)
        connection.respond(to: stream, HTTPResponse(problem, allow: allow))
    }
}

// MARK: On the loop of the ops port

extension AdminAPI {
    /// Adds a reading to the recent load.
    func add(_ reading: LoadReading, at time: Milliseconds) { recentLoad.add(reading, at: time) }

    private func recentLoad(_ body: [UInt8]) -> Result<[UInt8], Problem> {
        do throws(Problem) { _ = try body.withUnsafeBufferPointer { body throws(Problem) in try Fields(body) } } catch {
            return .failure(error)
        }
        var json = JSONWriter(reserving: 64 << 10)
        recentLoad.write(of: shell.peer.id.rawValue, into: &json)
        return .success(json.bytes)
    }

    /// The running exports, and the ends of earlier ones.
    var exportCounts: Exports.Counts { exports.counts }

    private func exportRefusal(of caller: UserID) -> Problem? {
        exports.refusal(of: caller).map { Problem(status: 503, code: Refusal.overloaded.code, detail: $0, retryAfter: 10) }
    }

    private func beginExport(
        of caller: UserID, _ content: Exports.Content, _ stream: StreamID, _ connection: HTTPServerConnection
    ) {
        if let problem = exportRefusal(of: caller) { return respond(problem, stream, connection, to: Operation.export.rawValue) }
        let token = exports.begin(content, on: connection, stream, of: caller)
        let compressor = connection.openStream(stream, of: .ndjson, token: token)
        exports.compress(token, with: compressor)
        count(Operation.export.rawValue, code: 0)
        boundUnread(token, on: connection.eventLoop)
        sendPage(token)
    }

    /// Copies the database, and then streams the copy.
    private func beginBackup(of caller: UserID, _ stream: StreamID, _ connection: HTTPServerConnection) {
        if exports.running.values.contains(where: { $0.content == .backup }) {
            let detail = "backup: this node streams one already; retry after 10 s"
            let problem = Problem(status: 503, code: Refusal.overloaded.code, detail: detail, retryAfter: 10)
            return respond(problem, stream, connection, to: Operation.backup.rawValue)
        }
        let (token, eventLoop) = (exports.begin(.backup, on: connection, stream, of: caller), connection.eventLoop)
        nonisolated(unsafe) let api = self
        do {
            try store.backUp(isWanted: exports.wanted(token)) { result in eventLoop.execute { api.take(result, of: token) } }
        } catch {
            exports.end(token, .failed)
            let problem = Problem(status: 503, code: Refusal.overloaded.code, detail: "backup: \(error)", retryAfter: 10)
            return respond(problem, stream, connection, to: Operation.backup.rawValue)
        }
        // Before the copy is made, so that no time of an answer ends meanwhile.
        connection.openStream(stream, of: .octets, token: token)
        count(Operation.backup.rawValue, code: 0)
        boundUnread(token, on: eventLoop)
        eventLoop.assumeIsolated().scheduleTask(in: Exports.backupMax) { [weak self] in self?.cutExport(token, .unread) }
    }

    /// Sends the copy of a backup, or cuts its stream off if there is none.
    private func take(_ result: Result<StoreBackup.Copy, StoreError>, of token: UInt32) {
        switch result {
        case .failure(let error):
            guard exports.running[token] != nil else { return }
            logger.error("a backup broke off", metadata: ["reason": "\(error)"])
            cutExport(token, .failed)
        case .success(let copy):
            exports.took(copy, of: token)
            sendPage(token)
        }
    }

    /// Sends the next pieces of a database, as many as the client takes.
    private func sendPieces(_ token: UInt32, of copy: StoreBackup.Copy) {
        while let export = exports.running[token] {
            let bytes: [UInt8]
            do { bytes = try copy.read(upTo: Exports.pieceBytes) } catch {
                logger.error("a backup broke off", metadata: ["reason": "\(error)"])
                return cutExport(token, .failed)
            }
            guard !bytes.isEmpty else {
                exports.finish(token, at: .now())
                return export.connection.finish(export.stream)
            }
            let isFull = export.connection.push(ByteBuffer(bytes: bytes), to: export.stream)
            guard exports.sentPiece(to: token, isFull: isFull, at: .now()) else { return }
        }
    }

    /// Ends an export once its client has left what was sent unread for too long.
    private func boundUnread(_ token: UInt32, on eventLoop: any EventLoop) {
        guard let deadline = exports.readDeadline(of: token, at: .now()) else { return }
        eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [weak self] in
            guard let self, let deadline = exports.readDeadline(of: token, at: .now()) else { return }
            if deadline <= .now() { cutExport(token, .unread) } else { boundUnread(token, on: eventLoop) }
        }
    }

    /// Reads the next page of an export on the core's loop, and sends it here.
    private func sendPage(_ token: UInt32) {
        guard let export = exports.running[token] else { return }
        if let copy = export.copy { return sendPieces(token, of: copy) }
        guard export.users.isEmpty else { return sendFacts(token, of: export) }
        let (limit, eventLoop) = (1_000, export.connection.eventLoop)
        nonisolated(unsafe) let api = self
        let caller = export.caller
        let call = Call.onlineUsers(
            OnlineQuery(app: String(caller.app), after: export.after, limit: limit, isOfAll: export.content == .all))
        shell.eventLoop.execute {
            api.shell.perform(call, caller: caller) { answer in
                eventLoop.execute {
                    guard case .owner(.onlineUsers(let users, _)) = answer else { return api.cutExport(token, .failed) }
                    api.send(users, to: token, isLast: users.count < limit)
                }
            }
        }
    }

    private func send(_ users: [OnlineUser], to token: UInt32, isLast: Bool) {
        guard let export = exports.running[token] else { return }
        if export.content == .all, !users.isEmpty {
            exports.took(users.map(\.user), isLast: isLast, of: token)
            return sendPage(token)
        }
        let isFull = !users.isEmpty && export.push(Exports.lines(users))
        if isLast {
            exports.finish(token, at: .now())
            return export.finish()
        }
        if exports.sent(users, to: token, isFull: isFull, at: .now()) { sendPage(token) }
    }

    /// Reads the next facts of an export on the core's loop, and sends them here.
    private func sendFacts(_ token: UInt32, of export: Exports.Export) {
        let (users, position, eventLoop) = (export.usersToRead, export.position, export.connection.eventLoop)
        nonisolated(unsafe) let api = self
        shell.eventLoop.execute {
            api.readFacts(of: users, after: position) { pages in
                eventLoop.execute { api.send(pages, to: token) }
            }
        }
    }

    /// Reads a page of the facts of each user. Called on the core's loop.
    private func readFacts(
        of users: [UserID], after position: FactPosition?, then body: @escaping @Sendable ([FactExportAnswer?]) -> Void
    ) {
        var pages = [FactExportAnswer?](repeating: nil, count: users.count)
        var openCount = users.count
        for (number, user) in users.enumerated() {
            let request = FactExportRequest(after: position, isWhole: false)
            shell.perform(.owner(.exportFacts(request)), caller: user) { answer in
                pages[number] = FactExportAnswer(answer)
                openCount -= 1
                if openCount == 0 { body(pages) }
            }
        }
    }

    private func send(_ pages: [FactExportAnswer?], to token: UInt32) {
        guard let export = exports.running[token] else { return }
        guard let lines = Exports.lines(pages) else { return cutExport(token, .failed) }
        let isFull = lines.buffer.readableBytes > 0 && export.push(lines.buffer)
        switch exports.sent(ofUsers: lines.usersCount, position: lines.position, to: token, isFull: isFull, at: .now()) {
        case .finish:
            exports.finish(token, at: .now())
            export.finish()
        case .read: sendPage(token)
        case .wait: break
        }
    }

    private func cutExport(_ token: UInt32, _ end: Exports.End) {
        guard let export = exports.end(token, end) else { return }
        export.connection.reset(export.stream)
    }

    /// The stream of an export has ended.
    func exportEnded(_ token: UInt32, _ reason: StreamEnd) { exports.end(token, reason == .finished ? .complete : .clientLeft) }

    /// The client of an export has taken what was sent.
    func exportDrained(_ token: UInt32) { if exports.drained(token) { sendPage(token) } }
}

extension JSONWriter {
    fileprivate mutating func reloadedKeys(_ keys: [TokenKey], node: String) {
        object { json in
            json.member("node", node)
            json.key("keys")
            json.array { json in
                for key in keys {
                    json.object { json in
                        if let id = key.id { json.member("kid", id) }
                        json.member("alg", key.algorithm)
                        json.member("source", key.source)
                    }
                }
            }
        }
    }

    fileprivate mutating func clusterStatus(_ status: ClusterStatus, releaseOf: (Peer) -> NodeRelease?) {
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
                        guard let release = releaseOf(member.peer) else { return }
                        json.member("version", release.version)
                        json.member("startTime", release.startTime)
                    }
                }
            }
        }
    }
}
