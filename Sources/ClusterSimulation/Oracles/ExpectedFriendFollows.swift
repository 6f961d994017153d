/// The subscriptions of one user to friends (`subscribeType` 3) that are certain by the answers of calls.
///
/// Each lasts until the friendship ends, or until the user's next call about the same target.
struct ExpectedFriendFollows {
    /// For each target the time at which the user has made the call.
    private var askedAt: [Int: Nanoseconds] = [:]
    /// Whether every call was answered.
    private var isCertain = true

    /// Forgets the targets of a call that may end or replace subscriptions; all targets for nil.
    mutating func forget(_ targets: [Int]?) {
        guard let targets else { return askedAt = [:] }
        for target in targets { askedAt[target] = nil }
    }

    mutating func acknowledge(_ targets: [Int], askedAt moment: Nanoseconds) {
        guard isCertain else { return }
        for target in targets { askedAt[target] = moment }
    }

    /// Records that a call has no answer, so that it may take effect later.
    mutating func doubt() { (askedAt, isCertain) = ([:], false) }

    /// The targets in order, each with the time from which a friendship must have lasted.
    var targets: [(target: Int, since: Nanoseconds)] { askedAt.sorted { $0.key < $1.key }.map { ($0.key, $0.value) } }
}
