import HTTP2
import NIOCore
import PresenceCore
import PresenceWire

/// The operators' operations of contract §5, `POST /admin/v1/<operation>` on the ops port: for tokens with role `admin` only.
final class AdminAPI {
    /// An operation; its name is the word in the path.
    enum Operation: String, CaseIterable { case clusterStatus, drain }

    private let eventLoop: any EventLoop
    private let authenticator: Authenticator
    private let clusterStatus: () -> ClusterStatus
    private let drain: () -> Bool

    /// - Parameter drain: begins to drain the node; false when there is no other.
    init(
        eventLoop: any EventLoop, authenticator: Authenticator, clusterStatus: @escaping () -> ClusterStatus, drain: @escaping () -> Bool
    ) {
        self.eventLoop = eventLoop
        self.authenticator = authenticator
        self.clusterStatus = clusterStatus
        self.drain = drain
    }

    /// Answers a request whose path begins with `/admin/v1/`.
    func requestReceived(_ request: HTTPRequest, operation name: String, on connection: HTTPServerConnection) {
        guard request.method == .post, let operation = Operation(rawValue: name) else {
            let names = Operation.allCases.map(\.rawValue).joined(separator: ", ")
            let problem = Problem(status: 404, code: 6017, detail: "no such operation; POST /admin/v1/ and one of \(names)")
            return respond(problem, request.stream, connection)
        }
        let header = String(decoding: request.authorization, as: UTF8.self)
        guard header.lowercased().hasPrefix("bearer ") else {
            return respond(.notLoggedIn("no Authorization header; send \"Authorization: Bearer <JWT>\""), request.stream, connection)
        }
        let pending = Pending(api: self, operation: operation, stream: request.stream, connection: connection)
        let (authenticator, eventLoop, wall) = (authenticator, eventLoop, Clock.now().wall)
        Task {
            let result = await authenticator.check(Array(header.utf8.dropFirst(7)), at: wall)
            eventLoop.execute { pending.finish(result) }
        }
    }

    /// A request whose token is being checked; touched on the loop only.
    private final class Pending: @unchecked Sendable {
        let api: AdminAPI
        let operation: Operation
        let stream: StreamID
        let connection: HTTPServerConnection

        init(api: AdminAPI, operation: Operation, stream: StreamID, connection: HTTPServerConnection) {
            self.api = api
            self.operation = operation
            self.stream = stream
            self.connection = connection
        }

        func finish(_ result: Result<Caller, AuthenticationError>) {
            switch result {
            case .failure(let error): api.respond(.notLoggedIn(error.reason), stream, connection)
            case .success(let caller) where !caller.isAdmin:
                api.respond(.notLoggedIn("the token has no role \"admin\""), stream, connection)
            case .success: api.perform(operation, stream, connection)
            }
        }
    }

    private func perform(_ operation: Operation, _ stream: StreamID, _ connection: HTTPServerConnection) {
        var json = JSONWriter(reserving: 512)
        switch operation {
        case .clusterStatus: json.clusterStatus(clusterStatus())
        case .drain:
            let isDraining = drain()
            json.object { $0.member("isDraining", isDraining) }
        }
        connection.respond(to: stream, HTTPResponse(status: 200, contentType: .json, body: ByteBuffer(bytes: json.bytes)))
    }

    private func respond(_ problem: Problem, _ stream: StreamID, _ connection: HTTPServerConnection) {
        connection.respond(
            to: stream, HTTPResponse(status: problem.status, contentType: .problem, body: ByteBuffer(bytes: problem.json)))
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
