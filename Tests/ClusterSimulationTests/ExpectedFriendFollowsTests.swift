import Testing

@testable import ClusterSimulation

/// The subscriptions to friends that are certain by the answers of calls.
@Suite struct ExpectedFriendFollowsTests {
    var follows = ExpectedFriendFollows()

    private var targets: [Int] { follows.targets.map(\.target) }

    @Test("An acknowledged subscription lasts from its call until another call names its target") mutating func inTurn() {
        follows.acknowledge([2, 1], askedAt: 10)
        #expect(targets == [1, 2] && follows.targets.map(\.since) == [10, 10])
        follows.forget([1])
        #expect(targets == [2])
        follows.acknowledge([1], askedAt: 20)
        #expect(follows.targets.map(\.since) == [20, 10])
        follows.forget(nil)
        #expect(targets == [])
    }

    @Test("After a call without an answer no subscription is certain") mutating func doubt() {
        follows.acknowledge([1], askedAt: 10)
        follows.doubt()
        follows.acknowledge([2], askedAt: 20)
        #expect(targets == [])
    }
}
