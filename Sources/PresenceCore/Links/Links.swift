import DequeModule
import PresenceWire

/// The links to the other nodes with what waits on them, and the messages of this node to itself.
///
/// Both are ordered: what is sent first is handled first. Index 0 is this node.
struct Links {
    private struct State {
        var link: Link
        var isUp = false
        /// An effect asks for transmission already.
        var isTransmitting = false
        /// The newest connection that the peer has opened to this node. Batches of an earlier connection are void.
        var connection = ConnectionID(generation: 0, number: 0)
        /// The visibilities that this connection has carried.
        var rules: ReceivedRules? = ReceivedRules()
    }

    private let messagesMax: Int
    private var states: [State]
    /// Messages of this node to itself.
    private var local: Deque<Message> = []
    /// Connections that this node has opened to others.
    private(set) var connectionsCount: UInt64 = 0

    /// - Parameter messagesMax: control messages that may wait for one peer.
    init(messagesMax: Int) {
        self.messagesMax = messagesMax
        states = [State(link: Link(messagesMax: messagesMax), isUp: true)]
    }

    /// The queue to a peer.
    subscript(peer: PeerIndex) -> Link {
        _read { yield states[peer].link }
        _modify { yield &states[peer].link }
    }

    func isUp(_ peer: PeerIndex) -> Bool { states[peer].isUp }

    /// The newest connection that a peer has opened to this node.
    func connection(from peer: PeerIndex) -> ConnectionID { states[peer].connection }

    /// Gives the index of a new peer a link that is down.
    mutating func add(_ peer: PeerIndex) {
        let state = State(link: Link(messagesMax: messagesMax))
        if peer == states.count { states.append(state) } else { states[peer] = state }
    }

    /// The number of the connection that this node opens now.
    mutating func openConnection() -> UInt64 {
        connectionsCount += 1
        return connectionsCount
    }

    /// A peer has opened a connection. Returns false for a connection that is not newer than the last one.
    mutating func accept(_ connection: ConnectionID, from peer: PeerIndex) -> Bool {
        guard connection > states[peer].connection else { return false }
        states[peer].connection = connection
        states[peer].rules = ReceivedRules()
        return true
    }

    /// Reads the messages of a batch on the newest connection that a peer has opened.
    ///
    /// After a batch that cannot be read the connection is void, and its sender opens another one.
    mutating func read(_ batch: UnsafeRawBufferPointer, from peer: PeerIndex, into messages: inout Deque<Message>) throws(DecodeError) {
        var reader = WireReader(batch)
        swap(&reader.rules, &states[peer].rules)
        while reader.remainingBytes > 0 { messages.append(try reader.message()) }
        swap(&reader.rules, &states[peer].rules)
    }

    /// The link to a peer is up. The waiting messages are void: both sides send one another everything again.
    mutating func open(to peer: PeerIndex) {
        states[peer].link.reset()
        states[peer].isTransmitting = false
        states[peer].isUp = true
    }

    /// The link to a peer is down. The waiting messages are void.
    mutating func close(to peer: PeerIndex) {
        states[peer].isUp = false
        states[peer].link.reset()
    }

    /// Whether an effect must ask for transmission now.
    mutating func beginTransmission(to peer: PeerIndex) -> Bool {
        guard !states[peer].isTransmitting, states[peer].link.isReady else { return false }
        states[peer].isTransmitting = true
        return true
    }

    /// The shell asks for what waits: the next message needs a new effect.
    mutating func endTransmission(to peer: PeerIndex) { states[peer].isTransmitting = false }

    // MARK: This node

    /// Queues a message of this node to itself.
    mutating func appendLocal(_ message: Message) { local.append(message) }

    /// Takes the next message of this node to itself.
    mutating func takeLocal() -> Message? { local.popFirst() }
}
