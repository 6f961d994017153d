import HTTP2
import NIOConcurrencyHelpers
import NIOCore
import PresenceCore
import PresenceWire

/// Limits the rate at which one user, and one address, may open event streams at this node.
///
/// A login costs about fifty calls, because the owner, the replicas and all watchers receive it.
///
/// Each may open its limit at once, and as many again within ``window``, evenly (GCRA, ITU-T I.371). For each there is one time, up to
/// which its logins are paid for. Refused logins do not count here, but they count as resets of their connection. The node's loops share
/// one instance.
final class LoginRates: Sendable {
    /// The time in which as many logins as are allowed become allowed again.
    static let window = Duration.seconds(10)
    private static let windowNanoseconds: Int64 = 10_000_000_000
    /// Most users or addresses with a count. One more clears the table.
    ///
    /// An entry lasts until its logins are paid for: a tenth of a second for one login of a hundred that are allowed.
    static let countedMax = 200_000

    /// The limit that a login exceeds.
    enum Reason: String, CaseIterable { case loginsPerUser, loginsPerAddress }

    /// The refusal of a login. It is a class, because each verified token has room for one.
    final class Refusal {
        let reason: Reason
        /// The time of the next allowed login, if there is none before.
        let until: Instant
        let problem: Problem
        let response: HTTPResponse

        init(_ reason: Reason, loginsMax: Int, wait: Int64, at now: Instant) {
            self.reason = reason
            until = now + .nanoseconds(wait)
            let seconds = Int((wait + 999_999_999) / 1_000_000_000)
            let who = reason == .loginsPerUser ? "this user" : "this address"
            let window = LoginRates.window.components.seconds
            problem = Problem(
                status: 429, code: 7008,
                detail: "\(who) may log in \(loginsMax) times in \(window) s at a node; retry after \(seconds) s", retryAfter: seconds)
            response = HTTPResponse(problem)
        }
    }

    private struct Limit<Key: Hashable & Sendable>: Sendable {
        let loginsMax: Int
        private let spacing: Int64
        private var paidUntil: [Key: Int64] = [:]
        private var sweepAt = 1_024

        init(_ loginsMax: Int) {
            self.loginsMax = loginsMax
            spacing = loginsMax > 0 ? LoginRates.windowNanoseconds / Int64(loginsMax) : 0
        }

        /// Counts a login, unless it is too much: then it returns the nanoseconds until the next one is allowed.
        mutating func pay(_ key: Key, at now: Int64) -> Int64? {
            guard loginsMax > 0 else { return nil }
            if paidUntil.count >= sweepAt { sweep(at: now) }
            return Self.pay(&paidUntil[key, default: now], spacing, at: now)
        }

        private static func pay(_ paid: inout Int64, _ spacing: Int64, at now: Int64) -> Int64? {
            let next = max(paid, now) + spacing
            guard next <= now + LoginRates.windowNanoseconds else { return next - now - LoginRates.windowNanoseconds }
            paid = next
            return nil
        }

        /// Takes back a counted login that does not happen.
        mutating func payBack(_ key: Key) { paidUntil[key]? -= spacing }

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

    /// - Parameters: the logins allowed within ``window``; 0 for no limit.
    init(perUserMax: Int, perAddressMax: Int) {
        state = NIOLockedValueBox(State(users: Limit(perUserMax), addresses: Limit(perAddressMax)))
    }

    /// The number of refused logins by reason.
    var refusedCounts: [Reason: UInt64] { state.withLockedValue { $0.refused } }

    /// Counts a login that is refused for a reason given before.
    func count(_ reason: Reason) { state.withLockedValue { $0.refused[reason, default: 0] += 1 } }

    /// Counts a login, or returns the refusal if it exceeds a limit.
    func refusal(of user: UserID, from address: ConnectionLimits.Address, at now: Instant) -> Refusal? {
        let wait = state.withLockedValue { state -> (reason: Reason, loginsMax: Int, nanoseconds: Int64)? in
            if let wait = state.users.pay(user, at: now.nanoseconds) {
                state.refused[.loginsPerUser, default: 0] += 1
                return (.loginsPerUser, state.users.loginsMax, wait)
            }
            guard let wait = state.addresses.pay(address, at: now.nanoseconds) else { return nil }
            state.users.payBack(user)
            state.refused[.loginsPerAddress, default: 0] += 1
            return (.loginsPerAddress, state.addresses.loginsMax, wait)
        }
        return wait.map { Refusal($0.reason, loginsMax: $0.loginsMax, wait: $0.nanoseconds, at: now) }
    }
}
