import HTTP2
import PresenceCore
import PresenceWire

extension GatewayLoop {
    /// What this loop counts; copied for the metrics.
    struct Counters: Sendable {
        /// Operations carried out, by ``API/Operation/rawValue``.
        var successes = [UInt64](repeating: 0, count: API.Operation.allCases.count)
        /// Operations refused, by operation and code.
        var refusals: [API.Operation: [Int: UInt64]] = [:]
        var rejections = PolicyRejections()
        var violations: [HTTPViolation: UInt64] = [:]
        var silentSessions: UInt64 = 0
        var connections = 0
        var sessions = 0
        var users = 0
        var gateway = Gateway.Counters()
        var pushSeconds = LatencyHistogram()
        var loginSeconds = LatencyHistogram()
        var operationSeconds = LatencyHistogram()
        /// By ``Admission/Kind/rawValue``.
        var admission: [Admission.Gauges] = []
        var delay = Duration.zero
    }
}
