import PresenceWire

/// The cluster as this node sees it: the members, the links to them, the owners of slots, and all messages that wait to leave this node.
///
/// The other machines receive it with each input. They send messages with ``send(_:to:)`` and effects with ``outbox``.
public struct Cluster {
    /// The cluster's name. Nodes of another cluster are refused.
    let name: String
    let settings: CoreSettings
    let gatewaysCount: Int
    /// Whether this node has contact points. Then it decides nothing before it has met another node or has waited for them.
    let joins: Bool
    var peers: Peers
    var membership: Membership
    var links: Links
    /// The slots that this node decides about, and their ring.
    var ownership: Ownership
    /// The nodes that this node hears.
    var reach = Reach()
    var clockCheck = ClockCheck()
    var outbox = Outbox()
    /// The last ticket of a write, or of a question to all nodes.
    private(set) var lastTicket: UInt64
    /// The messages about users that this node does not own.
    private(set) var misroutedCount: UInt64 = 0

    init(own: Peer, name: String, gatewaysCount: Int, joins: Bool, settings: CoreSettings) {
        self.name = name
        self.settings = settings
        self.gatewaysCount = gatewaysCount
        self.joins = joins
        peers = Peers(own: own)
        let seed = StableHash.mix(UInt64(own.versionNode), own.generation)
        membership = Membership(own: own, settings: settings.membership, seed: seed)
        links = Links(messagesMax: settings.linkMessagesMax)
        ownership = Ownership(own: own, joins: joins, settings: settings)
        // An answer to the previous process must not match a ticket of this process.
        lastTicket = own.generation &<< 20
    }

    /// This node.
    package var own: Peer { peers[0].peer }
    var placement: Placement { ownership.placement }

    /// The users about whom this node may not know better.
    public var unsure: UnsureUsers { reach.unsure }

    /// Whether this node gives its slots to others, because it will end or has a fault.
    public var isDraining: Bool { membership.isDraining }

    /// Whether this node was told to give its slots to others, and will end.
    public var isLeaving: Bool { membership.isLeaving }

    /// A number larger than all before, also than those of an earlier process of this ID.
    mutating func nextTicket() -> UInt64 {
        lastTicket += 1
        return lastTicket
    }

    // MARK: Ownership

    /// The peer that owns a user by this node's ring.
    func owner(of user: UserID) -> PeerIndex { ownership.owner(of: user) }

    /// Whether this node decides about a user now.
    package func decides(_ user: UserID) -> Bool { ownership.decides(user.slot) }

    /// Whether this node decides about the user of a request now. Otherwise it sends the request back to `peer`.
    mutating func decides(_ request: Request, for peer: PeerIndex) -> Bool {
        if decides(request.user) { return true }
        if owner(of: request.user) != 0 { misroutedCount += 1 }
        send(.answer(id: request.id, .sentBack), to: peer)
        return false
    }

    /// Whether a message that arrives now may have waited for the end of a pause of this node. Another owner may have answered it, so this
    /// node does not change anything by it. Its sender repeats it, if it still waits for an answer.
    func mayHaveWaited(at now: Now) -> Bool {
        membership.ticks.mayHaveWaited(at: now.instant, gapMax: membership.settings.tickGapMax)
    }

    /// Whether a living member has not sent all rows of this node's slots. A node decides nevertheless after
    /// ``CoreSettings/takeoverTimeout``.
    var lacksRowsOfMember: Bool { !peers.alive.allSatisfy { ownership.transfer.isOwnedReceived(from: $0) } }

    /// Tells `peer` to retry with users about whom this node does not decide.
    mutating func sendBack(_ users: [UserID], to peer: PeerIndex) {
        misroutedCount += UInt64(users.count)
        if !users.isEmpty { send(.misrouted(users), to: peer) }
    }

    /// The replicas of a user besides this node. If no other node stays, draining nodes keep the user until they end.
    func replicas(of user: UserID) -> [PeerIndex] {
        let replicas = placement.replicas(of: user)
        guard replicas.isEmpty else { return replicas }
        return Array(peers.others.filter { peers[$0].isAlive && peers[$0].isDraining }.prefix(Ring.replicasMax - 1))
    }

    /// The other nodes that keep a row: the replicas, or all members for a row that every node keeps.
    func keepers(of row: Row) -> [PeerIndex] { row.kind.isForAll ? peers.alive : replicas(of: row.user) }

    // MARK: Sending

    /// Queues a message for a peer, this node included. Without a link it is dropped, because the next link starts with everything.
    mutating func send(_ message: Message, to peer: PeerIndex) {
        if peer == 0 { return links.appendLocal(message) }
        guard links.isUp(peer) else { return }
        links[peer].append(message)
        transmit(to: peer)
    }

    mutating func send(_ message: Message, toOwnerOf user: UserID) { send(message, to: owner(of: user)) }

    /// Sends rows in pages. The rows of one change of a list stay together, unless they are too long.
    ///
    /// A node that receives a part of a change would take the rest for rows that clients have passed.
    mutating func send(_ rows: [Row], to peer: PeerIndex) {
        var page: [Row] = []
        var bytesCount = 0
        for (index, row) in rows.enumerated() {
            page.append(row)
            bytesCount += row.value?.count ?? 0
            let isComplete = index + 1 == rows.count || !rows[index + 1].isOfChange(of: row)
            guard page.count >= Message.replicateRowsMax && isComplete || bytesCount > Message.replicateBytesMax else { continue }
            send(.replicate(ticket: nil, page), to: peer)
            (page, bytesCount) = ([], 0)
        }
        if !page.isEmpty { send(.replicate(ticket: nil, page), to: peer) }
    }

    /// Asks the shell to send the queue of a peer.
    mutating func transmit(to peer: PeerIndex) {
        if links.beginTransmission(to: peer) { outbox.effects.append(.transmit(peer)) }
    }

    /// Counts a beat of this node, in which it may notice that it does not hear others.
    mutating func countBeat() {
        reach.count(peers, roundBeats: max((peers.count - 1 + settings.beatPeersMax - 1) / settings.beatPeersMax, 1))
        followReach()
    }

    /// Tells the gateways if this node does not know better about other users than before.
    mutating func followReach() { if reach.follow(peers, placement) { sendToGateways(.unsure(reach.unsure)) } }

    /// Sends a message to the gateways in `mask`, one bit each.
    mutating func sendToGateways(_ message: NodeMessage, mask: UInt64 = .max) {
        for gateway in 0..<gatewaysCount where mask & (1 << UInt64(gateway)) != 0 {
            outbox.effects.append(.send(toGateway: gateway, message))
        }
    }
}

extension Row {
    /// Whether one change of a list has written both rows.
    fileprivate func isOfChange(of other: Row) -> Bool { version == other.version && kind == other.kind && user == other.user }
}
