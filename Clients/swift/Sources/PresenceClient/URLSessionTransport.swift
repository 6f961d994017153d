import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Requests over URLSession: HTTP/2 if TLS agrees on it, HTTP/1.1 otherwise.
///
/// Each client has its own connections. An event stream over HTTP/1.1 occupies a connection for as long as the session lives, which would
/// starve others in a shared pool.
final class URLSessionTransport: Transport {
    /// Connections that live as long as a request uses them.
    private final class Connections: Sendable {
        let session: URLSession
        let delegate: URLSessionExchanges

        init(trusting certificates: [Data]) {
            let configuration = URLSessionConfiguration.ephemeral
            configuration.urlCache = nil
            configuration.httpCookieStorage = nil
            configuration.urlCredentialStorage = nil
            configuration.httpMaximumConnectionsPerHost = 16
            delegate = URLSessionExchanges(trusting: certificates)
            session = URLSession(configuration: configuration, delegate: delegate, delegateQueue: nil)
        }

        /// Closes the connections when the last answer has been read. Until then the session holds its delegate.
        deinit { session.finishTasksAndInvalidate() }
    }

    /// The time without a piece after which URLSession ends an answer. The client watches its streams itself.
    private static let idleSecondsMax = 604_800.0

    private let certificates: [Data]
    private let connections: Locked<Connections>

    /// Throws if an address is not a URL with a scheme, or the certificates are invalid.
    init(_ settings: ClientConfiguration) throws {
        try settings.checkAddresses()
        certificates = try settings.trustedCertificatesPEM.map(Self.certificates) ?? []
        connections = Locked(Connections(trusting: certificates))
    }

    func send(_ request: TransportRequest, timeout: Duration, over pool: (any Pool)?) async throws -> TransportResponse {
        let connections = pool as? Connections ?? connections.withLock { $0 }
        let task = connections.session.dataTask(with: try Self.message(request))
        let exchange = URLSessionExchange(task)
        connections.delegate.add(exchange)
        let head = try await exchange.head(within: timeout)
        return TransportResponse(
            status: head.statusCode, retryAfter: head.value(forHTTPHeaderField: "retry-after").flatMap { Int($0) },
            requestID: head.value(forHTTPHeaderField: "request-id"), isMultiplexed: false, pool: connections,
            // The connections are kept until the body has been read.
            body: exchange.body.map { piece in withExtendedLifetime(connections) { piece } })
    }

    func renewConnections() {
        let fresh = Connections(trusting: certificates)
        let old = connections.withLock { connections in
            defer { connections = fresh }
            return connections
        }
        withExtendedLifetime(old) {}
    }

    private static func message(_ request: TransportRequest) throws -> URLRequest {
        guard let url = URL(string: request.url) else { throw URLError(.badURL) }
        var message = URLRequest(url: url, cachePolicy: .reloadIgnoringLocalCacheData, timeoutInterval: idleSecondsMax)
        message.setValue("Bearer \(request.token)", forHTTPHeaderField: "authorization")
        if let body = request.body {
            message.httpMethod = "POST"
            message.httpBody = Data(body)
            message.setValue("application/json", forHTTPHeaderField: "content-type")
        } else {
            message.setValue("text/event-stream", forHTTPHeaderField: "accept")
            message.setValue("no-store", forHTTPHeaderField: "cache-control")
        }
        if let key = request.idempotencyKey { message.setValue(key, forHTTPHeaderField: "idempotency-key") }
        if let id = request.lastEventID { message.setValue(id, forHTTPHeaderField: "last-event-id") }
        return message
    }

    /// The certificates of a PEM text, in DER.
    private static func certificates(in pem: String) throws(PresenceError) -> [Data] {
        #if canImport(Security)
            let blocks = pem.components(separatedBy: "-----BEGIN CERTIFICATE-----").dropFirst()
            let found = blocks.compactMap { block in
                Data(
                    base64Encoded: block.components(separatedBy: "-----END CERTIFICATE-----")[0], options: .ignoreUnknownCharacters)
            }.filter { SecCertificateCreateWithData(nil, $0 as CFData) != nil }
            guard !found.isEmpty, found.count == blocks.count else {
                throw refusal("\(blocks.count - found.count) of \(blocks.count) certificates are not valid PEM")
            }
            return found
        #else
            throw refusal(
                """
                Foundation trusts the system's certificates only. Add the certificate to them (Debian: update-ca-certificates), or enable \
                the package trait AsyncHTTPClient
                """)
        #endif
    }

    private static func refusal(_ detail: String) -> PresenceError {
        PresenceError(code: .badParameter, title: "bad parameter", detail: "trustedCertificatesPEM: \(detail)")
    }
}

/// The requests of a URLSession, to which it hands what arrives.
private final class URLSessionExchanges: NSObject, URLSessionDataDelegate, Sendable {
    private let certificates: [Data]
    private let running = Locked<[Int: URLSessionExchange]>([:])

    /// - Parameter certificates: in DER; none for those of the system.
    init(trusting certificates: [Data]) { self.certificates = certificates }

    func add(_ exchange: URLSessionExchange) { running.withLock { $0[exchange.task.taskIdentifier] = exchange } }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        running.withLock { $0[dataTask.taskIdentifier] }?.receive(data)
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        running.withLock { $0.removeValue(forKey: task.taskIdentifier) }?.end(error)
    }

    /// A redirection is an answer like any other: the next address would receive the token.
    func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse, newRequest request: URLRequest,
        completionHandler: @escaping @Sendable (URLRequest?) -> Void
    ) {
        completionHandler(nil)
    }

    #if canImport(FoundationNetworking)
        /// A 401 is an answer like any other. Its body has arrived, and Foundation on Linux would wait for credentials for ever.
        func urlSession(
            _ session: URLSession, task: URLSessionTask, didReceive challenge: URLAuthenticationChallenge,
            completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
        ) {
            running.withLock { $0.removeValue(forKey: task.taskIdentifier) }?.end(nil)
            completionHandler(.cancelAuthenticationChallenge, nil)
        }
    #endif

    #if canImport(Security)
        func urlSession(
            _ session: URLSession, didReceive challenge: URLAuthenticationChallenge,
            completionHandler: @escaping @Sendable (URLSession.AuthChallengeDisposition, URLCredential?) -> Void
        ) {
            guard !certificates.isEmpty, let trust = challenge.protectionSpace.serverTrust else {
                return completionHandler(.performDefaultHandling, nil)
            }
            let anchors = certificates.compactMap { SecCertificateCreateWithData(nil, $0 as CFData) }
            SecTrustSetAnchorCertificates(trust, anchors as CFArray)
            SecTrustSetAnchorCertificatesOnly(trust, true)
            guard SecTrustEvaluateWithError(trust, nil) else { return completionHandler(.cancelAuthenticationChallenge, nil) }
            completionHandler(.useCredential, URLCredential(trust: trust))
        }
    #endif
}

/// One request of a URLSession: its head, and its body as it arrives.
private final class URLSessionExchange: Sendable {
    private enum Head {
        case none
        case awaited(CheckedContinuation<HTTPURLResponse, any Error>)
        case over
    }

    /// The pieces that wait for a slow reader. URLSession has no back pressure: beyond them the answer ends.
    private static let piecesMax = 4_096

    let task: URLSessionDataTask
    let body: AsyncThrowingStream<[UInt8], any Error>
    private let pieces: AsyncThrowingStream<[UInt8], any Error>.Continuation
    private let waiting = Locked(Head.none)

    init(_ task: URLSessionDataTask) {
        self.task = task
        (body, pieces) = AsyncThrowingStream.makeStream(bufferingPolicy: .bufferingOldest(Self.piecesMax))
        pieces.onTermination = { reason in if case .cancelled = reason { task.cancel() } }
    }

    /// Sends the request. Returns when the first piece of the answer's body has arrived, or its end.
    func head(within limit: Duration) async throws -> HTTPURLResponse {
        let timer = Task {
            do { try await Task.sleep(for: limit) } catch { return }
            self.fail(Silence(limit: limit))
        }
        defer { timer.cancel() }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isOver = waiting.withLock { head in
                    if case .over = head { return true }
                    head = .awaited(continuation)
                    return false
                }
                if isOver { return continuation.resume(throwing: CancellationError()) }
                task.resume()
            }
        } onCancel: {
            self.fail(CancellationError())
        }
    }

    func receive(_ data: Data) {
        answer(.success(task.response))
        guard case .dropped = pieces.yield(Array(data)) else { return }
        pieces.finish(throwing: PresenceError.badAnswer("its reader is \(Self.piecesMax) pieces behind"))
        task.cancel()
    }

    /// The answer is complete, or the connection has failed.
    func end(_ error: (any Error)?) {
        answer(error.map { .failure($0) } ?? .success(task.response))
        pieces.finish(throwing: error)
    }

    private func fail(_ error: any Error) {
        answer(.failure(error))
        task.cancel()
    }

    /// Answers the wait for the head, once.
    private func answer(_ result: Result<URLResponse?, any Error>) {
        let head = waiting.withLock { head in
            defer { head = .over }
            return head
        }
        guard case .awaited(let continuation) = head else { return }
        continuation.resume(
            with: result.flatMap { response in
                (response as? HTTPURLResponse).map { .success($0) } ?? .failure(URLError(.badServerResponse))
            })
    }
}
