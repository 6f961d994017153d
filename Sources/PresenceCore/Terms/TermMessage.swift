import PresenceWire

/// A message about the terms of one slot. Rows travel apart from it (``FactSlot/Output/collect(_:from:)``).
enum TermMessage: Hashable {
    /// Asks a disk for a promise of this term. Without a base the sender knows no replica set and asks for it.
    case claim(Term, base: ReplicaSet?)
    /// Promises a term. The disk has stored it.
    case promise(Promise)
    /// Refuses a message, because the disk has promised a larger term.
    case refusal(promised: Term)
    /// Refuses a claim, because a later term is installed than its base.
    case outdated(ReplicaSet)
    /// Asks a disk to take the content of a term and its replica set.
    case install(Installation)
    /// Reports that the disk has what ``install(_:)`` asks for.
    case stored(Term)
    /// Reports that a term is installed.
    case installed(ReplicaSet)
    /// Reports that the disk has what ``installed(_:)`` says: the set, and the content if the disk is in the set.
    case heard(Term)
}

/// A disk's answer to a claim.
struct Promise: Hashable {
    let term: Term
    /// The term of the replica set that the claim named. An answer to an earlier claim of the same term does not count.
    let base: Term
    /// The replica set that the disk has accepted after the base; nil for none.
    let accepted: ReplicaSet?
    /// The term whose content the disk holds; nil if it holds none.
    let content: Term?
    /// The hash of the content.
    let hash: UInt64
}

/// The replica set of a new term, and the set that it replaces.
struct Installation: Hashable {
    let set: ReplicaSet
    let base: ReplicaSet
    /// The hash of the new content. A disk with the same rows need not fetch them.
    let hash: UInt64
}
