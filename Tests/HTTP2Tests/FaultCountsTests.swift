import NIOCore
import Testing

@testable import HTTP2

/// The counts of faults, in time that passes as the test says.
@Suite struct FaultCountsTests {
    private let start = NIODeadline.uptimeNanoseconds(0)
    private let limits: HTTPLimits = {
        var limits = HTTPLimits()
        (limits.resetsMax, limits.largeHeadersMax) = (3, 2)
        return limits
    }()

    @Test("Resets within ten seconds add up, and one more than the limit is a fault")
    func resets() {
        var faults = FaultCounts(at: start)
        #expect(faults.count(resets: 2, at: start, limits) == nil)
        faults.countReset()
        #expect(faults.count(resets: 0, at: start + .seconds(10), limits) == nil)
        #expect(faults.count(resets: 1, at: start + .seconds(10), limits) == .resetFlood)
    }

    @Test("One large header more than the limit is a fault, and a flood of resets prevails over it")
    func largeHeaders() {
        var faults = FaultCounts(at: start)
        for _ in 0..<2 { faults.countLargeHeader() }
        #expect(faults.count(resets: 3, at: start, limits) == nil)
        faults.countLargeHeader()
        #expect(faults.count(resets: 0, at: start, limits) == .headerFlood)
        #expect(faults.count(resets: 1, at: start, limits) == .resetFlood)
    }

    @Test("After ten seconds both counts begin again")
    func interval() {
        var faults = FaultCounts(at: start)
        for _ in 0..<3 { faults.countLargeHeader() }
        let later = start + .seconds(10) + .nanoseconds(1)
        #expect(faults.count(resets: 3, at: later, limits) == nil)
        #expect(faults.count(resets: 0, at: later + .seconds(10), limits) == nil)
        #expect(faults.count(resets: 1, at: later + .seconds(10), limits) == .resetFlood)
        #expect(faults.count(resets: 3, at: later + .seconds(11), limits) == nil)
    }
}
