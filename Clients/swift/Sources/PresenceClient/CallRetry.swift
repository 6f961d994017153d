/// Decides which failed calls are retried, and when.
///
/// - After 50001 the client waits for a full jitter and asks another address. It does the same after a broken connection, though nobody
///   knows whether the node has carried out the call. A repetition has the key of the call, so that the node answers it as it has answered
///   the call (``RepeatedCalls``). Calls without a key have the same effect if carried out twice.
/// - 50002 and 7008 mean that the call changed nothing. The client waits for `retryAfter` and a jitter. If `retryAfter` is longer than
///   ``retryAfterMax``, the caller gets the error.
/// - Every other error is an answer.
///
/// A newer call of the same fact ends the retries of an older one: ``CallOrder``.
struct CallRetry: Equatable {
    /// The number of attempts, the first included.
    var attemptsMax = 4
    /// The longest `retryAfter` that the client waits for.
    var retryAfterMax = Duration.seconds(10)
    var backoff = Backoff(initial: .milliseconds(200), max: .seconds(5))

    /// The wait before the next attempt; nil if there is none.
    func delay(
        after error: PresenceError, attempt: Int, using random: inout some RandomNumberGenerator
    ) -> Duration? {
        guard attempt + 1 < attemptsMax else { return nil }
        let jitter = backoff.delay(attempt: attempt, using: &random)
        switch error.code {
        case .ownerUnreachable, .unreachable: return jitter
        case .overloaded, .calledTooOften:
            let asked = error.retryAfter ?? .seconds(1)
            return asked <= retryAfterMax ? asked + jitter : nil
        default: return nil
        }
    }
}
