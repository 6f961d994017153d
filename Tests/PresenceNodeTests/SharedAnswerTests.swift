import NIOCore
import NIOPosix
import Testing

@testable import PresenceNode

@Suite struct SharedAnswerTests {
    /// Counts the answers, and gives each when the test says so.
    private final class Maker: @unchecked Sendable {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        private(set) var shared: SharedAnswer<Int>!
        private(set) var count = 0
        private(set) var current: EventLoopPromise<Int>?

        init(interval: TimeAmount = .zero) {
            shared = SharedAnswer(eventLoop: eventLoop, interval: interval) {
                self.count += 1
                self.current = self.eventLoop.makePromise()
                return self.current!.futureResult
            }
        }

        func ask() -> EventLoopFuture<Int> { shared.next() }
        func give() { current?.succeed(count) }
    }

    @Test("All waiting requests share one value, and a later request gets the next") func shared() async throws {
        let maker = Maker()
        let (first, later) = try await maker.eventLoop.submit { () -> (EventLoopFuture<Int>, [EventLoopFuture<Int>]) in
            let first = maker.ask()
            let later = (0..<1_000).map { _ in maker.ask() }
            #expect(maker.count == 1)
            maker.give()
            return (first, later)
        }.get()
        #expect(try await first.get() == 1)
        try await maker.eventLoop.submit {
            #expect(maker.count == 2)
            maker.give()
        }.get()
        #expect(try await EventLoopFuture.whenAllSucceed(later, on: maker.eventLoop).get() == Array(repeating: 2, count: 1_000))
    }

    @Test("Two values start at least an interval apart") func interval() async throws {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let shared = Unchecked(
            value: SharedAnswer(eventLoop: eventLoop, interval: .milliseconds(50)) { eventLoop.makeSucceededFuture(NIODeadline.now()) })
        var made: [NIODeadline] = []
        for _ in 0..<4 { made.append(try await eventLoop.flatSubmit { shared.value.next() }.get()) }
        for (earlier, later) in zip(made, made.dropFirst()) { #expect(later - earlier >= .milliseconds(50)) }
    }

    private struct Unchecked<Value>: @unchecked Sendable { let value: Value }

    @Test("A waiting request fails when the answer stops") func stop() async throws {
        let maker = Maker()
        let waiting = try await maker.eventLoop.submit { [maker.ask(), maker.ask()] }.get()
        try await maker.eventLoop.submit {
            maker.shared.stop()
            maker.give()
        }.get()
        #expect(try await waiting[0].get() == 1)
        await #expect(throws: ChannelError.self) { try await waiting[1].get() }
        await #expect(throws: ChannelError.self) { try await maker.eventLoop.flatSubmit { maker.ask() }.get() }
    }
}
