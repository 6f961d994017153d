import PresenceWire
import Testing

@testable import ClusterSimulation

/// Who is followed is told anew only where somebody may have been removed.
@Suite struct SubscriptionBookTests {
    private var book = SubscriptionBook(quota: 5)

    /// An attempt whose answer was lost has subscribed for two seconds, and its retry subscribes again.
    @Test(
        "The retry of a call may subscribe again to a target whose subscription has expired", arguments: [(Int64?(2), true), (nil, false)])
    mutating func retriedSubscription(seconds: Int64?, mayHaveRemoved: Bool) {
        book.begin(seconds: seconds, at: 0)
        #expect(!book.mayHaveRemoved(at: .milliseconds(1_999)))
        #expect(book.mayHaveRemoved(at: .milliseconds(2_000)) == mayHaveRemoved)
        book.isBusy = false
        #expect(!book.mayHaveRemoved(at: .milliseconds(2_000)))
    }

    @Test("A removed target may be followed again") mutating func removedTarget() {
        book.begin(seconds: nil, at: 0)
        book.unsubscribe([1], at: 1)
        #expect(book.mayHaveRemoved(at: 1))
    }
}
