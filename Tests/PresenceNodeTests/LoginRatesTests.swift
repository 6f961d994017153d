import HTTP2
import NIOCore
import PresenceCore
import PresenceWire
import Testing

@testable import PresenceNode

@Suite struct LoginRatesTests {
    private let ann = UserID(app: "default", id: "ann")
    private let start = Instant(nanoseconds: 5_000_000_000)

    private func address(_ text: String) throws -> ConnectionLimits.Address { .init(try SocketAddress(ipAddress: text, port: 7)) }

    @Test("A user may log in up to the limit at once, and as often again evenly within the window") func window() throws {
        let rates = LoginRates(perUserMax: 10, perAddressMax: 0)
        let here = try address("192.0.2.1")
        for _ in 0..<10 { #expect(rates.refusal(of: ann, from: here, at: start) == nil) }
        let refusal = try #require(rates.refusal(of: ann, from: here, at: start))
        #expect(refusal.problem.status == 429 && refusal.problem.code == 7008 && refusal.problem.retryAfter == 1)
        #expect(refusal.until == start + .seconds(1))
        #expect(refusal.problem.detail == "this user may log in 10 times in 10 s at a node; retry after 1 s")
        #expect(rates.refusal(of: ann, from: here, at: start + .milliseconds(999)) != nil)
        #expect(rates.refusal(of: ann, from: here, at: start + .milliseconds(1_000)) == nil)
        #expect(rates.refusal(of: ann, from: here, at: start + .milliseconds(1_001)) != nil)
        #expect(rates.refusal(of: UserID(app: "default", id: "bob"), from: here, at: start) == nil, "another user")
        for _ in 0..<10 { #expect(rates.refusal(of: ann, from: here, at: start + .seconds(60)) == nil) }
        #expect(rates.refusedCounts == [.loginsPerUser: 3])
    }

    @Test("An address has one limit for all its users") func addressLimit() throws {
        let rates = LoginRates(perUserMax: 0, perAddressMax: 5)
        let (here, elsewhere) = (try address("192.0.2.1"), try address("192.0.2.2"))
        for number in 0..<5 { #expect(rates.refusal(of: UserID(app: "a", id: "u\(number)"), from: here, at: start) == nil) }
        let refusal = try #require(rates.refusal(of: ann, from: here, at: start))
        #expect(refusal.problem.detail == "this address may log in 5 times in 10 s at a node; retry after 2 s")
        #expect(refusal.problem.retryAfter == 2)
        #expect(rates.refusal(of: ann, from: elsewhere, at: start) == nil)
        #expect(rates.refusedCounts == [.loginsPerAddress: 1])
    }

    /// A login that the address may not have is not counted for its user.
    @Test("A refused login does not count") func refused() throws {
        let rates = LoginRates(perUserMax: 1, perAddressMax: 1)
        let (here, elsewhere) = (try address("192.0.2.1"), try address("192.0.2.2"))
        #expect(rates.refusal(of: UserID(app: "a", id: "bob"), from: here, at: start) == nil)
        #expect(rates.refusal(of: ann, from: here, at: start) != nil)
        #expect(rates.refusal(of: ann, from: elsewhere, at: start) == nil)
    }

    @Test("Without limits no login is refused") func unlimited() throws {
        let rates = LoginRates(perUserMax: 0, perAddressMax: 0)
        let here = try address("192.0.2.1")
        for _ in 0..<1_000 { #expect(rates.refusal(of: ann, from: here, at: start) == nil) }
    }

    @Test("Beyond the bound all counts are dropped") func countedMax() throws {
        let rates = LoginRates(perUserMax: 1, perAddressMax: 0)
        let here = try address("192.0.2.1")
        // Each counts for ten seconds, so none may be swept. The bound is looked at when the number has doubled.
        for number in 0...2 * LoginRates.countedMax {
            #expect(rates.refusal(of: UserID(app: "a", id: "u\(number)"), from: here, at: start) == nil)
        }
        #expect(rates.refusal(of: UserID(app: "a", id: "u0"), from: here, at: start) == nil, "forgotten")
    }
}
