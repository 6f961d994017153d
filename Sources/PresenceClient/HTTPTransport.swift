import AsyncHTTPClient
import NIOSSL
import Synchronization

/// Requests over AsyncHTTPClient: HTTP/2 where TLS agrees on it, HTTP/1.1 otherwise.
///
/// Each client has connections of its own: an event stream over HTTP/1.1 occupies one for as long as the session lives, which would starve
/// others in a pool that is shared.
final class HTTPTransport: Transport {
    private let configuration: HTTPClient.Configuration
    private let client: Mutex<HTTPClient>

    /// Throws when the certificates are none.
    init(_ settings: ClientConfiguration) throws {
        var tls = TLSConfiguration.makeClientConfiguration()
        if let pem = settings.trustedCertificatesPEM {
            tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(pem.utf8)))
        }
        var configuration = HTTPClient.Configuration(tlsConfiguration: tls)
        configuration.redirectConfiguration = .disallow
        configuration.timeout.connect = .nanoseconds(settings.connectTimeout.wholeNanoseconds)
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 16
        // Who is refused asks the next address, at times of its own.
        configuration.connectionPool.retryConnectionEstablishment = false
        self.configuration = configuration
        client = Mutex(HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration))
    }

    deinit { Self.shutDown(client.withLock { $0 }) }

    func send(_ request: TransportRequest, timeout: Duration) async throws -> TransportResponse {
        var message = HTTPClientRequest(url: request.url)
        message.headers.add(name: "authorization", value: "Bearer \(request.token)")
        if let body = request.body {
            message.method = .POST
            message.headers.add(name: "content-type", value: "application/json")
            message.body = .bytes(body)
        } else {
            message.headers.add(name: "accept", value: "text/event-stream")
            message.headers.add(name: "cache-control", value: "no-store")
        }
        if let id = request.lastEventID { message.headers.add(name: "last-event-id", value: id) }
        let client = client.withLock { $0 }
        let response = try await client.execute(message, timeout: .nanoseconds(timeout.wholeNanoseconds))
        return TransportResponse(
            status: Int(response.status.code), retryAfter: response.headers.first(name: "retry-after").flatMap { Int($0) },
            isMultiplexed: response.version.major >= 2, body: response.body.map { Array($0.readableBytesView) })
    }

    func renewConnections() {
        let fresh = HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
        let stale = client.withLock { client in
            defer { client = fresh }
            return client
        }
        Self.shutDown(stale)
    }

    private static func shutDown(_ client: HTTPClient) {
        Task {
            do { try await client.shutdown() } catch { return }  // It is shut down already.
        }
    }
}
