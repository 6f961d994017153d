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
    /// Most receivers with open connections. One more closes those of the one that was resolved first.
    private static let receiversMax = 64
    /// Most bytes of an answer that are read. The node uses only its status.
    private static let answerBytesMax = 64 << 10

    /// A reason why a delivery failed before its request was sent.
    private struct Refused: Error, CustomStringConvertible { let description: String }

    /// The connections to one receiver.
    private struct Receiver {
        let client: HTTPClient
        let address: String
        var resolvedAt: ContinuousClock.Instant
    }

    private let rules: WebhookRules
    private let loop: any EventLoop
    private let logger: Logger
    /// The receivers by scheme, host and port.
    private var receivers: [String: Receiver] = [:]
    /// The apps whose last delivery failed.
    private var failing: Set<String> = []
    private var isStopped = false

    init(rules: WebhookRules, loop: any EventLoop, logger: Logger) {
        (self.rules, self.loop, self.logger) = (rules, loop, logger)
    }

    /// Sends a delivery. Returns whether the receiver has accepted it.
    func send(_ delivery: WebhookDelivery, at wall: Milliseconds) async -> Bool {
        do {
            let status = try await attempt(delivery, at: wall)
            guard (200..<300).contains(status) else { throw Refused(description: "the receiver answered \(status)") }
            if failing.remove(delivery.app) != nil {
                logger.notice("webhook: the receiver accepts deliveries again", metadata: ["app": "\(delivery.app)"])
            }
            return true
        } catch {
            if !isStopped, failing.insert(delivery.app).inserted {
                logger.warning(
                    "webhook: a delivery failed and will be repeated",
                    metadata: ["app": "\(delivery.app)", "url": "\(delivery.url)", "reason": "\(error)"])
            }
            return false
        }
    }

    private func attempt(_ delivery: WebhookDelivery, at wall: Milliseconds) async throws -> UInt {
        let client = try await client(for: delivery.url)
        var request = HTTPClientRequest(url: delivery.url)
        request.method = .POST
        request.headers = [
            "Content-Type": "application/json", "User-Agent": "Rollcall/\(Release.version)",
            "Rollcall-Signature": Self.signature(of: delivery, at: wall / 1_000),
        ]
        request.body = .bytes(ByteBuffer(bytes: delivery.body))
        let response = try await client.execute(request, timeout: Self.timeout)
        // The connection can be used again once the answer was read.
        for try await _ in response.body.prefix(Self.answerBytesMax) {}
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

    private func client(for text: String) async throws -> HTTPClient {
        guard let url = URL(string: text), let scheme = url.scheme, let host = url.host, !host.isEmpty else {
            throw Refused(description: "webhook.url is not a URL")
        }
        if let problem = rules.problem(of: text) { throw Refused(description: problem) }
        let port = url.port ?? (scheme == "https" ? 443 : 80)
        let key = "\(scheme)://\(host):\(port)"
        if let known = receivers[key], known.resolvedAt + Self.resolutionLifetime > .now { return known.client }
        let address = try await Self.resolve(host, port)
        guard !isStopped else { throw CancellationError() }
        if let problem = rules.problem(of: address, isPlain: scheme == "http") { throw Refused(description: problem) }
        let ip = address.ipAddress ?? ""
        if receivers[key]?.address == ip {
            receivers[key]?.resolvedAt = .now
        } else {
            let old = receivers.updateValue(Receiver(client: makeClient(host, at: ip), address: ip, resolvedAt: .now), forKey: key)
            if let old { Self.close(old.client, logger) }
            closeOldest()
        }
        guard let receiver = receivers[key] else { throw CancellationError() }
        return receiver.client
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
        guard let oldest = receivers.min(by: { $0.value.resolvedAt < $1.value.resolvedAt })?.key else { return }
        if let removed = receivers.removeValue(forKey: oldest) { Self.close(removed.client, logger) }
    }

    /// Ends the connections of a client after its requests in progress.
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
        let clients = receivers.values.map(\.client)
        receivers = [:]
        for client in clients {
            do { try await client.shutdown() } catch {
                logger.debug("webhook: connections did not close", metadata: ["reason": "\(error)"])
            }
        }
    }
}
