import NIOCore

/// A value that is made once for all requests that wait for it, so that a flood of requests costs as much as a few.
///
/// A value is made after the requests that it answers. A request that arrives while a value is being made waits for the next value, so it
/// sees everything that was done before it. Used on one loop only.
final class SharedAnswer<Value: Sendable> {
    private let eventLoop: any EventLoop
    private let interval: TimeAmount
    private let make: () -> EventLoopFuture<Value>
    private var waiting: [EventLoopPromise<Value>] = []
    private var isMaking = false
    private var isScheduled = false
    private(set) var isStopped = false
    private var lastMadeAt = NIODeadline.distantPast

    /// - Parameters:
    ///   - interval: shortest time between the starts of two values.
    ///   - make: makes a value; called on the loop, and succeeds there.
    init(eventLoop: any EventLoop, interval: TimeAmount, make: @escaping () -> EventLoopFuture<Value>) {
        self.eventLoop = eventLoop
        self.interval = interval
        self.make = make
    }

    /// Returns the next value. Fails after ``stop()``.
    func next() -> EventLoopFuture<Value> {
        guard !isStopped else { return eventLoop.makeFailedFuture(ChannelError.ioOnClosedChannel) }
        let promise = eventLoop.makePromise(of: Value.self)
        waiting.append(promise)
        begin()
        return promise.futureResult
    }

    /// Fails all requests that wait.
    func stop() {
        isStopped = true
        let waiting = waiting
        self.waiting = []
        for promise in waiting { promise.fail(ChannelError.ioOnClosedChannel) }
    }

    private func begin() {
        guard !isMaking, !isScheduled, !waiting.isEmpty else { return }
        let due = lastMadeAt + interval
        guard due <= .now() else {
            isScheduled = true
            eventLoop.assumeIsolated().scheduleTask(deadline: due) {
                self.isScheduled = false
                self.begin()
            }
            return
        }
        isMaking = true
        let asked = waiting
        waiting = []
        let value = make()
        // After the start, so that two starts are never nearer than the interval, as the maker sees them.
        lastMadeAt = .now()
        value.assumeIsolated().whenComplete { result in
            self.isMaking = false
            for promise in asked { promise.completeWith(result) }
            self.begin()
        }
    }
}
