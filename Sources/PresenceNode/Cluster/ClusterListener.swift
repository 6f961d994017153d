import HTTP2
import Logging
import NIOCore
import PresenceCore
import PresenceWire

/// The cluster port, which receives the hellos and batches of other nodes. Junk costs its sender one stream and is counted.
final class ClusterListener: HTTPServerDelegate {
    /// The state of a connection: a random number after the hello of the caller, and the caller's hello after its proof.
    private final class Sender {
        let nonce: [UInt8]
        var proven: Hello?
        /// Whether the caller has sent a proof. The random number is valid for one.
        var hasTried = false
        /// Whether the connection is about to close after a rejection. Further requests on it are ignored.
        var isRejected = false
        var order = BatchOrder()

        init(nonce: [UInt8]) { self.nonce = nonce }
    }

    /// The reasons for rejected streams.
    enum Rejection: String, CaseIterable { case junk, noHello, notStarted, refused, wrongSecret, unknownPath, wrongMethod, tooLarge }

    /// Limits of a caller before its proof: twice the hello of a cluster of 600 nodes. The hello is decoded only after a valid proof.
    static var strangersLimits: HTTPLimits {
        var limits = HTTPLimits()
        limits.bodyBytesMax = 256 << 10
        limits.bufferedBytesMax = 512 << 10
        return limits
    }

    /// Limits of a node after its proof.
    static var membersLimits: HTTPLimits {
        var limits = HTTPLimits()
        limits.bodyBytesMax = 4 * Limits.batchBytesMax
        limits.bufferedBytesMax = 32 * Limits.batchBytesMax
        return limits
    }

    private unowned let shell: Shell
    private(set) var rejections: [Rejection: UInt64] = [:]
    private var refusals = RepeatedLines()
    /// Whether this process is superseded, so that it has no say about other nodes.
    private var isSuperseded = false

    init(shell: Shell) { self.shell = shell }

    /// Answers no hellos any more. A process with the same node ID must not be refused because of this one.
    func supersede() { isSuperseded = true }

    /// Why this node answers no hellos now; nil if it does.
    private var unavailability: String? { isSuperseded ? "superseded" : shell.isStarted ? nil : "starting" }

    func requestReceived(_ request: HTTPRequest, on connection: HTTPServerConnection) {
        // A stranger has one attempt on a connection, so that its cost is bounded by its rate of connections.
        if (connection.applicationState as? Sender)?.isRejected == true { return }
        if let status = request.refusedStatus {
            if status == 413 { rejections[.tooLarge, default: 0] += 1 }
            let problem = Problem(refused: status, request.refusedReason, by: connection.limits)
            return connection.respond(to: request.stream, HTTPResponse(problem))
        }
        let (bytes, target) = (UnsafeRawBufferPointer(request.body), request.target)
        let isBatch = target.starts(with: Self.batchPath)
        let isTrial = target.elementsEqual(Self.trialPath)
        let isHello = target.elementsEqual(Self.helloPath)
        let isRelease = target.elementsEqual(Self.releasePath)
        guard isBatch || isHello || isTrial || isRelease || target.elementsEqual(Self.proofPath) else {
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
        if isRelease { return release(request.stream, connection) }
        proof(bytes, isTrial: isTrial, request.stream, connection)
    }

    private static let helloPath = Array("/cluster/v1/hello".utf8)
    private static let proofPath = Array("/cluster/v1/proof".utf8)
    private static let trialPath = Array("/cluster/v1/trial".utf8)
    private static let batchPath = Array("/cluster/v1/batch/".utf8)
    private static let releasePath = Array("/cluster/v1/release".utf8)

    /// Answers an empty hello with a random number.
    ///
    /// Neither side sends its name before the other has proved that it knows the secret.
    private func hello(_ bytes: UnsafeRawBufferPointer, _ stream: StreamID, _ connection: HTTPServerConnection) {
        if let reason = unavailability { return reject(.notStarted, 503, reason, stream, connection) }
        guard bytes.isEmpty else {
            let reason = "the hello is not empty; this node uses protocol version \(Hello.protocolVersion)"
            return reject(.junk, 400, reason, stream, connection)
        }
        guard connection.applicationState == nil else { return reject(.junk, 400, "a second hello on one connection", stream, connection) }
        let sender = Sender(nonce: ClusterSecret.nonce())
        connection.applicationState = sender
        respond(200, sender.nonce, stream, connection)
    }

    /// Checks the proof of a caller, decodes its hello if the proof is valid, and answers with the own proof and hello.
    ///
    /// The body has the caller's random number, its proof and its hello.
    ///
    /// - Parameter isTrial: whether the caller only wants to know if it would be refused.
    private func proof(
        _ bytes: UnsafeRawBufferPointer, isTrial: Bool, _ stream: StreamID, _ connection: HTTPServerConnection
    ) {
        if let reason = unavailability { return reject(.notStarted, 503, reason, stream, connection) }
        guard let sender = connection.applicationState as? Sender, !sender.hasTried else {
            return reject(.noHello, 409, "a proof without a hello before it, or a second proof", stream, connection)
        }
        sender.hasTried = true
        let size = ClusterSecret.bytesCount
        let (nonce, proof) = (Array(bytes.prefix(size)), Array(bytes.dropFirst(size).prefix(size)))
        let helloBytes = Array(bytes.dropFirst(2 * size))
        guard shell.secret.isValid(proof, of: .caller, caller: nonce, listener: sender.nonce, hello: helloBytes) else {
            log("the cluster secret of the caller differs from that of this node", of: connection, as: "secret")
            return reject(.wrongSecret, 403, "the cluster secret differs from that of this node", stream, connection)
        }
        let hello: Hello
        do throws(DecodeError) { hello = try Hello(helloBytes) } catch {
            return reject(.junk, 400, "not a hello: \(error)", stream, connection)
        }
        if let refusal = shell.node.refusal(of: hello, at: Clock.now()) {
            log(refusal.description, of: connection, as: "\(hello.sender.id)")
            return reject(.refused, LinkRefusal.Kind(refusal).rawValue, refusal.description, stream, connection)
        }
        let own = shell.node.cluster.hello(at: Clock.now()).bytes
        respond(200, shell.secret.proof(.listener, caller: nonce, listener: sender.nonce, hello: own) + own, stream, connection)
        guard !isTrial else { return }
        sender.proven = hello
        connection.setLimits(Self.membersLimits)
        shell.update { $0.greeted(by: hello, at: $1) }
    }

    /// Tells a caller that has proved itself which release this node runs. A stranger does not learn it.
    private func release(_ stream: StreamID, _ connection: HTTPServerConnection) {
        guard let sender = connection.applicationState as? Sender, sender.proven != nil else {
            return reject(.noHello, 409, "a question for the release without a hello and a proof before it", stream, connection)
        }
        respond(200, shell.links.releases.own.bytes, stream, connection)
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
            guard isTaken else { return rejectVoid(from: hello.sender, stream, connection) }
            respond(200, [], stream, connection)
        } catch { reject(.junk, 400, "not a batch: \(error)", stream, connection) }
    }

    /// Rejects a batch on a connection that a later one has replaced. The later one may be of another process.
    private func rejectVoid(from process: Peer, _ stream: StreamID, _ connection: HTTPServerConnection) {
        guard let refusal = shell.node.cluster.supersession(of: process) else {
            return reject(
                .refused, LinkRefusal.Kind.mismatch.rawValue, "a newer connection of this node replaced this one", stream, connection)
        }
        reject(.refused, LinkRefusal.Kind(refusal).rawValue, refusal.description, stream, connection)
    }

    /// - Parameter kind: lines of the same kind and reason are written once a minute. A stranger must not be able to choose it.
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

    /// Closes the connection of a caller without a valid proof, after the answer is sent.
    private func endStranger(_ connection: HTTPServerConnection) {
        let sender = connection.applicationState as? Sender ?? Sender(nonce: [])
        guard sender.proven == nil else { return }
        sender.isRejected = true
        connection.applicationState = sender
        connection.eventLoop.assumeIsolated().execute { connection.close() }
    }

    /// Rejects a request that is not of a node, with a problem as the other ports send it.
    private func reject(
        _ rejection: Rejection, _ problem: Problem, _ stream: StreamID, _ connection: HTTPServerConnection, allow: StaticString? = nil
    ) {
        rejections[rejection, default: 0] += 1
        connection.respond(to: stream, HTTPResponse(problem, allow: allow))
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
    /// Decodes a hello from all of `bytes`.
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

    /// Checks names and addresses, because they reach logs, metrics, disks and other nodes.
    private func checkNames() throws(DecodeError) {
        let names = [cluster, sender.id.rawValue] + members.map(\.id.rawValue)
        let addresses = [sender.address] + members.map(\.address)
        guard names.allSatisfy({ Limits.isValidName($0) }), addresses.allSatisfy({ HostPort($0) != nil && !PrintableText.needsEscape($0) })
        else { throw .badName }
    }

    /// The encoded hello.
    var bytes: [UInt8] {
        var writer = WireWriter()
        writer.hello(self)
        return writer.bytes
    }
}
