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
        #expect(tokens.mayGoOn(at: start))
        tokens.wentOn(from: start, to: start + .microseconds(600))
        #expect(tokens.mayGoOn(at: start + .microseconds(600)))
        tokens.wentOn(from: start + .microseconds(600), to: start + .microseconds(1_200))
        #expect(!tokens.mayGoOn(at: start + .microseconds(1_200)))
        // The loop had nothing to do for more than the share.
        #expect(tokens.mayGoOn(at: start + .milliseconds(3)))
    }

    @Test("Connections take turns, the requests of one keep their order, and a new request waits behind them")
    func order() {
        var tokens = CheckedTokens()
        var done: [Int] = []
        var paused = NIODeadline.distantPast
        let wait = { (number: Int, connection: Connection) in
            tokens.wait({ done.append(number) }, of: ObjectIdentifier(connection), pausedUntil: { paused })
        }
        #expect(wait(1, one))
        for number in 2...4 { #expect(!wait(number, one)) }
        #expect(!wait(10, other))
        #expect(!tokens.mayGoOn(at: start + .hours(1)))
        tokens.beginTurn()
        for _ in 0..<2 { tokens.next(at: start)?() }
        #expect(done == [1, 10])
        // The turn is over, and the rest waits for another one.
        tokens.wentOn(from: start, to: start + .milliseconds(1))
        #expect(tokens.next(at: start) == nil && !tokens.isEmpty)
        tokens.beginTurn()
        // A large answer has paused the connection.
        paused = start + .seconds(1)
        #expect(tokens.next(at: start) == nil && !tokens.isEmpty)
        while let next = tokens.next(at: paused) { next() }
        #expect(done == [1, 10, 2, 3, 4] && tokens.isEmpty)
        #expect(tokens.mayGoOn(at: start + .hours(1)))
    }
}
