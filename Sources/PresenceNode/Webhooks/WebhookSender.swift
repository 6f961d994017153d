import AsyncHTTPClient
import Crypto
import Foundation
import Logging
import NIOCore
import NIOPosix
import PresenceCore
import PresenceWire

/// Sends deliveries to the receivers of webhooks, each once. The core decides what is repeated.
///
/// The node resolves a receiver's name itself, checks the address, and connects to that address alone. So a name that changes between the
/// check and the connection cannot lead elsewhere. It follows no redirect.
actor WebhookSender {
    /// The time of one attempt, from the connection to the end of the answer.
    static let timeout = TimeAmount.seconds(10)
    /// The time that a resolved name is used.
    private static let resolutionLifetime = Duration.seconds(60)
    /// Most receivers with open connections. One more closes those of the one that was resolved first, unless requests are under way there.
    private static let receiversMax = 64
    /// Most bytes of an answer that are read. The node uses only its status.
    private static let answerBytesMax = 64 << 10

    /// A reason why a delivery failed.
    private struct Refused: Error, CustomStringConvertible { let description: String }

    /// The connections to one receiver. They stay open until the last request over them has ended.
    private final class Receiver {
        let client: HTTPClient
        let address: String
        var resolvedAt = ContinuousClock.Instant.now
        var requestsCount = 0

        init(_ client: HTTPClient, at address: String) { (self.client, self.address) = (client, address) }
    }

    private let rules: WebhookRules
    private let loop: any EventLoop
    private let logger: Logger
    /// The receivers by scheme, host and port.
    private var receivers: [String: Receiver] = [:]
    /// Receivers that others have replaced, while requests to them are under way.
    private var replaced: [Receiver] = []
    private var failures = WebhookFailures()
    private var isStopped = false

    init(rules: WebhookRules, loop: any EventLoop, logger: Logger) {
        (self.rules, self.loop, self.logger) = (rules, loop, logger)
    }

    /// Sends a delivery. Returns whether the receiver has accepted it.
    func send(_ delivery: WebhookDelivery, at wall: Milliseconds) async -> Bool {
        let attempt = Task { try await self.attempt(delivery, at: wall) }
        // The client's own timeout ends with the head of an answer.
        let deadline = loop.scheduleTask(in: Self.timeout) { attempt.cancel() }
        defer { deadline.cancel() }
        do {
            let status = try await attempt.value
            guard (200..<300).contains(status) else { throw Refused(description: "the receiver answered \(status)") }
            if failures.accepted(delivery.app) {
                logger.notice("webhook: the receiver accepts deliveries again", metadata: ["app": "\(delivery.app)"])
            }
            return true
        } catch {
            let cause = attempt.isCancelled ? "no complete answer within \(Self.timeout.nanoseconds / 1_000_000_000) s" : "\(error)"
            if !isStopped, failures.failed(delivery.app, delivery.url, cause: cause) {
                logger.warning(
                    "webhook: a delivery failed and will be repeated",
                    metadata: ["app": "\(delivery.app)", "url": "\(WebhookFailures.masked(delivery.url))", "reason": "\(cause)"])
            }
            return false
        }
    }

    private func attempt(_ delivery: WebhookDelivery, at wall: Milliseconds) async throws -> UInt {
        let receiver = try await receiver(for: delivery.url)
        defer { release(receiver) }
        var request = HTTPClientRequest(url: delivery.url)
        request.method = .POST
        request.headers = [
            "Content-Type": "application/json", "User-Agent": "Rollcall/\(Release.version)",
            "Rollcall-Signature": Self.signature(of: delivery, at: wall / 1_000),
        ]
        request.body = .bytes(ByteBuffer(bytes: delivery.body))
        let response = try await receiver.client.execute(request, timeout: Self.timeout)
        var bytesCount = 0
        // The connection can be used again once the answer was read. Leaving the loop before that closes it.
        for try await chunk in response.body {
            bytesCount += chunk.readableBytes
            if bytesCount > Self.answerBytesMax { break }
        }
        try Task.checkCancellation()
        return response.status.code
    }

    /// The value of `Rollcall-Signature`: the time, and an HMAC-SHA-256 (RFC 2104) over the time, a dot and the body.
    static func signature(of delivery: WebhookDelivery, at seconds: Int64) -> String {
        var text = Array("\(seconds).".utf8)
        text += delivery.body
        let code = HMAC<SHA256>.authenticationCode(for: text, using: SymmetricKey(data: Data(delivery.secret.utf8)))
        var digits: [UInt8] = []
        for byte in code { Hex.append(UInt64(byte), digits: 2, to: &digits) }
        return "t=\(seconds),v1=\(String(decoding: digits, as: UTF8.self))"
    }

    // MARK: Connections

    /// Returns the connections for a URL. The caller ends its use of them with ``release(_:)``.
    private func receiver(for text: String) async throws -> Receiver {
        guard let url = URL(string: text), let scheme = url.scheme, let host = url.host, !host.isEmpty else {
            throw Refused(description: "webhook.url is not a URL")
        }
        if let problem = rules.problem(of: text) { throw Refused(description: problem) }
        let port = url.port ?? (scheme == "https" ? 443 : 80)
        let key = "\(scheme)://\(host):\(port)"
        if let known = receivers[key], known.resolvedAt + Self.resolutionLifetime > .now { return used(known) }
        let address = try await Self.resolve(host, port)
        try Task.checkCancellation()
        guard !isStopped else { throw CancellationError() }
        if let problem = rules.problem(of: address, isPlain: scheme == "http") { throw Refused(description: problem) }
        let ip = address.ipAddress ?? ""
        if let known = receivers[key], known.address == ip {
            known.resolvedAt = .now
            return used(known)
        }
        let new = used(Receiver(makeClient(host, at: ip), at: ip))
        if let old = receivers.updateValue(new, forKey: key) { retire(old) }
        closeOldest()
        return new
    }

    private func used(_ receiver: Receiver) -> Receiver {
        receiver.requestsCount += 1
        return receiver
    }

    private func release(_ receiver: Receiver) {
        receiver.requestsCount -= 1
        guard receiver.requestsCount == 0, let index = replaced.firstIndex(where: { $0 === receiver }) else { return }
        replaced.remove(at: index)
        Self.close(receiver.client, logger)
    }

    /// Closes connections that are not used for new requests any more, after their last request.
    private func retire(_ receiver: Receiver) {
        if receiver.requestsCount > 0 { replaced.append(receiver) } else { Self.close(receiver.client, logger) }
    }

    private static func resolve(_ host: String, _ port: Int) async throws -> SocketAddress {
        if let address = try? SocketAddress(ipAddress: host, port: port) { return address }
        return try await NIOThreadPool.singleton.runIfActive { try SocketAddress.makeAddressResolvingHost(host, port: port) }
    }

    private func makeClient(_ host: String, at ip: String) -> HTTPClient {
        var configuration = HTTPClient.Configuration()
        configuration.redirectConfiguration = .disallow
        configuration.timeout.connect = .seconds(5)
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.dnsOverride = [host: ip]
        return HTTPClient(eventLoopGroupProvider: .shared(loop), configuration: configuration)
    }

    private func closeOldest() {
        guard receivers.count > Self.receiversMax else { return }
        let idle = receivers.filter { $0.value.requestsCount == 0 }
        guard let oldest = idle.min(by: { $0.value.resolvedAt < $1.value.resolvedAt })?.key else { return }
        if let removed = receivers.removeValue(forKey: oldest) { retire(removed) }
    }

    /// Ends the connections of a client, also those that are in use.
    private static func close(_ client: HTTPClient, _ logger: Logger) {
        Task {
            do { try await client.shutdown() } catch {
                logger.debug("webhook: connections did not close", metadata: ["reason": "\(error)"])
            }
        }
    }

    /// Ends all connections. Deliveries in progress fail; the next owner of their users repeats them.
    func stop() async {
        isStopped = true
        let clients = (Array(receivers.values) + replaced).map(\.client)
        (receivers, replaced) = ([:], [])
        for client in clients {
            do { try await client.shutdown() } catch {
                logger.debug("webhook: connections did not close", metadata: ["reason": "\(error)"])
            }
        }
    }
}
