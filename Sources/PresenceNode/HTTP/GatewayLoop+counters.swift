import HTTP2
import PresenceCore
import PresenceWire

extension GatewayLoop {
    /// The counts of one loop since its start, and its gauges; a copy for the metrics.
    struct Counters: Sendable {
        /// Operations that succeeded, by ``API/Operation/rawValue``.
        var successes = [UInt64](repeating: 0, count: API.Operation.allCases.count)
        /// Operations that were refused, by operation and code.
        var refusals: [API.Operation: [Int: UInt64]] = [:]
        /// Users and calls that the policy of the app refused.
        var rejections = PolicyRejections()
        var violations: [HTTPViolation: UInt64] = [:]
        /// Sessions that ended because their client was silent for too long.
        var silentSessions: UInt64 = 0
        var connections = 0
        var sessions = 0
        var listeners = 0
        var users = 0
        var verifiedTokensBytes = 0
        /// Bytes that the connections hold together.
        var heldBytes = 0
        var gateway = Gateway.Counters()
        /// From a change to the push of it.
        var pushSeconds = LatencyHistogram()
        /// From a login to the answer of the owner.
        var loginSeconds = LatencyHistogram()
        var operationSeconds = LatencyHistogram()
        /// By ``Admission/Kind/rawValue``.
        var admission: [Admission.Gauges] = []
        /// The longest delay of the loop within the last second or two.
        var delay = Duration.zero
    }
}
