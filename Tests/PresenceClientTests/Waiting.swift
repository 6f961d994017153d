import NIOCore
import NIOPosix
import NodeFixture

/// Waits for a condition that nothing announces. Throws after thirty seconds, and when the test is cancelled.
func until(_ claim: String, _ condition: () async throws -> Bool) async throws {
    let deadline = ContinuousClock.now + .seconds(30)
    while !(try await condition()) {
        try Task.checkCancellation()
        if ContinuousClock.now > deadline { throw TestFailure("never: \(claim)") }
        try await pauseBetweenChecks()
    }
}

/// Waits for a timer of an event loop, so that the next check of a condition leaves the processor to others meanwhile.
func pauseBetweenChecks() async throws {
    try await MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: .milliseconds(5)) {}.futureResult.get()
}
