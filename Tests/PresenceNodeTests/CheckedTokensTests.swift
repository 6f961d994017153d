import NIOCore
import Testing

@testable import PresenceNode

@Suite struct CheckedTokensTests {
    private final class Connection {}

    private let start = NIODeadline.now()
    private let one = Connection()
    private let other = Connection()

    @Test("Requests go on until they have used a millisecond without a break, and then wait")
    func share() {
        var tokens = CheckedTokens()
        var answers = [tokens.mayGoOn(at: start)]
        tokens.wentOn(from: start, to: start + .microseconds(600))
        answers.append(tokens.mayGoOn(at: start + .microseconds(600)))
        tokens.wentOn(from: start + .microseconds(600), to: start + .microseconds(1_200))
        answers.append(tokens.mayGoOn(at: start + .microseconds(1_200)))
        // The loop had nothing to do for more than the share.
        answers.append(tokens.mayGoOn(at: start + .milliseconds(3)))
        #expect(answers == [true, true, false, true])
    }

    @Test("Connections take turns, the requests of one keep their order, and a new request waits behind them")
    func order() {
        var tokens = CheckedTokens()
        var done: [Int] = []
        var paused = NIODeadline.distantPast
        func wait(_ number: Int, _ connection: Connection) -> Bool {
            tokens.wait({ done.append(number) }, of: ObjectIdentifier(connection), pausedUntil: { paused })
        }
        let isFirst = [wait(1, one), wait(2, one), wait(3, one), wait(4, one), wait(10, other)]
        #expect(isFirst == [true, false, false, false, false])
        var mayGoOn = tokens.mayGoOn(at: start + .hours(1))
        #expect(!mayGoOn)
        tokens.beginTurn()
        for _ in 0..<2 { tokens.next(at: start)?() }
        #expect(done == [1, 10])
        // The turn is over, and the rest waits for another one.
        tokens.wentOn(from: start, to: start + .milliseconds(1))
        var next = tokens.next(at: start)
        #expect(next == nil && !tokens.isEmpty)
        tokens.beginTurn()
        // A large answer has paused the connection.
        paused = start + .seconds(1)
        next = tokens.next(at: start)
        #expect(next == nil && !tokens.isEmpty)
        while let next = tokens.next(at: paused) { next() }
        mayGoOn = tokens.mayGoOn(at: start + .hours(1))
        #expect(done == [1, 10, 2, 3, 4] && tokens.isEmpty && mayGoOn)
    }
}
