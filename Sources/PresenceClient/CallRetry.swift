/// Which failed calls are made again, and when.
///
/// - 50001 is documented as safe to retry: after full jitter, at another address.
/// - 50002 and 7008 changed nothing, because a rejected call changes nothing: after `retryAfter` and jitter. One that asks for more than
///   ``retryAfterMax`` is the caller's.
/// - A connection that broke leaves it open whether the call was carried out: made again where doing it twice is doing it once, which
///   is every call but `publishEvent`.
/// - Everything else is an answer.
struct CallRetry: Equatable {
    /// Attempts in all.
    var attemptsMax = 4
    /// The longest `retryAfter` that is waited out.
    var retryAfterMax = Duration.seconds(10)
    var backoff = Backoff(initial: .milliseconds(200), max: .seconds(5))

    /// How long to wait before the next attempt; nil if there is to be none.
    func delay(
        after error: PresenceError, attempt: Int, isRepeatable: Bool, using random: inout some RandomNumberGenerator
    ) -> Duration? {
        guard attempt + 1 < attemptsMax else { return nil }
        let jitter = backoff.delay(attempt: attempt, using: &random)
        switch error.code {
        case .ownerUnreachable: return jitter
        case .overloaded, .calledTooOften:
            let asked = error.retryAfter ?? .seconds(1)
            return asked <= retryAfterMax ? asked + jitter : nil
        case .unreachable: return isRepeatable ? jitter : nil
        default: return nil
        }
    }
}
