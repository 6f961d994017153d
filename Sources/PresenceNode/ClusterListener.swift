import HTTP2
import Logging
import NIOCore
import PresenceCore
import PresenceWire

/// The cluster port: takes the hellos and batches of other nodes. Junk costs its sender one stream, and is counted.
final class ClusterListener: HTTPServerDelegate {
    /// What a connection is known by after its hello, and trusted as after its proof.
    private final class Sender {
        let hello: Hello
        let helloBytes: [UInt8]
        let callerNonce: [UInt8]
        let listenerNonce = ClusterSecret.nonce()
        var isProven = false
        var order = BatchOrder()

        init(_ hello: Hello, bytes: [UInt8], nonce: [UInt8]) {
            self.hello = hello
            helloBytes = bytes
            callerNonce = nonce
        }
    }

    /// Why streams were rejected.
    enum Rejection: String, CaseIterable { case junk, noHello, notStarted, refused, wrongSecret, unknownPath, wrongMethod, tooLarge }

    private unowned let shell: Shell
    private(set) var rejections: [Rejection: UInt64] = [:]
    private var refusals = RepeatedLines()

    init(shell: Shell) { self.shell = shell }

    func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection) {
        guard request.refusedStatus == nil else { return reject(.tooLarge, 413, "too large", request.stream, connection) }
        let (bytes, target) = (UnsafeRawBufferPointer(request.body), request.target)
        let isBatch = target.starts(with: Self.batchPath)
        guard isBatch || target.elementsEqual(Self.helloPath) || target.elementsEqual(Self.proofPath) else {
            return reject(.unknownPath, .noSuchPath("this port is for nodes of the cluster"), request.stream, connection)
        }
        guard request.method == .post else {
            return reject(.wrongMethod, .wrongMethod("nodes of the cluster send POST"), request.stream, connection, allow: "POST")
        }
        if isBatch { return batch(target.dropFirst(Self.batchPath.count), bytes, request.stream, connection) }
        if target.elementsEqual(Self.helloPath) { return hello(bytes, request.stream, connection) }
        proof(bytes, request.stream, connection)
    }

    private static let helloPath = Array("/cluster/v1/hello".utf8)
    private static let proofPath = Array("/cluster/v1/proof".utf8)
    private static let batchPath = Array("/cluster/v1/batch/".utf8)

    /// The caller's random number and its card; answered with ours, and with the proof that we know the secret.
    private func hello(_ bytes: UnsafeRawBufferPointer, _ stream: StreamID, _ connection: HTTPServerConnection) {
        guard shell.isStarted else { return reject(.notStarted, 503, "starting", stream, connection) }
        let nonce = Array(bytes.prefix(ClusterSecret.bytesCount))
        let card = Array(bytes.dropFirst(ClusterSecret.bytesCount))
        let hello: Hello
        do throws(DecodeError) { hello = try Hello(card) } catch { return reject(.junk, 400, "not a hello: \(error)", stream, connection) }
        if let refusal = shell.node.refusal(of: hello, at: Clock.now()) {
            logRefusal(of: hello.sender.id, refusal)
            return reject(.refused, 409, refusal, stream, connection)
        }
        let sender = Sender(hello, bytes: card, nonce: nonce)
        connection.applicationState = sender
        let own = shell.node.hello(at: Clock.now()).bytes
        let proof = shell.secret.proof(.listener, caller: nonce, listener: sender.listenerNonce, hello: own)
        respond(200, sender.listenerNonce + proof + own, stream, connection)
    }

    private func proof(_ bytes: UnsafeRawBufferPointer, _ stream: StreamID, _ connection: HTTPServerConnection) {
        guard let sender = connection.applicationState as? Sender else {
            return reject(.noHello, 409, "say hello first", stream, connection)
        }
        let isValid = shell.secret.isValid(
            Array(bytes), of: .caller, caller: sender.callerNonce, listener: sender.listenerNonce, hello: sender.helloBytes)
        guard isValid else {
            logRefusal(of: sender.hello.sender.id, "its cluster secret is not this node's")
            return reject(.wrongSecret, 403, "the cluster secret is not this node's", stream, connection)
        }
        sender.isProven = true
        respond(200, [], stream, connection)
        shell.update { $0.greeted(by: sender.hello, at: $1) }
    }

    private func batch(
        _ number: some Sequence<UInt8>, _ bytes: UnsafeRawBufferPointer, _ stream: StreamID, _ connection: HTTPServerConnection
    ) {
        guard let sender = connection.applicationState as? Sender, sender.isProven else {
            return reject(.noHello, 409, "say hello and prove the secret first", stream, connection)
        }
        guard let number = UInt64(String(decoding: Array(number), as: UTF8.self)), let isNext = sender.order.arrives(number) else {
            return reject(.junk, 400, "the path must end in the number of the batch, counted from 0 on each connection", stream, connection)
        }
        guard isNext else { return sender.order.keep(number, BatchOrder.Batch(bytes: Array(bytes), stream: stream)) }
        take(bytes, from: sender, stream, connection)
        while let batch = sender.order.takeNext() {
            batch.bytes.withUnsafeBytes { take($0, from: sender, batch.stream, connection) }
        }
    }

    private func take(_ bytes: UnsafeRawBufferPointer, from sender: Sender, _ stream: StreamID, _ connection: HTTPServerConnection) {
        do {
            let hello = sender.hello
            let isTaken = try shell.update { node, now in
                try node.receive(batch: bytes, from: hello.sender.id, on: hello.connection, at: now)
            }
            guard isTaken else { return reject(.refused, 409, "a later connection of this node has replaced this one", stream, connection) }
            respond(200, [], stream, connection)
        } catch { reject(.junk, 400, "not a batch: \(error)", stream, connection) }
    }

    private func logRefusal(of node: NodeID, _ reason: String) {
        guard refusals.isDue("\(node)", reason, at: .now()) else { return }
        shell.logger.warning("node refused", metadata: ["node": "\(node)", "reason": "\(reason)"])
    }

    private func reject(
        _ rejection: Rejection, _ status: Int, _ reason: String, _ stream: StreamID, _ connection: HTTPServerConnection
    ) {
        rejections[rejection, default: 0] += 1
        respond(status, Array(reason.utf8), stream, connection)
    }

    /// Answers what is not a message of a node, but a client's error, as the other ports do.
    private func reject(
        _ rejection: Rejection, _ problem: Problem, _ stream: StreamID, _ connection: HTTPServerConnection, allow: StaticString? = nil
    ) {
        rejections[rejection, default: 0] += 1
        let body = ByteBuffer(bytes: problem.json)
        connection.respond(to: stream, HTTPResponse(status: problem.status, contentType: .problem, body: body, allow: allow))
    }

    private func respond(_ status: Int, _ body: [UInt8], _ stream: StreamID, _ connection: HTTPServerConnection) {
        connection.respond(to: stream, HTTPResponse(status: status, contentType: .octets, body: ByteBuffer(bytes: body)))
    }

    func eventStreamClosed(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection, reason: StreamEnd) {}
    func eventStreamDrained(_ stream: StreamID, token: UInt32, on connection: HTTPServerConnection) {}
    func connectionOpened(_ connection: HTTPServerConnection) {}
    func connectionClosed(_ connection: HTTPServerConnection) {}
    func violated(_ violation: HTTPViolation) { rejections[.junk, default: 0] += 1 }
}

extension Hello {
    /// Reads ``bytes``, which is all there is.
    init(_ bytes: [UInt8]) throws(DecodeError) {
        let result: Result<Hello, DecodeError> = bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            return Result { () throws(DecodeError) in
                let hello = try reader.hello()
                if hello.isOfThisProtocol { try reader.expectEnd() }
                return hello
            }
        }
        self = try result.get()
    }

    /// What travels.
    var bytes: [UInt8] {
        var writer = WireWriter()
        writer.hello(self)
        return writer.bytes
    }
}
