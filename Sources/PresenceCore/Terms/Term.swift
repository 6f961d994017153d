import PresenceWire

/// A node's data directory. A node that starts with an empty directory has another number, so that its lost promises do not count.
struct DiskID: Hashable, Comparable {
    let node: NodeID
    let number: UInt64

    static func < (left: DiskID, right: DiskID) -> Bool {
        left.node != right.node ? left.node < right.node : left.number < right.number
    }
}

/// The number of one tenure of a slot's owner. Terms of a slot only grow, and each belongs to one claimant (<doc:Terms>).
struct Term: Hashable, Comparable {
    let number: UInt64
    /// The disk whose node has claimed the term. Two nodes may choose one number at once; their disks tell the terms apart.
    ///
    /// A node that has lost its disk does not know which terms it has claimed. Its new disk claims others.
    let claimant: DiskID

    /// The term before the first claim. It is smaller than each term that a node claims.
    static let zero = Term(number: 0, claimant: DiskID(node: NodeID(""), number: 0))

    static func < (left: Term, right: Term) -> Bool {
        left.number != right.number ? left.number < right.number : left.claimant < right.claimant
    }
}

/// The disks that keep a slot in a term.
struct ReplicaSet: Hashable {
    let term: Term
    /// In ascending order.
    let disks: [DiskID]

    init(term: Term, disks: [DiskID]) {
        self.term = term
        self.disks = disks.sorted()
    }

    func contains(_ disk: DiskID) -> Bool { disks.contains(disk) }

    /// Whether a majority of the disks has answered: 2 of 3, 2 of 2, 1 of 1.
    ///
    /// - Parameter removed: the disks that an operator has given up. They do not count. A set without other disks needs no answer.
    func hasMajority(of answered: [DiskID], without removed: [DiskID]) -> Bool {
        let counted = disks.filter { !removed.contains($0) }
        return counted.isEmpty || counted.count { answered.contains($0) } > counted.count / 2
    }
}

/// The durable state of a slot's terms at one disk.
struct SlotRecord: Hashable {
    /// The largest term that the disk has promised. It refuses rows and installations of smaller terms.
    var promised = Term.zero
    /// The replica set of the last installed term that the disk knows; nil if it knows none.
    var installed: ReplicaSet?
    /// The replica set of a later term that the disk has accepted. It may be installed without the disk's knowledge.
    var accepted: ReplicaSet?
    /// The term whose content the disk holds; nil if it holds none.
    var content: Term?

    /// Records that a term is installed. Returns whether that is news.
    mutating func learn(_ set: ReplicaSet) -> Bool {
        guard set.term > installed?.term ?? .zero || installed == nil else { return false }
        installed = set
        if let accepted, accepted.term <= set.term { self.accepted = nil }
        promised = max(promised, set.term)
        return true
    }
}
