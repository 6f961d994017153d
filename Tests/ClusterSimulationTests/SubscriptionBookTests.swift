import PresenceWire
import Testing

@testable import ClusterSimulation

/// Who is followed is told anew only where somebody may have been removed.
@Suite struct SubscriptionBookTests {
    private var book = SubscriptionBook(quota: 5)

    /// An attempt whose answer was lost has subscribed for two seconds, and its retry subscribes again.
    @Test(arguments: [(Int64?(2), true), (nil, false)])
    mutating func whoIsFollowedForATimeMayBeFollowedAnewByTheSameCall(seconds: Int64?, mayHaveRemoved: Bool) {
        book.begin(seconds: seconds, at: 0)
        #expect(!book.mayHaveRemoved(at: .milliseconds(1_999)))
        #expect(book.mayHaveRemoved(at: .milliseconds(2_000)) == mayHaveRemoved)
        book.isBusy = false
        #expect(!book.mayHaveRemoved(at: .milliseconds(2_000)))
    }

    @Test mutating func whoWasRemovedMayBeFollowedAnew() {
        book.begin(seconds: nil, at: 0)
        book.unsubscribe([1], at: 1)
        #expect(book.mayHaveRemoved(at: 1))
    }
}
