import Dispatch
import Glibc
import NIOConcurrencyHelpers
import NIOCore
import NIOEmbedded

/// An event loop that runs when it is told to. Other threads may give it work, which waits until ``takeForeign()``.
final class ManualLoop: EventLoop, @unchecked Sendable {
    /// The loop of the channels; touched on this loop's thread only.
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

    /// Does what is due, with the clock as it is: late work would count as load.
    func run() { embedded.advanceTime(to: .now()) }

    /// Does what is due without a look at the clock.
    func runNow() { embedded.run() }

    /// Does what other threads have given. Returns whether there was anything.
    func takeForeign() -> Bool {
        let taken = foreign.withLockedValue { tasks in
            defer { tasks = [] }
            return tasks
        }
        for task in taken { task() }
        return !taken.isEmpty
    }
}
