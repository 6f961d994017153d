import Logging
import NIOConcurrencyHelpers
import PresenceCore

/// The faults of this machine as operators see them: a log line when one begins and when it ends, and the reason for `/readyz`.
///
/// The core's loop reports the faults. Any thread may read the reason.
final class MachineFaults: Sendable {
    private struct State {
        var isStoreSound = true
        var isClockWrong = false
        var clockProblem: String?
    }

    private let state = NIOLockedValueBox(State())
    private let logger: Logger

    init(logger: Logger) { self.logger = logger }

    /// Whether the last write has succeeded.
    var isStoreSound: Bool { state.withLockedValue { $0.isStoreSound } }

    /// The reason not to send users to this node, because its clock is wrong; nil for a right clock, and while no other node could serve
    /// them.
    var clockProblem: String? { state.withLockedValue { $0.clockProblem } }

    /// Notes the result of a write. It logs the first failure and its end: a line for every failure would fill a disk that is full.
    func note(_ result: Result<Void, StoreError>, isDurable: Bool) {
        let isChanged = state.withLockedValue { state in
            defer { state.isStoreSound = isDurable }
            return isDurable != state.isStoreSound
        }
        guard isChanged else { return }
        if case .failure(let error) = result {
            logger.error("store: \(error); durable changes are refused with 50001 until a write succeeds or another node takes the slots")
        } else {
            logger.notice("store: writes succeed again, and all rows of failed writes are on disk")
        }
    }

    /// Notes the condition of the clock. It logs when the clock becomes wrong and when it is right again.
    ///
    /// - Parameter othersStay: whether another node could serve this node's users.
    func note(_ condition: NodeStatistics.Condition, othersStay: Bool) {
        let wasWrong = state.withLockedValue { $0.isClockWrong }
        guard condition.isClockWrong || wasWrong else { return }
        let problem = "clock is wrong by \(Double(condition.clockError) / 1_000) s; synchronize it (NTP)"
        state.withLockedValue { state in
            state.isClockWrong = condition.isClockWrong
            state.clockProblem = condition.isClockWrong && othersStay ? problem : nil
        }
        guard condition.isClockWrong != wasWrong else { return }
        if condition.isClockWrong {
            logger.error("\(problem); this node keeps its time, and gives its slots to the other nodes until the clocks agree")
        } else {
            logger.notice("clock is right again; this node takes slots")
        }
    }
}
