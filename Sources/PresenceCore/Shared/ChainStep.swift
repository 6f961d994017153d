import PresenceWire

/// A decision of `pair.user` whose rows among those of `pair.other` this node has learned from another node, or has written when it may not
/// have been the owner.
struct LearnedDecision: Equatable {
    let pair: ChainPair
    let version: Version
}

/// A step of the relationship chain that waits until the rows of its write are on two disks.
enum ChainStep {
    /// The command is durable, and its first message may leave.
    case begun(ChainPair, version: Version)
    /// The command has taken effect for `pair.other`. The owner of `pair.user` may know.
    case applied(ChainPair, version: Version, ChainResult)
    /// The decision has ended for `pair.user`. The calls that wait for it may be answered.
    case ended(ChainPair, version: Version, ChainCode)
    /// A decision that no other user's owner hears of is durable, or the rows that make it needless.
    case decided(call: UInt64, position: Int, ChainCode)
    /// No live node shows the user to the viewers whom the call has blocked.
    case hidden(call: UInt64)
}
