import NIOCore

extension EventLoop {
    /// Succeeds once `condition` holds, or at `deadline`. Checks every 5 ms. Call it on the loop on which `condition` may be read.
    func when(_ condition: @escaping () -> Bool, until deadline: NIODeadline) -> EventLoopFuture<Void> {
        let promise = makePromise(of: Void.self)
        look(promise, condition, deadline)
        return promise.futureResult
    }

    private func look(_ promise: EventLoopPromise<Void>, _ condition: @escaping () -> Bool, _ deadline: NIODeadline) {
        if condition() || .now() > deadline { return promise.succeed() }
        assumeIsolated().scheduleTask(in: .milliseconds(5)) { self.look(promise, condition, deadline) }
    }
}
