import Dispatch
import Foundation
import HTTP2
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import NIOSSL
import PresenceCore
import PresenceWire

/// The links from this node to other nodes: one HTTP/2 connection each, reconnected when it ends. Used only on the loop of the core.
final class OutgoingLinks {
    private unowned let shell: Shell
    private lazy var loop = HTTPClientConnection.Loop(eventLoop: shell.eventLoop)
    /// The links by address.
    private var links: [String: OutgoingLink] = [:]
    private var resolvingCount = 0
    private var repeated = RepeatedLines()
    private var isClosed = false
    /// The releases of this node and of those at the other ends.
    var releases = PeerReleases(own: NodeRelease(version: Release.version, startTime: Clock.now().wall))
    /// Called with ``refusal`` four times a second, and at once when a later process with this node's ID has replaced this one.
    var refusalNoticed: ((LinkRefusal?) -> Void)?
    /// Whether a link ends after the peer has answered if it would accept this node.
    private let isTrial: Bool
    /// The addresses at which this node looks for others, while it is linked to none of them, each with its last error: `10.0.0.1:7601
    /// (Connection refused)`. Any thread may read them.
    let unanswered = NIOLockedValueBox<[String]>([])
    /// The names of contact points without an address.
    private var namesWithoutAddress: Set<String> = []
    /// The last error of each link that is not up, by address.
    private var problems: [String: String] = [:]
    /// When the next line about ``unanswered`` is due; nil while there is none.
    private var unansweredLineAt: NIODeadline?

    init(shell: Shell, isTrial: Bool = false) {
        self.shell = shell
        self.isTrial = isTrial
    }

    /// Time until a name is resolved again while no other node is known.
    private static let resolveInterval = TimeAmount.seconds(2)
    /// The time from the first failure to the first line about it: nodes that start together find each other sooner.
    private static let unansweredPatience = TimeAmount.seconds(2)
    private static let unansweredInterval = TimeAmount.seconds(30)

    /// Opens links to the contact points. A name is resolved, and each of its addresses gets a link.
    func join(_ contacts: [HostPort]) {
        for contact in contacts {
            if ContactPoints.isAddress(contact.host) { open(contact.description) } else { resolve(contact) }
        }
    }

    private func resolve(_ contact: HostPort) {
        resolvingCount += 1
        let shell = shell
        nonisolated(unsafe) let links = self
        DispatchQueue.global().async {
            let addresses = ContactPoints.resolve(contact)
            shell.takeUp { links.resolved(contact, addresses) }
        }
    }

    private func resolved(_ contact: HostPort, _ addresses: [HostPort]) {
        resolvingCount -= 1
        guard !isClosed else { return }
        if addresses.isEmpty { namesWithoutAddress.insert(contact.description) } else { namesWithoutAddress.remove(contact.description) }
        if addresses.isEmpty, repeated.isDue(contact.host, "", at: .now()) {
            shell.logger.warning("name of a contact point (join) does not resolve", metadata: ["name": "\(contact.host)"])
        }
        for address in addresses { open(address.description, isOfName: true) }
        shell.eventLoop.assumeIsolated().scheduleTask(in: Self.resolveInterval) { [weak self] in
            guard let self, !self.isClosed, !self.links.values.contains(where: { $0.peerID != nil }) else { return }
            self.resolve(contact)
        }
    }

    /// Opens a link to a node that the core knows, or reconnects a broken link at once.
    func connect(to peer: Peer) {
        for link in links.values.sorted(by: { $0.address < $1.address }) where link.leads(to: peer.id) && link.address != peer.address {
            giveUp(link)
        }
        open(peer.address, of: peer)
    }

    private func giveUp(_ link: OutgoingLink) {
        link.abandon()
        links[link.address] = nil
        problems[link.address] = nil
        releases.remove(link.address)
    }

    private func open(_ address: String, of peer: Peer? = nil, isOfName: Bool = false) {
        if let link = links[address] { return link.retryNow(to: peer) }
        guard let target = HostPort(address) else {
            return shell.logger.error("peer address is not HOST:PORT", metadata: ["address": "\(address)"])
        }
        let link = OutgoingLink(target: target, shell: shell, loop: loop, isTrial: isTrial, isOfName: isOfName)
        links[address] = link
        link.retryNow(to: peer)
    }

    /// Sends what the core has queued for a peer.
    func transmit(to peer: PeerIndex, id: NodeID) {
        for link in links.values where link.peerID == id { link.transmit(to: peer) }  // order does not matter: one link has the ID.
    }

    /// Closes silent links, gives up links whose node ended or never answered, and reports the refusal. Called four times a second.
    func watch() {
        let isAlone = upCount == 0
        for link in links.values.sorted(by: { $0.address < $1.address }) {
            if link.isOver || !isAlone && link.isOfNobody { giveUp(link) } else { link.watch() }
        }
        refusalNoticed?(refusal)
        watchUnanswered(at: .now())
    }

    /// Logs twice a minute that no node answers, because this node then serves alone, as if it were the whole cluster.
    private func watchUnanswered(at now: NIODeadline) {
        let tried = links.values.filter { $0.isWanted && $0.hasTried }.map(\.address).sorted()
        let unanswered = tried.map { "\($0) (\(problems[$0] ?? "no answer yet"))" }
        let unresolved = namesWithoutAddress.sorted().map { "\($0) (the name does not resolve)" }
        let addresses = upCount == 0 && refusal == nil ? unanswered + unresolved : []
        self.unanswered.withLockedValue { $0 = addresses }
        guard !addresses.isEmpty else { return unansweredLineAt = nil }
        let due = unansweredLineAt ?? now + Self.unansweredPatience
        unansweredLineAt = due
        guard due <= now else { return }
        unansweredLineAt = now + Self.unansweredInterval
        shell.logger.warning(
            "this node is alone: no other node answers at these addresses",
            metadata: ["addresses": "\(addresses.joined(separator: ", "))"])
    }

    /// Notes the last error of a link; nil once it is up.
    func note(_ problem: String?, at address: String) { problems[address] = problem.map { String($0.prefix(Self.problemMax)) } }

    /// Most characters of an error.
    private static let problemMax = 300

    /// Numbers of links that are up, and that are down but wanted.
    var upCount: Int { links.values.count(where: \.isUp) }
    var downCount: Int { links.values.count(where: \.isWanted) - upCount }

    /// Succeeds after the other nodes have acknowledged all batches, or at `deadline`.
    func whenSent(until deadline: NIODeadline) -> EventLoopFuture<Void> {
        shell.eventLoop.when({ self.links.values.allSatisfy(\.isIdle) }, until: deadline)
    }

    /// Whether every contact point has answered or failed at least once.
    var hasTriedAll: Bool { resolvingCount == 0 && links.values.allSatisfy(\.hasTried) }

    /// Why every node that answers refuses this node; nil if one accepts it, or if none answers.
    ///
    /// A later process with this node's ID is known to the whole cluster soon. Then it does not matter that other nodes accept this one.
    var refusal: LinkRefusal? {
        let verdicts = links.values.sorted { $0.address < $1.address }.map(\.verdict)
        let refusals = verdicts.compactMap(\.refusal)
        let first = LinkRefusal.Kind.allCases.lazy.compactMap { kind in refusals.first { $0.kind == kind } }.first
        return first?.kind != .superseded && verdicts.contains(.welcome) ? nil : first
    }

    func closeAll() {
        isClosed = true
        for link in links.values.sorted(by: { $0.address < $1.address }) { link.abandon() }
    }
}

/// One link to another node: it connects, exchanges hellos and proofs, then sends batches. The response to a batch acknowledges it.
final class OutgoingLink: HTTPClientDelegate {
    private enum State: Equatable {
        /// Not connected; waits before the next attempt.
        case idle
        case connecting
        case greeting
        /// This side has sent its proof and hello, and waits for those of the peer.
        case proving
        case live(NodeID)
        /// One side has refused the other. The connection is about to close.
        case refused
        /// Given up: the address leads to this node itself, to a node that is known by another address, or to no node.
        case abandoned
    }

    /// Whether the peer accepts this node, by its last answer.
    enum Verdict: Equatable {
        /// The peer has not answered, or not since the link ended.
        case unknown
        case welcome
        case refused(LinkRefusal)

        var refusal: LinkRefusal? { if case .refused(let refusal) = self { refusal } else { nil } }
    }

    /// The status of a node that listens but has not started.
    private static let startingStatus = 503
    /// The status with which a node refuses a caller with another secret.
    private static let wrongSecretStatus = 403
    private static let wrongSecret = "its cluster secret differs from that of this node"
    /// The status with which a node refuses a hello that it cannot read.
    private static let junkStatus = 400

    private enum Token { static let hello: UInt32 = 1, batch: UInt32 = 2, proof: UInt32 = 3, release: UInt32 = 4 }

    let address: String
    private(set) var hasTried = false
    private(set) var verdict = Verdict.unknown
    private let isTrial: Bool
    /// Whether the address is one of several behind a contact point's name.
    private let isOfName: Bool
    private var refusals = RepeatedLines()
    private let target: HostPort
    private unowned let shell: Shell
    private let loop: HTTPClientConnection.Loop
    private var state = State.idle
    private var connection: HTTPClientConnection?
    /// The member at the other end. It stays set during the first attempt to reconnect.
    private(set) var peerID: NodeID?
    /// The newest process known at this address, and the process that was known when the present attempt began.
    ///
    /// A refused connection proves that the latter has ended. Nil for a contact point that has not answered yet.
    private var expected: Peer?
    private var tried: Peer?
    private var attempts = 0
    private var response: [UInt8] = []
    /// The random numbers of both sides of the present connection.
    private var nonces: (own: [UInt8], other: [UInt8]) = ([], [])
    private var status = 0
    private var inFlightCount = 0
    /// Batches sent on this connection. Each carries its number, because streams may overtake one another.
    private var batchesSent: UInt64 = 0
    private var lastAnswerAt = NIODeadline.now()
    /// How many connections in a row the peer has closed without an answer.
    private var unansweredCount = 0
    /// Number of such connections that cannot be chance.
    private static let unansweredMax = 3
    /// Whether this side closed the present connection because the peer was silent.
    private var wasSilent = false

    /// Longest silence of a link to a member with batches in flight. TCP recovers in less time at 30 % loss.
    ///
    /// Membership decides earlier about the member, by direct and indirect probes.
    private static let silenceMax = TimeAmount.seconds(10)
    /// Longest silence while hellos and proofs are exchanged.
    private static let greetingSilenceMax = TimeAmount.seconds(5)
    /// Longest silence of a link to a node that is no longer a member.
    ///
    /// A new connection finds the node at once when it returns. The old one waits for TCP retransmissions, whose interval grows.
    private static let lostSilenceMax = TimeAmount.seconds(1)

    init(target: HostPort, shell: Shell, loop: HTTPClientConnection.Loop, isTrial: Bool, isOfName: Bool) {
        self.isTrial = isTrial
        self.isOfName = isOfName
        self.target = target
        self.shell = shell
        self.loop = loop
        address = target.description
    }

    // MARK: Life

    /// Connects now, unless the link is connected or connecting.
    ///
    /// - Parameter peer: the member at this address, if the core knows it.
    func retryNow(to peer: Peer? = nil) {
        if let peer { expect(peer) }
        guard state == .idle else { return }
        state = .connecting
        tried = expected
        wasSilent = false
        lastAnswerAt = .now()
        connection = HTTPClientConnection.connect(
            host: target.host, port: target.port, on: loop, tls: shell.tls, retransmission: .quick, timeout: .seconds(1), delegate: self)
    }

    /// Whether the link leads to a node, or did when it was last up.
    func leads(to id: NodeID) -> Bool { (peerID ?? expected?.id) == id }

    var isUp: Bool { if case .live = state { true } else { false } }
    var isWanted: Bool { state != .abandoned }

    /// Whether the process at the other end has left and no later process is known. A later process connects by itself.
    var isOver: Bool { !isUp && isWanted && expected.map(shell.node.cluster.hasEnded) == true }

    /// Whether no node has answered at an address of a name. The name may resolve to other addresses by now.
    var isOfNobody: Bool { isOfName && state == .idle && expected == nil }

    private func expect(_ peer: Peer) {
        guard peer.generation >= expected?.generation ?? 0 else { return }
        if peer.generation > expected?.generation ?? 0 { attempts = 0 }
        expected = peer
    }

    func abandon() {
        state = .abandoned
        hasTried = true
        connection?.close()
    }

    func watch() {
        guard state != .idle, state != .abandoned, NIODeadline.now() - lastAnswerAt > silenceMax else { return }
        shell.logger.warning("link closed: no answer from the peer", metadata: ["address": "\(address)"])
        wasSilent = true
        connection?.close()
    }

    private var silenceMax: TimeAmount {
        guard case .live(let id) = state else { return Self.greetingSilenceMax }
        return shell.node.cluster.isMember(id) ? Self.silenceMax : Self.lostSilenceMax
    }

    func connected(_ connection: HTTPClientConnection) {
        guard state == .connecting else { return }
        state = .greeting
        response = []
        _ = connection.send(.post, path: "/cluster/v1/hello", body: ByteBuffer(), token: Token.hello)
    }

    func closed(_ connection: HTTPClientConnection, error: (any Error)?) {
        guard connection === self.connection else { return }
        self.connection = nil
        if !isTrial, state != .refused, state != .abandoned { shell.links.note(problem(error), at: address) }
        if let problem = transportProblem(error) {
            report(problem, "link failed", .mismatch)
        } else if state != .refused, state != .abandoned {
            verdict = .unknown
        }
        let isStarting = status == Self.startingStatus
        status = 0
        let isTriedAgain = isTrial && unansweredCount > 0 && verdict.refusal == nil
        hasTried = hasTried || isTrial && !isTriedAgain || !isTrial && !isStarting
        inFlightCount = 0
        if isTrial, !isTriedAgain { state = .abandoned }
        guard state != .abandoned else { return }
        let wasLive = if case .live = state { true } else { false }
        let wasConnecting = state == .connecting
        state = .idle
        let isRefused = !wasSilent && !wasLive && Self.isRefusal(error)
        if let lost = peerID {
            if !wasLive { peerID = nil }
            let refusal = isRefused ? tried.map { Membership.LinkLoss.refused(generation: $0.generation) } : nil
            shell.update { $0.unlinked(from: lost, evidence: refusal ?? (wasLive && !wasSilent ? .reset : .silent), at: $1) }
        } else if isRefused, let tried {
            shell.update { $0.refused(by: tried, at: $1) }
        }
        // The core may have started another attempt by now. A process that is newer than this attempt was not tried.
        guard state == .idle else { return }
        // A peer that has refused a batch would refuse the next one as well. That link waits.
        if wasLive || isRefused && tried != expected {
            retryNow()
        } else {
            scheduleRetry(isDue: isStarting || !isRefused && wasConnecting)
        }
    }

    /// Why the connection has ended or could not be opened, for operators.
    private func problem(_ error: (any Error)?) -> String {
        if wasSilent { return "no answer within \(silenceMax.nanoseconds / 1_000_000_000) s" }
        if status == Self.startingStatus { return "the node is starting" }
        if status >= 500 { return "HTTP status \(status)" }
        return error.map(ConnectionErrorText.text) ?? "the connection was closed"
    }

    /// Why this attempt and the next ones cannot succeed although a process listens; nil for problems that pass.
    ///
    /// Either the certificates do not match, or only one side uses TLS.
    private func transportProblem(_ error: (any Error)?) -> String? {
        guard state == .connecting, !wasSilent else { return nil }
        let reason = Self.tlsReason(error)
        let isUnanswered = error == nil || reason.map(Self.noTLS.contains) == true
        unansweredCount = isUnanswered ? unansweredCount + 1 : 0
        if !isUnanswered { return reason.map { "the TLS handshake failed: \($0)" } }
        // A node that ends closes connections that it has just accepted. The next attempt then finds no listener.
        guard unansweredCount >= Self.unansweredMax else { return nil }
        return shell.tls == nil
            ? "the peer closes connections without an answer; the peer may use TLS, this node does not"
            : "the peer does not answer in TLS; the peer may not use TLS, this node does"
    }

    private static func tlsReason(_ error: (any Error)?) -> String? {
        let stack: NIOBoringSSLErrorStack
        switch error {
        case BoringSSLError.sslError(let errors)?, NIOSSLError.handshakeFailed(.sslError(let errors))?: stack = errors
        case let error as NIOSSLExtraError: return "\(error)"
        default: return nil
        }
        // "Error: 268436504 error:10000418:SSL routines:OPENSSL_internal:TLSV1_ALERT_UNKNOWN_CA at <file>:491".
        return stack.first.flatMap {
            "\($0)".split(separator: " at ").first?.split(separator: ":").last?.trimmingCharacters(in: .whitespaces)
        }
    }

    /// The errors of TLS when the peer does not use TLS: it closes the connection, or answers in HTTP/1.1.
    private static let noTLS = ["EOF during handshake", "WRONG_VERSION_NUMBER"]

    /// Whether the host refused the connection because no process listens.
    private static func isRefusal(_ error: (any Error)?) -> Bool {
        if let error = error as? NIOConnectionError {
            return !error.connectionErrors.isEmpty && error.connectionErrors.allSatisfy { isRefusal($0.error) }
        }
        return (error as? IOError)?.errnoCode == ECONNREFUSED
    }

    /// Schedules the next attempt: full jitter up to 100 ms × 2ⁿ, at most a second.
    ///
    /// - Parameter isDue: whether the attempt itself took long. Then the next one follows soon, as after a partition heals.
    private func scheduleRetry(isDue: Bool) {
        attempts += 1
        let ceiling = isDue ? 100 : min(Int64(100) << Int64(min(attempts, 5)), 1_000)
        shell.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(Int64.random(in: 20...ceiling))) { [weak self] in self?.retryNow() }
    }

    // MARK: Answers

    func responseHead(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, status: Int) {
        if token == Token.release { return shell.links.releases.begins(at: address, status: status) }
        self.status = status
        if status != 200 { response = [] }
    }

    func responseBody(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, bytes: UnsafeRawBufferPointer) {
        if token == Token.release { return shell.links.releases.continues(at: address, bytes) }
        if token != Token.batch || status != 200, response.count + bytes.count <= Limits.batchBytesMax {
            response.append(contentsOf: bytes)
        }
    }

    func streamClosed(_ connection: HTTPClientConnection, stream: StreamID, token: UInt32, error: UInt32) {
        guard connection === self.connection else { return }
        lastAnswerAt = .now()
        guard error == 0 else { return connection.close() }
        if token == Token.release { return released() }
        guard status == 200 else { return refused(connection) }
        if token == Token.hello { return greeted(connection) }
        if token == Token.proof { return proved(connection) }
        inFlightCount -= 1
        guard case .live(let id) = state else { return }
        shell.update { node, now in
            if let peer = node.cluster.peerIndex(id) { node.acknowledged(by: peer, at: now) }
        }
    }

    /// Handles a refusal by the peer, or a peer that has not started.
    private func refused(_ connection: HTTPClientConnection) {
        if status == Self.startingStatus { return connection.close() }
        if status == Self.wrongSecretStatus { return refused(connection, "peer refuses the link", Self.wrongSecret, .mismatch) }
        // A proxy between the nodes may have no node behind it at the moment.
        if status >= 500 { return connection.close() }
        let kind = LinkRefusal.Kind(rawValue: status)
        let isOfNode = kind != nil || status == Self.junkStatus
        refused(
            connection, "peer refuses the link",
            isOfNode ? reason : "not a Rollcall cluster port: the peer answered with HTTP status \(status)", kind ?? .mismatch)
        if kind == .superseded, !isTrial { shell.links.refusalNoticed?(shell.links.refusal) }
    }

    private var reason: String { String(decoding: response.prefix(300).map { $0 < 0x20 || $0 == 0x7F ? 0x20 : $0 }, as: UTF8.self) }

    /// Closes the link after a refusal.
    ///
    /// - Parameter kind: what the refusal means for this node; nil if this node refuses the peer for a reason of the peer alone.
    private func refused(_ connection: HTTPClientConnection, _ line: Logger.Message, _ reason: String, _ kind: LinkRefusal.Kind?) {
        state = .refused
        report(reason, line, kind)
        connection.close()
    }

    private func report(_ reason: String, _ line: Logger.Message, _ kind: LinkRefusal.Kind?) {
        verdict = kind.map { .refused(LinkRefusal(reason: "\(address): \(reason)", kind: $0)) } ?? .unknown
        if !isTrial { shell.links.note(reason, at: address) }
        if !isTrial, refusals.isDue(address, reason, at: .now()) {
            shell.logger.error(line, metadata: ["address": "\(address)", "reason": "\(reason)"])
        }
        attempts = 5
    }

    private func greeted(_ connection: HTTPClientConnection) {
        guard state == .greeting else { return }
        guard response.count == ClusterSecret.bytesCount else {
            return refused(
                connection, "peer refused",
                "not a Rollcall cluster port: the answer to a hello has \(response.count) bytes instead of \(ClusterSecret.bytesCount)",
                .mismatch)
        }
        nonces = (ClusterSecret.nonce(), response)
        state = .proving
        response = []
        let own = shell.update { $0.greeting(at: $1) }.bytes
        let proof = shell.secret.proof(.caller, caller: nonces.own, listener: nonces.other, hello: own)
        _ = connection.send(
            .post, path: isTrial ? "/cluster/v1/trial" : "/cluster/v1/proof", body: ByteBuffer(bytes: nonces.own + proof + own),
            token: Token.proof)
    }

    /// Checks the proof and the hello of the peer, which has accepted this node.
    private func proved(_ connection: HTTPClientConnection) {
        guard state == .proving else { return }
        let (proof, helloBytes) = (Array(response.prefix(ClusterSecret.bytesCount)), Array(response.dropFirst(ClusterSecret.bytesCount)))
        guard shell.secret.isValid(proof, of: .listener, caller: nonces.own, listener: nonces.other, hello: helloBytes) else {
            return refused(connection, "peer refused", Self.wrongSecret, .mismatch)
        }
        let hello: Hello
        do throws(DecodeError) { hello = try Hello(helloBytes) } catch {
            return refused(
                connection, "peer refused", "not a Rollcall cluster port: the peer did not answer with a valid hello: \(error)", .mismatch)
        }
        guard hello.sender.id != shell.peer.id || hello.sender.generation != shell.peer.generation else { return abandon() }
        if let refusal = shell.node.refusal(of: hello, at: Clock.now()) {
            let kind = LinkRefusal.Kind(refusal)
            return refused(connection, "peer refused", refusal.description, kind.isMutual ? kind : nil)
        }
        verdict = .welcome
        if isTrial { return abandon() }
        hasTried = true
        attempts = 0
        inFlightCount = 0
        batchesSent = 0
        state = .live(hello.sender.id)
        peerID = hello.sender.id
        expect(hello.sender)
        shell.links.note(nil, at: address)
        // A peer that takes no more streams now is asked on the next connection.
        if shell.links.releases.ask(hello.sender, at: address) {
            _ = connection.send(.post, path: "/cluster/v1/release", body: ByteBuffer(), token: Token.release)
        }
        shell.update { $0.linked(to: hello, at: $1) }
        sendTraces()
    }

    private func released() {
        do throws(DecodeError) { try shell.links.releases.ends(at: address) } catch {
            shell.logger.warning(
                "the peer's answer about its release cannot be read", metadata: ["address": "\(address)", "reason": "\(error)"])
        }
        sendTraces()
    }

    /// Has requests carry their traces, if the peer reads them.
    private func sendTraces() {
        guard case .live(let id) = state, let expected, shell.links.releases.release(of: expected)?.takesTraces == true else { return }
        shell.update { node, _ in node.takesTraces(id) }
    }

    // MARK: Batches

    /// Whether no batch is in flight.
    var isIdle: Bool { inFlightCount == 0 }

    func transmit(to peer: PeerIndex) {
        guard case .live = state, let connection else { return }
        while let batch = shell.nextBatch(for: peer) {
            if inFlightCount == 0 { lastAnswerAt = .now() }
            inFlightCount += 1
            let path = "/cluster/v1/batch/\(batchesSent)"
            batchesSent += 1
            guard connection.send(.post, path: path, body: ByteBuffer(bytes: batch), token: Token.batch) != nil
            else { return connection.close() }
        }
    }
}
