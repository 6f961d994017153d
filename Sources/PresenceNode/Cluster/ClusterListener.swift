import HTTP2
import Logging
import NIOCore
import PresenceCore
import PresenceWire

/// The cluster port: takes the hellos and batches of other nodes. Junk costs its sender one stream, and is counted.
final class ClusterListener: HTTPServerDelegate {
    /// The state of a connection: our random number after its hello, the hello of its node after its proof.
    private final class Sender {
        let nonce: [UInt8]
        var proven: Hello?
        /// The number is good for one try.
        var hasTried = false
        /// Told what was wrong, and about to be closed: nothing is looked at that it has sent besides.
        var isRejected = false
        var order = BatchOrder()

        init(nonce: [UInt8]) { self.nonce = nonce }
    }

    /// Why streams were rejected.
    enum Rejection: String, CaseIterable { case junk, noHello, notStarted, refused, wrongSecret, unknownPath, wrongMethod, tooLarge }

    /// Of a caller that has proved nothing: the hello of a cluster of some 600 nodes, twice. It is not read before its proof is right.
    static var strangersLimits: HTTPLimits {
        var limits = HTTPLimits()
        limits.bodyBytesMax = 256 << 10
        limits.bufferedBytesMax = 512 << 10
        return limits
    }

    /// Of a node.
    static var membersLimits: HTTPLimits {
        var limits = HTTPLimits()
        limits.bodyBytesMax = 4 * Limits.batchBytesMax
        limits.bufferedBytesMax = 32 * Limits.batchBytesMax
        return limits
    }

    private unowned let shell: Shell
    private(set) var rejections: [Rejection: UInt64] = [:]
    private var refusals = RepeatedLines()

    init(shell: Shell) { self.shell = shell }

    func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection) {
        // A stranger has one try on a connection, so that what it costs is bounded by how often it can connect.
        if (connection.applicationState as? Sender)?.isRejected == true { return }
        if let status = request.refusedStatus {
            if status == 413 { rejections[.tooLarge, default: 0] += 1 }
            let problem = Problem(refused: status, request.refusedReason, by: connection.limits)
            return connection.respond(
                to: request.stream,
                HTTPResponse(
                    status: status, contentType: .problem, body: ByteBuffer(bytes: problem.json), retryAfter: problem.retryAfter))
        }
        let (bytes, target) = (UnsafeRawBufferPointer(request.body), request.target)
        let isBatch = target.starts(with: Self.batchPath)
        let isTrial = target.elementsEqual(Self.trialPath)
        let isHello = target.elementsEqual(Self.helloPath)
        guard isBatch || isHello || isTrial || target.elementsEqual(Self.proofPath) else {
            return reject(
                .unknownPath,
                .noSuchPath("no such path; this port is for nodes of the cluster, clients use the client port (7600 by default)"),
                request.stream, connection)
        }
        guard request.method == .post else {
            return reject(
                .wrongMethod, .wrongMethod("the paths of the cluster port support only POST"), request.stream, connection, allow: "POST")
        }
        if isBatch { return batch(target.dropFirst(Self.batchPath.count), bytes, request.stream, connection) }
        if isHello { return hello(bytes, request.stream, connection) }
        proof(bytes, isTrial: isTrial, request.stream, connection)
    }

    private static let helloPath = Array("/cluster/v1/hello".utf8)
    private static let proofPath = Array("/cluster/v1/proof".utf8)
    private static let trialPath = Array("/cluster/v1/trial".utf8)
    private static let batchPath = Array("/cluster/v1/batch/".utf8)

    /// A caller says that it is there, and no more; answered with a random number, and no more: neither side tells its name before the other
    /// has proved that it knows the secret.
    private func hello(_ bytes: UnsafeRawBufferPointer, _ stream: StreamID, _ connection: HTTPServerConnection) {
        guard shell.isStarted else { return reject(.notStarted, 503, "starting", stream, connection) }
        guard bytes.isEmpty else {
            let reason = "the hello is not empty; this node uses protocol version \(Hello.protocolVersion)"
            return reject(.junk, 400, reason, stream, connection)
        }
        guard connection.applicationState == nil else { return reject(.junk, 400, "a second hello on one connection", stream, connection) }
        let sender = Sender(nonce: ClusterSecret.nonce())
        connection.applicationState = sender
        respond(200, sender.nonce, stream, connection)
    }

    /// The caller's random number, its proof and its hello, which is read if the proof is right; answered with our proof and hello.
    ///
    /// - Parameter isTrial: the caller only asks whether it would be refused.
    private func proof(
        _ bytes: UnsafeRawBufferPointer, isTrial: Bool, _ stream: StreamID, _ connection: HTTPServerConnection
    ) {
        guard shell.isStarted else { return reject(.notStarted, 503, "starting", stream, connection) }
        guard let sender = connection.applicationState as? Sender, !sender.hasTried else {
            return reject(.noHello, 409, "a proof without a hello before it, or a second proof", stream, connection)
        }
        sender.hasTried = true
        let size = ClusterSecret.bytesCount
        let (nonce, proof) = (Array(bytes.prefix(size)), Array(bytes.dropFirst(size).prefix(size)))
        let card = Array(bytes.dropFirst(2 * size))
        guard shell.secret.isValid(proof, of: .caller, caller: nonce, listener: sender.nonce, hello: card) else {
            log("the cluster secret of the caller differs from that of this node", of: connection, as: "secret")
            return reject(.wrongSecret, 403, "the cluster secret differs from that of this node", stream, connection)
        }
        let hello: Hello
        do throws(DecodeError) { hello = try Hello(card) } catch { return reject(.junk, 400, "not a hello: \(error)", stream, connection) }
        if let refusal = shell.node.refusal(of: hello, at: Clock.now()) {
            log(refusal, of: connection, as: "\(hello.sender.id)")
            return reject(.refused, 409, refusal, stream, connection)
        }
        let own = shell.node.hello(at: Clock.now()).bytes
        respond(200, shell.secret.proof(.listener, caller: nonce, listener: sender.nonce, hello: own) + own, stream, connection)
        guard !isTrial else { return }
        sender.proven = hello
        connection.setLimits(Self.membersLimits)
        shell.update { $0.greeted(by: hello, at: $1) }
    }

    private func batch(
        _ number: some Sequence<UInt8>, _ bytes: UnsafeRawBufferPointer, _ stream: StreamID, _ connection: HTTPServerConnection
    ) {
        guard let sender = connection.applicationState as? Sender, sender.proven != nil else {
            return reject(.noHello, 409, "a batch without a hello and a proof before it", stream, connection)
        }
        guard let number = UInt64(String(decoding: Array(number), as: UTF8.self)), let isNext = sender.order.arrives(number) else {
            return reject(
                .junk, 400, "the path does not end in the number of the batch, counted from 0 on each connection", stream, connection)
        }
        guard isNext else { return sender.order.keep(number, BatchOrder.Batch(bytes: Array(bytes), stream: stream)) }
        take(bytes, from: sender, stream, connection)
        while let batch = sender.order.takeNext() {
            batch.bytes.withUnsafeBytes { take($0, from: sender, batch.stream, connection) }
        }
    }

    private func take(_ bytes: UnsafeRawBufferPointer, from sender: Sender, _ stream: StreamID, _ connection: HTTPServerConnection) {
        guard let hello = sender.proven else { return }
        do {
            let isTaken = try shell.update { node, now in
                try node.receive(batch: bytes, from: hello.sender.id, on: hello.connection, at: now)
            }
            guard isTaken else { return reject(.refused, 409, "a newer connection of this node replaced this one", stream, connection) }
            respond(200, [], stream, connection)
        } catch { reject(.junk, 400, "not a batch: \(error)", stream, connection) }
    }

    /// - Parameter kind: of lines of the same kind and reason one is written a minute. A stranger must not choose it.
    private func log(_ reason: String, of connection: HTTPServerConnection, as kind: String) {
        guard refusals.isDue(kind, reason, at: .now()) else { return }
        shell.logger.warning("node refused", metadata: ["address": "\(connection.remoteAddress)", "reason": "\(reason)"])
    }

    private func reject(
        _ rejection: Rejection, _ status: Int, _ reason: String, _ stream: StreamID, _ connection: HTTPServerConnection
    ) {
        rejections[rejection, default: 0] += 1
        respond(status, Array(reason.utf8), stream, connection)
        endStranger(connection)
    }

    /// Closes the connection of a caller that has proved nothing, once the answer is out.
    private func endStranger(_ connection: HTTPServerConnection) {
        let sender = connection.applicationState as? Sender ?? Sender(nonce: [])
        guard sender.proven == nil else { return }
        sender.isRejected = true
        connection.applicationState = sender
        connection.eventLoop.assumeIsolated().execute { connection.close() }
    }

    /// Answers what is not a message of a node, but a client's error, as the other ports do.
    private func reject(
        _ rejection: Rejection, _ problem: Problem, _ stream: StreamID, _ connection: HTTPServerConnection, allow: StaticString? = nil
    ) {
        rejections[rejection, default: 0] += 1
        let body = ByteBuffer(bytes: problem.json)
        connection.respond(to: stream, HTTPResponse(status: problem.status, contentType: .problem, body: body, allow: allow))
        endStranger(connection)
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
                try hello.checkNames()
                return hello
            }
        }
        self = try result.get()
    }

    /// Names and addresses go to logs, metrics, disks and other nodes.
    private func checkNames() throws(DecodeError) {
        let names = [cluster, sender.id.rawValue] + members.map(\.id.rawValue)
        let addresses = [sender.address] + members.map(\.address)
        guard names.allSatisfy({ Limits.isValidName($0) }), addresses.allSatisfy({ HostPort($0) != nil && !LogText.needsEscape($0) })
        else { throw .badName }
    }

    /// What travels.
    var bytes: [UInt8] {
        var writer = WireWriter()
        writer.hello(self)
        return writer.bytes
    }
}
