import PresenceWire
import Testing

@testable import ClusterSimulation

/// A followed target is sent again only if it may have been removed.
@Suite struct ExpectedSubscriptionsTests {
    private var expected = ExpectedSubscriptions(quota: 5)

    /// An attempt whose answer was lost has subscribed for two seconds, and its retry subscribes again.
    @Test(
        "The retry of a call may subscribe again to a target whose subscription has expired", arguments: [(Int64?(2), true), (nil, false)])
    mutating func retriedSubscription(seconds: Int64?, mayHaveRemoved: Bool) {
        expected.begin(seconds: seconds, at: 0)
        #expect(!expected.mayHaveRemoved(at: .milliseconds(1_999)))
        #expect(expected.mayHaveRemoved(at: .milliseconds(2_000)) == mayHaveRemoved)
        expected.isBusy = false
        #expect(!expected.mayHaveRemoved(at: .milliseconds(2_000)))
    }

    @Test("A removed target may be followed again") mutating func removedTarget() {
        expected.begin(seconds: nil, at: 0)
        expected.unsubscribe([1], at: 1)
        #expect(expected.mayHaveRemoved(at: 1))
    }
}
