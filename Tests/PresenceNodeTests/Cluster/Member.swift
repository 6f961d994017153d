import HTTP2
import NIOCore
import NIOPosix
import PresenceWire
import Testing

@testable import PresenceNode

/// Something that knows the cluster's secret, says hello, and then whatever the test wants.
final class Member: HTTPClientDelegate, @unchecked Sendable {
    private let loop = HTTPClientConnection.Loop(eventLoop: MultiThreadedEventLoopGroup.singleton.next())
    private let ready: EventLoopPromise<Void>
    private var answers: [UInt32: EventLoopPromise<(status: Int, body: [UInt8])>] = [:]
    private var statuses: [UInt32: Int] = [:]
    private var bodies: [UInt32: [UInt8]] = [:]
    private var nextToken: UInt32 = 0
    private var connection: HTTPClientConnection?
    private var isClosed = false

    private init() { ready = loop.eventLoop.makePromise() }

    static func hello(
        _ name: String, cluster: String = "rollcall", listeningAt port: Int, generation: UInt64 = 1, members: [Peer] = []
    ) -> Hello {
        let peer = Peer(id: NodeID(name), generation: generation, address: "127.0.0.1:\(port)")
        return Hello(cluster: cluster, sender: peer, members: members, wall: Clock.now().wall)
    }

    /// Port 1 does not answer, so the node's own link to this member stays down.
    static func join(_ node: RollcallNode, listeningAt ownPort: Int = 1, generation: UInt64 = 1) async throws -> Member {
        let member = try await connect(node)
        #expect(try await member.prove(hello("member", listeningAt: ownPort, generation: generation)).status == 200)
        return member
    }

    /// Sends a hello, and the proof without a secret, which is right if there is none.
    func prove(_ hello: Hello) async throws -> (status: Int, body: [UInt8]) {
        let greeting = try await exchange("hello", [])
        #expect(greeting.status == 200)
        let (nonce, card) = (ClusterSecret.nonce(), hello.bytes)
        let proof = ClusterSecret(nil).proof(.caller, caller: nonce, listener: greeting.body, hello: card)
        return try await exchange("proof", nonce + proof + card)
    }

    /// A connection on which nothing has been said.
    static func connect(_ node: RollcallNode) async throws -> Member {
        let member = Member()
        let port = node.ports.cluster
        member.loop.eventLoop.execute {
            member.connection = HTTPClientConnection.connect(host: "127.0.0.1", port: port, on: member.loop, delegate: member)
        }
        try await member.ready.futureResult.get()
        return member
    }

    func post(_ path: String, _ body: [UInt8]) async throws -> Int { try await exchange(path, body).status }

    func exchange(_ path: String, _ body: [UInt8]) async throws -> (status: Int, body: [UInt8]) {
        try await loop.eventLoop.flatSubmit { [self] in
            let promise = loop.eventLoop.makePromise(of: (status: Int, body: [UInt8]).self)
            nextToken += 1
            answers[nextToken] = promise
            _ = connection?.send(.post, path: "/cluster/v1/\(path)", body: ByteBuffer(bytes: body), token: nextToken)
            return promise.futureResult
        }.get()
    }

    var isOpen: Bool { get async throws { try await loop.eventLoop.submit { !self.isClosed }.get() } }

    func close() async throws { try await loop.eventLoop.submit { self.connection?.close() }.get() }

    func connected(_ connection: HTTPClientConnection) { ready.succeed() }
    func responseHead(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, status: Int) { statuses[token] = status }
    func responseBody(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, bytes: UnsafeRawBufferPointer) {
        bodies[token, default: []] += Array(bytes)
    }
    func streamClosed(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, error: UInt32) {
        answers.removeValue(forKey: token)?.succeed((statuses[token] ?? 0, bodies[token] ?? []))
    }
    func closed(_ connection: HTTPClientConnection, error: (any Error)?) {
        isClosed = true
        ready.fail(ChannelError.eof)
        for answer in answers.values { answer.fail(ChannelError.eof) }
        answers = [:]
    }
}
