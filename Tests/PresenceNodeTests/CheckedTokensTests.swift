import NIOCore
import Testing

@testable import PresenceNode

@Suite struct CheckedTokensTests {
    private let start = NIODeadline.now()

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

    @Test("Requests that wait keep their order, and later ones wait behind them")
    func order() {
        var tokens = CheckedTokens()
        var done: [Int] = []
        #expect(tokens.wait { done.append(1) })
        #expect(!tokens.wait { done.append(2) })
        #expect(!tokens.mayGoOn(at: start + .hours(1)))
        let taken = tokens.takeAll()
        taken[0]()
        // The first request of this turn has begun another one.
        #expect(tokens.wait { done.append(3) })
        #expect(tokens.putBack(taken[1...]))
        for request in tokens.takeAll() { request() }
        #expect(done == [1, 2, 3] && tokens.isEmpty && !tokens.putBack([]))
        #expect(tokens.mayGoOn(at: start + .hours(1)))
    }
}
