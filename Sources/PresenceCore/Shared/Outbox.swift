import PresenceWire

/// What the machines of a node want done, in order: the node carries it to other machines, links, the disk and gateways.
struct Outbox {
    /// For the shell; it takes them after each input.
    var effects: [Effect] = []
    /// To other nodes and to this one (0): the same path for both.
    var messages: [(peer: PeerIndex, message: Message)] = []
    /// Records that have changed, for the nodes that watch them.
    var changes: [(record: Record, watchers: [PeerIndex])] = []
    /// Nodes that are owed the whole list of whom a user of theirs follows.
    var lists: [(peer: PeerIndex, user: UserID)] = []
    /// What this node, which only keeps it, has put together of two sides of a split: for the owners, who may know no other version.
    var rowsForOwners: [Row] = []
    /// Users who were kicked: the sessions that this node hosts of them end.
    var kicked: [UserID] = []
    /// To be made durable.
    var rows: [Row] = []
    /// The same for what is elsewhere, too, and what nobody waits for: it gives way to ``rows``.
    var rowsInBulk: [Row] = []
    /// Slots of whose users the disk is to keep nothing, when ``rows`` and ``rowsInBulk`` have been given to it.
    var discarded: [Slot] = []
    /// Rows that are remembered no longer: the disk is to keep them no longer either.
    var forgotten: [Row] = []
    /// To be said once ``rows`` are on disk.
    var answersWhenStored: [(peer: PeerIndex, id: UInt64, answer: Answer)] = []

    /// Those answers wait for every node that is alive, too: it has heard of ``changes``.
    var needsBarrier = false

    /// To be said just before those answers; when they fail, as if nothing had been told in them.
    var listUpdatesWhenStored: [(peer: PeerIndex, listUpdate: ListUpdate)] = []
    /// To be said to an owner once ``rows``, which this node keeps for it, are on disk.
    var acknowledgementsWhenStored: [(peer: PeerIndex, ticket: UInt64)] = []

    mutating func send(_ message: Message, to peer: PeerIndex) { messages.append((peer, message)) }

    mutating func answer(_ id: UInt64, _ answer: Answer, to peer: PeerIndex) {
        messages.append((peer, .answer(id: id, answer)))
    }
}

extension Outbox {
    /// Moves the rows that `body` writes to the bulk: no answer waits for them.
    ///
    /// A later promise writes its rows itself, because what this node knows need not be on disk yet.
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
    /// Takes all elements out. Their memory goes with them: kept, it would have to be copied.
    mutating func takeAll() -> [Element] {
        guard !isEmpty else { return [] }
        let elements = self
        self = []
        return elements
    }
}
