import NIOCore

/// Something that many may ask for at once and that is made once for all who wait, so that a flood of questions costs as much as a few.
///
/// An answer is made after its question: who asks while one is being made waits for the next, and sees all that was done before it asked.
/// Used on one loop only.
final class SharedAnswer<Value: Sendable> {
    private let eventLoop: any EventLoop
    private let interval: TimeAmount
    private let make: () -> EventLoopFuture<Value>
    private var waiting: [EventLoopPromise<Value>] = []
    private var isMaking = false
    private var isScheduled = false
    private var isStopped = false
    private var lastMadeAt = NIODeadline.distantPast

    /// - Parameters:
    ///   - interval: between the beginnings of two answers at least.
    ///   - make: makes one; called on the loop, and answers there.
    init(eventLoop: any EventLoop, interval: TimeAmount, make: @escaping () -> EventLoopFuture<Value>) {
        self.eventLoop = eventLoop
        self.interval = interval
        self.make = make
    }

    /// The next answer. Fails once ``stop()`` was called.
    func next() -> EventLoopFuture<Value> {
        guard !isStopped else { return eventLoop.makeFailedFuture(ChannelError.ioOnClosedChannel) }
        let promise = eventLoop.makePromise(of: Value.self)
        waiting.append(promise)
        begin()
        return promise.futureResult
    }

    /// Those who wait get no answer any more.
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
        lastMadeAt = .now()
        let asked = waiting
        waiting = []
        make().assumeIsolated().whenComplete { result in
            self.isMaking = false
            for promise in asked { promise.completeWith(result) }
            self.begin()
        }
    }
}
