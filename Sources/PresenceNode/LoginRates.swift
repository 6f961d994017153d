import HTTP2
import NIOConcurrencyHelpers
import PresenceCore
import PresenceWire

/// How often one user, and one address, may open event streams at this node: a login costs some fifty calls, because the owner, the replicas
/// and everybody who watches the user are told.
///
/// Each has so many at once, and as many again within ``window``, evenly (GCRA, ITU-T I.371): for each there is one time, up to which its
/// logins are paid for. Refused logins cost nothing there, but count as resets of their connection. Shared by the node's loops.
final class LoginRates: Sendable {
    /// The time in which as many logins as are allowed become allowed again.
    static let window = Duration.seconds(10)
    /// Users or addresses that are counted at a time; with one more all are forgotten. One is counted for as long as it takes to pay for its logins:
    /// a tenth of a second for one login of a hundred that are allowed.
    static let countedMax = 200_000

    /// The limit that a login exceeds.
    enum Reason: String, CaseIterable { case loginsPerUser, loginsPerAddress }

    private struct Limit<Key: Hashable & Sendable>: Sendable {
        let loginsMax: Int
        private var paidUntil: [Key: Int64] = [:]
        private var sweepAt = 1_024

        init(_ loginsMax: Int) { self.loginsMax = loginsMax }

        private var spacing: Int64 { LoginRates.window.wholeNanoseconds / Int64(loginsMax) }

        /// Nanoseconds until the next login is allowed; 0 or less if it is now.
        func wait(_ key: Key, at now: Int64) -> Int64 {
            guard loginsMax > 0, let paid = paidUntil[key], paid > now else { return 0 }
            return paid + spacing - now - LoginRates.window.wholeNanoseconds
        }

        mutating func count(_ key: Key, at now: Int64) {
            guard loginsMax > 0 else { return }
            if paidUntil.count >= sweepAt { sweep(at: now) }
            paidUntil[key] = max(paidUntil[key] ?? now, now) + spacing
        }

        private mutating func sweep(at now: Int64) {
            paidUntil = paidUntil.filter { $0.value > now }
            if paidUntil.count >= LoginRates.countedMax { paidUntil = [:] }
            sweepAt = max(2 * paidUntil.count, 1_024)
        }
    }

    private struct State {
        var users: Limit<UserID>
        var addresses: Limit<ConnectionLimits.Address>
        var refused: [Reason: UInt64] = [:]
    }

    private let state: NIOLockedValueBox<State>

    /// - Parameters: logins within ``window``; 0 for no limit.
    init(perUserMax: Int, perAddressMax: Int) {
        state = NIOLockedValueBox(State(users: Limit(perUserMax), addresses: Limit(perAddressMax)))
    }

    /// Logins refused so far.
    var refusedCounts: [Reason: UInt64] { state.withLockedValue { $0.refused } }

    /// Counts a login, or says why it is too much.
    func refusal(of user: UserID, from address: ConnectionLimits.Address, at now: Instant) -> Problem? {
        let refusal = state.withLockedValue { state -> (reason: Reason, loginsMax: Int, wait: Int64)? in
            let waits = (state.users.wait(user, at: now.nanoseconds), state.addresses.wait(address, at: now.nanoseconds))
            if waits.0 <= 0, waits.1 <= 0 {
                state.users.count(user, at: now.nanoseconds)
                state.addresses.count(address, at: now.nanoseconds)
                return nil
            }
            let reason = waits.0 > 0 ? Reason.loginsPerUser : .loginsPerAddress
            state.refused[reason, default: 0] += 1
            return (reason, waits.0 > 0 ? state.users.loginsMax : state.addresses.loginsMax, max(waits.0, waits.1))
        }
        guard let refusal else { return nil }
        let seconds = Int((refusal.wait + 999_999_999) / 1_000_000_000)
        let who = refusal.reason == .loginsPerUser ? "this user" : "this address"
        return Problem(
            status: 429, code: 7008,
            detail:
                "\(who) may log in \(refusal.loginsMax) times in \(Self.window.components.seconds) s at a node; retry after \(seconds) s",
            retryAfter: seconds)
    }
}
