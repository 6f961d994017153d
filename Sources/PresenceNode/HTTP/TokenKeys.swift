import Logging
import NIOConcurrencyHelpers
import NIOCore
import PresenceCore

/// The keys of a node's apps. They are read at the start and by ``reload()``, and key sets are fetched again from time to time.
final class TokenKeys: Sendable {
    let authenticator: Authenticator
    private let keySets: KeySetFetcher
    private let configuration: NodeConfiguration
    private let logger: Logger
    /// The last reload. The next one begins when it has ended, so that the newest text of the files counts.
    private let reloading = NIOLockedValueBox<Task<Result<Void, ConfigurationError>, Never>?>(nil)

    /// Throws for a key that is invalid.
    ///
    /// - Parameter loop: the event loop of the connections over which key sets are fetched.
    init(_ configuration: NodeConfiguration, on loop: any EventLoop, logger: Logger) async throws(ConfigurationError) {
        (self.configuration, self.logger) = (configuration, logger)
        keySets = KeySetFetcher(on: loop, logger: logger)
        authenticator = try await Authenticator(
            apps: configuration.appKeys, isDevelopment: configuration.isDevelopment, keySets: keySets)
    }

    /// Reads the settings again and uses their keys, then fetches the key sets. Logs the result.
    ///
    /// Throws for invalid settings; the previous keys then stay in use. When the call returns, no token is accepted any more that only a
    /// removed key has signed. Open streams stay.
    func reload() async throws(ConfigurationError) {
        let task = reloading.withLockedValue { last in
            let task = Task { [previous = last] in
                _ = await previous?.value
                return await self.readAgain()
            }
            last = task
            return task
        }
        try await task.value.get()
    }

    private func readAgain() async -> Result<Void, ConfigurationError> {
        do throws(ConfigurationError) {
            let apps = try await configuration.appKeysNow()
            try await authenticator.replace(apps)
            logger.notice(
                "keys reloaded", metadata: ["apps": "\(apps.count)", "keys": "\(apps.values.reduce(0) { $0 + $1.keys.count })"])
            return .success(())
        } catch {
            logger.error("keys not reloaded; the previous keys stay in use", metadata: ["problem": "\(error)"])
            return .failure(error)
        }
    }

    /// Fetches the key sets from time to time, until `isOver` on the loop.
    func refresh(on loop: any EventLoop, until isOver: @escaping () -> Bool) {
        nonisolated(unsafe) let isOver = isOver
        let interval = TimeAmount(KeySetFetcher.retryInterval)
        loop.scheduleRepeatedTask(initialDelay: interval, delay: interval) { [authenticator] task in
            if isOver() { return task.cancel() }
            Task { await authenticator.fetchKeySets(onlyDue: true) }
        }
    }

    /// Ends the attempts to fetch key sets.
    func stop() async { await keySets.stop() }
}
