import Dispatch
import Glibc
import NIOConcurrencyHelpers
import NIOCore
import NIOEmbedded

/// An event loop that runs only when it is called. Work of other threads waits until ``takeForeign()``.
final class ManualLoop: EventLoop, @unchecked Sendable {
    /// The loop of the channels. Only this loop's thread uses it.
    let embedded = EmbeddedEventLoop()
    private let thread = pthread_self()
    private let foreign = NIOLockedValueBox<[@Sendable () -> Void]>([])

    var inEventLoop: Bool { pthread_equal(pthread_self(), thread) != 0 }

    func execute(_ task: @escaping @Sendable () -> Void) {
        if inEventLoop { embedded.execute(task) } else { foreign.withLockedValue { $0.append(task) } }
    }

    @discardableResult
    func scheduleTask<T>(deadline: NIODeadline, _ task: @escaping @Sendable () throws -> T) -> Scheduled<T> {
        embedded.scheduleTask(deadline: deadline, task)
    }

    @discardableResult
    func scheduleTask<T>(in delay: TimeAmount, _ task: @escaping @Sendable () throws -> T) -> Scheduled<T> {
        embedded.scheduleTask(in: delay, task)
    }

    func shutdownGracefully(queue: DispatchQueue, _ callback: @escaping @Sendable ((any Error)?) -> Void) { callback(nil) }

    /// Runs the due work, with the current time. Late work would count as load.
    func run() { embedded.advanceTime(to: .now()) }

    /// Runs the due work without reading the clock.
    func runNow() { embedded.run() }

    /// Runs the work of other threads. Returns whether there was any.
    func takeForeign() -> Bool {
        let taken = foreign.withLockedValue { tasks in
            defer { tasks = [] }
            return tasks
        }
        for task in taken { task() }
        return !taken.isEmpty
    }
}
