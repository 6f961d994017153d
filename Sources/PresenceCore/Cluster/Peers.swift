import PresenceWire

/// The known nodes by ``PeerIndex``: their addresses, states and generations.
///
/// Index 0 is this node. The next new node gets the index of a removed one.
struct Peers: RandomAccessCollection {
    /// The state of one node.
    struct Member {
        /// The node's address, and the process that runs there.
        var peer: Peer { didSet { ringID = Placement.id(of: peer) } }
        /// The node's share of ``Placement/id``.
        private(set) var ringID: UInt64
        var state = MemberState.left
        /// Whether the node has been a member since this node started, or before.
        var wasMember = false
        /// The node's part in the ring. It is a gateway in any of them.
        var role = MemberRole.serving
        /// The version of the node's row on this node's disk. For a node that was never a member, the time when this node met it.
        var rowVersion: Version
        /// Whether the index is free.
        fileprivate(set) var isVacant = false

        init(peer: Peer, state: MemberState = .left, rowVersion: Version = .zero) {
            (self.peer, self.state, self.rowVersion) = (peer, state, rowVersion)
            ringID = Placement.id(of: peer)
        }

        /// Whether the node gives its slots to others.
        var isDraining: Bool { role != .serving }
        /// Whether the node is a member: alive or suspect.
        var isAlive: Bool { state.isLive }
        /// Whether the node has left on purpose. It does not count towards a majority.
        var hasLeft: Bool { state == .left }
        /// Whether the node is a member, alive or missed. A node that was told to end and is gone is not missed.
        var counts: Bool { wasMember && !hasLeft && (role != .leaving || state.isLive) }
    }

    private var members: [Member]
    private var byID: [NodeID: PeerIndex]
    /// The peers by ``Peer/versionNode``, as relays name them.
    private var byNumber: [UInt32: PeerIndex]
    private var vacant: [PeerIndex] = []

    init(own: Peer) {
        members = [Member(peer: own, state: .alive)]
        byID = [own.id: 0]
        byNumber = [own.versionNode: 0]
    }

    // MARK: Lookup

    var startIndex: PeerIndex { 0 }
    var endIndex: PeerIndex { members.count }

    subscript(peer: PeerIndex) -> Member {
        _read { yield members[peer] }
        _modify { yield &members[peer] }
    }

    func index(of id: NodeID) -> PeerIndex? { byID[id] }

    func index(ofNumber number: UInt32) -> PeerIndex? { byNumber[number] }

    /// The number of known nodes, this node included.
    var knownCount: Int { byID.count }

    /// Adds a node, or returns its index.
    mutating func insert(_ peer: Peer, rowVersion: @autoclosure () -> Version) -> (index: PeerIndex, isNew: Bool) {
        if let index = byID[peer.id] { return (index, false) }
        let member = Member(peer: peer, rowVersion: rowVersion())
        let index = vacant.popLast() ?? members.count
        if index == members.count { members.append(member) } else { members[index] = member }
        byID[peer.id] = index
        byNumber[peer.versionNode] = index
        return (index, true)
    }

    /// Removes a node; the next new one gets its index.
    mutating func remove(_ index: PeerIndex) {
        let peer = members[index].peer
        byID[peer.id] = nil
        if byNumber[peer.versionNode] == index { byNumber[peer.versionNode] = nil }
        members[index] = Member(peer: peer)
        members[index].isVacant = true
        vacant.append(index)
    }

    // MARK: All together

    /// The other nodes.
    var others: Range<PeerIndex> { 1..<members.count }

    /// The other members.
    var alive: [PeerIndex] { others.filter { members[$0].isAlive } }

    /// Whether another node is alive.
    var hasAlive: Bool { others.contains { members[$0].isAlive } }

    /// Whether another node is alive and does not drain, so that it can take this node's slots and clients.
    var othersStay: Bool { others.contains { members[$0].isAlive && !members[$0].isDraining } }

    /// The number of dead members that have not been removed.
    var missedCount: Int { others.count { members[$0].wasMember && members[$0].state == .dead } }

    /// Whether this node and the nodes that it reaches are more than half of the members. Then no larger side of a split has changes
    /// unknown here.
    var isMajority: Bool { side.count * 2 > side.of }

    /// Whether the nodes on this side of a split are fewer than half of the members.
    var isMinority: Bool { side.count * 2 < side.of }

    /// The number of nodes on this node's side, and of all that have not left.
    private var side: (count: Int, of: Int) {
        let known = others.count { members[$0].wasMember && members[$0].state != .left }
        return (known - missedCount + 1, known + 1)
    }

    /// Whether a change must be on a second disk. It need not in a cluster of one node without dead members. A drained node that is gone
    /// does not count.
    var isReplicated: Bool {
        others.contains { members[$0].counts }
    }

    /// The ``Placement/id`` and the count of the nodes that are alive, and of those among them that stay.
    ///
    /// - Parameter isDraining: whether this node drains.
    func ringIDs(isDraining: Bool) -> (alive: (id: UInt64, count: Int), staying: (id: UInt64, count: Int)) {
        var alive = (id: UInt64(0), count: 0)
        var staying = alive
        for index in members.indices where index == 0 || members[index].state.isLive {
            let id = members[index].ringID
            alive = (alive.id ^ id, alive.count + 1)
            let stays = index == 0 ? !isDraining : !members[index].isDraining
            if stays { staying = (staying.id ^ id, staying.count + 1) }
        }
        return (alive, staying)
    }

    /// The nodes that hold slots.
    ///
    /// When all drain they go on together. Each alone would take the same users, and write to one disk.
    func ringMembers(isDraining: Bool) -> [Ring.Member] {
        let alive = members.indices.filter { $0 == 0 || members[$0].isAlive }
        let staying = alive.filter { $0 == 0 ? !isDraining : !members[$0].isDraining }
        return (staying.isEmpty ? alive : staying).map { Ring.Member(id: members[$0].peer.id, weight: Int(members[$0].peer.weight)) }
    }

    /// Stops the process if the indexes and the table differ.
    func checkInvariants() {
        precondition(byID.count + vacant.count == members.count, "each index is known by an ID or vacant")
        // order does not matter: each entry is checked by itself.
        for (id, index) in byID { precondition(members[index].peer.id == id && !members[index].isVacant, "the index of \(id) is its own") }
        precondition(members[0].state == .alive, "this node is alive")
    }
}
