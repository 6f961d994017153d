import PresenceWire

/// A row and the node that has sent it. The node need not receive it again.
struct ReceivedRow: Hashable {
    let row: Row
    let sender: PeerIndex
}

/// Decisions of the relationship chain to look at, because another node has sent rows of them.
struct ChainWork {
    /// Open decisions of users of this node whose rows another node has written.
    var toReopen: [ChainPair] = []
    /// Users and those whom they block, because another node has sent a row that is newer than the block.
    var toBlock: [ChainPair] = []
    /// Decisions of other users about which this node asks whether they count: see ``UnresolvedDecisions``.
    var toVerify: [LearnedDecision] = []
}

/// The outputs of a node's machines, in order. The node carries them to other machines, links, the disk and gateways.
struct Outbox {
    /// The effects for the shell, which takes them after each input.
    var effects: [Effect] = []
    /// The messages to other nodes and to this one (0). Both take the same path.
    var messages: [(peer: PeerIndex, message: Message)] = []
    /// The changed records, for the nodes that watch them.
    var changes: [(record: Record, watchers: [PeerIndex])] = []
    /// The nodes that must receive a user's whole subscription list.
    var lists: [(peer: PeerIndex, user: UserID)] = []
    /// Rows that this replica has merged after a split, for their owners, which may not have this version.
    var rowsForOwners: [Row] = []
    /// The kicked users, whose sessions on this node end.
    var kicked: [UserID] = []
    /// The sessions that their users have logged out, and of which the users' owner does not know. Their nodes, if they live, end them.
    var unknownEnds: [(session: SessionID, user: UserID)] = []
    /// Users of this node who may have webhook events that wait.
    var webhookUsers: [UserID] = []
    /// The rows to write.
    var rows: [Row] = []
    /// The rows to write that other nodes have too and that no call waits for. ``rows`` overtake them.
    var rowsInBulk: [Row] = []
    /// The rows that other nodes have sent and that no call waits for, each with its sender.
    var receivedInBulk: Set<ReceivedRow> = []
    /// The slots whose rows the disk deletes, after it has received ``rows`` and ``rowsInBulk``.
    var deletedSlots: [Slot] = []
    /// The expired rows that the disk deletes.
    var deletedRows: [Row] = []
    /// The actions that wait for ``rows``.
    var continuations: [Continuation] = []
    /// Actions that wait for rows that were written before.
    var deferred: [DeferredContinuation] = []
    /// The work of the relationship chain that follows from rows of other nodes.
    var chains = ChainWork()
    /// Whether the continuations also wait for a barrier: every live node has received ``changes``.
    var needsBarrier = false

    /// Whether records, messages or lists wait for their receivers.
    var hasMessages: Bool { !messages.isEmpty || !lists.isEmpty || !changes.isEmpty || !unknownEnds.isEmpty }

    /// Something is to be written, or waits for what is written.
    var hasWrites: Bool {
        !rows.isEmpty || !rowsInBulk.isEmpty || !continuations.isEmpty
    }

    mutating func send(_ message: Message, to peer: PeerIndex) { messages.append((peer, message)) }

    mutating func answer(_ id: UInt64, _ answer: Answer, to peer: PeerIndex) {
        messages.append((peer, .answer(id: id, answer)))
    }

    /// Answers a request when ``rows`` are on two disks.
    mutating func answerWhenStored(_ request: Request, _ answer: Answer, to peer: PeerIndex) {
        continuations.append(.answer(id: request.id, of: request.user, answer, to: peer))
    }

    /// Sends a change of a subscription list to these nodes when ``rows`` are on two disks.
    mutating func sendWhenStored(_ listUpdate: ListUpdate, to peers: [PeerIndex]) {
        continuations += peers.map { .listUpdate(listUpdate, to: $0) }
    }

    /// Takes a step of the relationship chain when ``rows`` are on two disks.
    mutating func stepWhenStored(_ step: ChainStep) { continuations.append(.step(step)) }

    /// Whether a row of these users, other than their records, is to be written.
    func writesLists(of users: [UserID]) -> Bool { rows.contains { $0.kind != .status && users.contains($0.user) } }
}

extension Outbox {
    /// Moves the rows that `body` writes to the bulk rows, because no answer waits for them.
    ///
    /// A later acknowledged change writes its rows itself, because facts in memory need not be on disk yet.
    mutating func writeInBulk<Failure: Error>(_ body: (inout Outbox) throws(Failure) -> Void) throws(Failure) {
        let start = rows.count
        defer {
            if rows.count > start {
                rowsInBulk += rows[start...]
                rows.removeSubrange(start...)
            }
        }
        try body(&self)
    }
}

extension Array {
    /// Removes and returns all elements. Their memory goes with them, because keeping it would need a copy.
    mutating func takeAll() -> [Element] {
        guard !isEmpty else { return [] }
        let elements = self
        self = []
        return elements
    }
}
