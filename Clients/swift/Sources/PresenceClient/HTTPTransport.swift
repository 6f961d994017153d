#if AsyncHTTPClient && !canImport(Darwin)
    import AsyncHTTPClient
    import NIOSSL

    /// Requests over AsyncHTTPClient: HTTP/2 if TLS agrees on it, HTTP/1.1 otherwise.
    ///
    /// The package trait `AsyncHTTPClient` chooses it on Linux.
    ///
    /// Each client has its own connections. An event stream over HTTP/1.1 occupies a connection for as long as the session lives, which
    /// would starve others in a shared pool.
    final class HTTPTransport: Transport {
        /// Connections that live as long as a request uses them.
        private final class Connections: Sendable {
            let client: HTTPClient

            init(_ configuration: HTTPClient.Configuration) {
                client = HTTPClient(eventLoopGroup: HTTPClient.defaultEventLoopGroup, configuration: configuration)
            }

            deinit {
                Task { [client] in
                    do { try await client.shutdown() } catch { return }  // It is shut down already.
                }
            }
        }

        private let configuration: HTTPClient.Configuration
        private let connections: Locked<Connections>

        /// Throws if an address is not a URL with a scheme, or the certificates are invalid.
        init(_ settings: ClientConfiguration) throws {
            try settings.checkAddresses()
            var tls = TLSConfiguration.makeClientConfiguration()
            if let pem = settings.trustedCertificatesPEM {
                tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(pem.utf8)))
            }
            var configuration = HTTPClient.Configuration(tlsConfiguration: tls)
            configuration.redirectConfiguration = .disallow
            configuration.timeout.connect = .nanoseconds(settings.connectTimeout.wholeNanoseconds)
            configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 16
            // The caller asks the next address after a refusal, at its own times.
            configuration.connectionPool.retryConnectionEstablishment = false
            self.configuration = configuration
            connections = Locked(Connections(configuration))
        }

        func send(_ request: TransportRequest, timeout: Duration, over pool: (any Pool)?) async throws -> TransportResponse {
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
            if let key = request.idempotencyKey { message.headers.add(name: "idempotency-key", value: key) }
            if let id = request.lastEventID { message.headers.add(name: "last-event-id", value: id) }
            let connections = pool as? Connections ?? connections.withLock { $0 }
            let response: HTTPClientResponse
            do {
                response = try await connections.client.execute(message, timeout: .nanoseconds(timeout.wholeNanoseconds))
            } catch let error as HTTPClientError where error == .deadlineExceeded {
                throw Silence(limit: timeout)
            }
            return TransportResponse(
                status: Int(response.status.code), retryAfter: response.headers.first(name: "retry-after").flatMap { Int($0) },
                requestID: response.headers.first(name: "request-id"), isMultiplexed: response.version.major >= 2, pool: connections,
                body: response.body.map { chunk in
                    // The connections are kept until the body has been read.
                    withExtendedLifetime(connections) { Array(chunk.readableBytesView) }
                })
        }

        func renewConnections() {
            let fresh = Connections(configuration)
            connections.withLock { $0 = fresh }
        }
    }
#endif
