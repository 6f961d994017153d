import AsyncHTTPClient
import Foundation
import Logging
import NIOCore

/// Fetches the JSON Web Key Sets of apps (`jwksUrl`).
///
/// A set is asked for at most once at a time, and tokens with unknown keys have it asked for at most once in ``pause``: their number does
/// not matter to the server of the set. A set that cannot be fetched changes nothing.
actor KeySetFetcher {
    /// The time of one attempt, from the connection to the end of the answer.
    static let timeout = TimeAmount.seconds(5)
    /// Shortest time between two attempts because of tokens with unknown keys.
    static let pause = Duration.seconds(10)
    /// The time after which a set is fetched again.
    static let interval = Duration.seconds(300)
    /// The time after which a set that could not be fetched is asked for again.
    static let retryInterval = Duration.seconds(30)

    /// The error of a fetcher that fetches nothing.
    static let notFetched = KeySet.Failure(description: "is not fetched")

    private struct Source {
        var running: Task<Bool, Never>?
        var askedAt: ContinuousClock.Instant?
        var isFailing = false
    }

    private let load: @Sendable (String) async throws -> [UInt8]
    private let now: @Sendable () -> ContinuousClock.Instant
    private let logger: Logger?
    private var sources: [String: Source] = [:]
    private var isStopped = false

    /// - Parameters:
    ///   - now: the time by which the pauses are kept.
    ///   - load: returns the body that a URL has.
    init(
        logger: Logger? = nil, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
        load: @escaping @Sendable (String) async throws -> [UInt8]
    ) {
        (self.logger, self.now, self.load) = (logger, now, load)
    }

    /// A fetcher over the network. It follows no redirect, and reads at most ``KeySet/bytesMax``.
    init(on loop: any EventLoop, logger: Logger?) {
        self.init(logger: logger) { try await Self.load($0, on: loop) }
    }

    /// Fetches a set, and has its bytes installed. Returns whether the last attempt has failed.
    ///
    /// - Parameter pause: nothing is fetched if the last attempt began within this time. Zero fetches in any case.
    func refresh(
        _ url: String, notWithin pause: Duration, _ install: @escaping @Sendable ([UInt8]) async throws -> Void
    ) async -> Bool {
        while let running = sources[url]?.running {
            let isFailing = await running.value
            // The running attempt may have read the set before its last change.
            if pause > .zero { return isFailing }
        }
        let now = now()
        if isStopped { return true }
        if let source = sources[url], let askedAt = source.askedAt, now - askedAt < pause { return source.isFailing }
        let attempt = Task { await self.attempt(url, install) }
        var source = sources[url] ?? Source()
        (source.running, source.askedAt) = (attempt, now)
        sources[url] = source
        return await attempt.value
    }

    /// The pause before the next regular attempt: shorter while a set cannot be fetched.
    func regularPause(of url: String) -> Duration { sources[url]?.isFailing == true ? Self.retryInterval : Self.interval }

    /// Ends the attempts in progress, and makes no others.
    func stop() async {
        isStopped = true
        for attempt in sources.values.compactMap(\.running) {
            attempt.cancel()
            _ = await attempt.value
        }
    }

    private func attempt(_ url: String, _ install: @Sendable ([UInt8]) async throws -> Void) async -> Bool {
        var problem: String?
        do { try await install(try await load(url)) } catch { problem = "\(error)" }
        let wasFailing = sources[url]?.isFailing ?? false
        sources[url]?.running = nil
        sources[url]?.isFailing = problem != nil
        let metadata: Logger.Metadata = ["url": "\(WebhookFailures.masked(url))"]
        if isStopped { return problem != nil }
        if let problem, !wasFailing {
            logger?.warning(
                "the key set of an app cannot be fetched; its last keys stay in use",
                metadata: metadata.merging(["problem": "\(problem)"]) { $1 })
        } else if problem == nil, wasFailing {
            logger?.notice("the key set of an app can be fetched again", metadata: metadata)
        }
        return problem != nil
    }

    private static func load(_ url: String, on loop: any EventLoop) async throws -> [UInt8] {
        var configuration = HTTPClient.Configuration()
        configuration.redirectConfiguration = .disallow
        configuration.timeout.connect = timeout
        let client = HTTPClient(eventLoopGroupProvider: .shared(loop), configuration: configuration)
        let attempt = Task {
            var request = HTTPClientRequest(url: url)
            request.headers = ["Accept": "application/jwk-set+json, application/json", "User-Agent": "Rollcall/\(Release.version)"]
            let response = try await client.execute(request, timeout: timeout)
            guard response.status == .ok else { throw KeySet.Failure(description: "the server answered \(response.status.code)") }
            do { return Array(buffer: try await response.body.collect(upTo: KeySet.bytesMax)) } catch is NIOTooManyBytesError {
                throw KeySet.Failure(description: "has more than \(KeySet.bytesMax) bytes")
            }
        }
        // The client's own timeout ends with the head of an answer.
        let deadline = loop.scheduleTask(in: timeout) { attempt.cancel() }
        let result = await withTaskCancellationHandler {
            await attempt.result
        } onCancel: {
            attempt.cancel()
        }
        deadline.cancel()
        do { try await client.shutdown() } catch { throw KeySet.Failure(description: "the connection did not close: \(error)") }
        if attempt.isCancelled, case .failure = result {
            throw KeySet.Failure(description: "no complete answer within \(timeout.nanoseconds / 1_000_000_000) s")
        }
        return try result.get()
    }
}
