import NIOPosix
import Synchronization

/// Wakes the tests that wait for a condition, each time something has changed.
package final class ChangeSignal: Sendable {
    private struct State {
        var changesCount = 0
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    package init() {}

    /// Records a change, after it has been made.
    package func notify() {
        let waiting = state.withLock { state in
            state.changesCount += 1
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Waits for a condition on what this signal announces. Throws after thirty seconds, and when the test is cancelled.
    package func until(_ claim: @autoclosure () -> String, _ condition: () throws -> Bool) async throws {
        let deadline = ContinuousClock.now + .seconds(30)
        let alarm = MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: .seconds(30)) { self.notify() }
        defer { alarm.cancel() }
        while true {
            let count = state.withLock { $0.changesCount }
            if try condition() { return }
            try Task.checkCancellation()
            if ContinuousClock.now >= deadline { throw TestFailure("never: \(claim())") }
            await change(after: count)
        }
    }

    /// Waits for the change after the first `count` ones.
    private func change(after count: Int) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isPast = state.withLock { state in
                    if state.changesCount == count { state.waiting.append(continuation) }
                    return state.changesCount != count
                }
                if isPast { continuation.resume() }
            }
        } onCancel: {
            notify()
        }
    }
}
