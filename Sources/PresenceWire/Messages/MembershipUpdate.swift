/// The state of a member, in the cluster's view.
///
/// The order is that of precedence between updates of equal incarnation (SWIM §4.2).
public enum MemberState: UInt8, Comparable, CaseIterable, Sendable {
    case alive = 1
    /// The member did not answer a probe. It is declared dead unless it refutes in time.
    case suspect
    /// The member is gone without notice. It still counts towards the quorum.
    case dead
    /// The member has left on purpose. It does not count towards the quorum.
    case left

    /// Whether the member takes part. A suspect does until it is declared dead.
    public var isLive: Bool { self <= .suspect }

    public static func < (left: MemberState, right: MemberState) -> Bool { left.rawValue < right.rawValue }
}

/// The part of a member in the ring, by its own condition.
public enum MemberRole: UInt8, Sendable {
    /// It holds its share of the slots.
    case serving
    /// It gives its slots away because of a fault, and takes some back when the fault is over.
    case impaired
    /// It gives its slots away because it will end.
    case leaving
}

/// A membership update: the complete state of one member. A newer update replaces an older one everywhere (SWIM §4.1).
///
/// The updates about a member are totally ordered by generation, incarnation and state. The greatest wins, in whatever order they arrive.
public struct MembershipUpdate: Hashable, Sendable {
    /// The member. Its generation counts restarts.
    public var member: Peer
    /// The member's refutation counter inside its generation. Only the member itself raises it.
    public var incarnation: UInt64
    public var state: MemberState
    /// The member's role. The member itself sets it, together with a higher incarnation.
    public var role: MemberRole
    /// The member that suspects this one or has declared it dead. Suspicions of different suspecters count as independent (Lifeguard
    /// §IV.B).
    public var suspecter: NodeID?

    public init(member: Peer, incarnation: UInt64, state: MemberState, role: MemberRole = .serving, suspecter: NodeID? = nil) {
        self.member = member
        self.incarnation = incarnation
        self.state = state
        self.role = role
        self.suspecter = suspecter
    }

    /// Whether this supersedes `other`, an update about the same member.
    public func isNewer(than other: MembershipUpdate) -> Bool {
        (member.generation, incarnation, state.rawValue) > (other.member.generation, other.incarnation, other.state.rawValue)
    }

    /// An upper bound of the update's size on the wire, in bytes.
    public var encodedBytesMax: Int {
        member.id.rawValue.utf8.count + member.address.utf8.count + (suspecter?.rawValue.utf8.count ?? 0) + 34
    }
}

/// A message about the members of the cluster. Every message carries membership updates (SWIM §4.1).
public struct MembershipMessage: Hashable, Sendable {
    /// The purpose of the message, besides its updates.
    public enum Kind: Hashable, Sendable {
        /// Asks for an ``ack(_:)``.
        case probe(UInt64)
        /// Answers a probe of the receiver: for the sender or, after an indirect probe, for its target.
        case ack(UInt64)
        /// Reports that the target of the receiver's indirect probe has not answered yet, but the sender is well (Lifeguard §IV.A).
        case nack(UInt64)
        /// Asks the receiver to probe `target` (SWIM §3.1).
        case indirectProbe(UInt64, target: NodeID)
        /// Carries updates only.
        case gossip
        /// Sends a hash over all live members that the sender knows. A receiver with another hash answers with its pages.
        case digest(UInt64)
        /// Sends a part of all updates that the sender knows. The last page says whether the receiver sends its own.
        case page(wantsAnswer: Bool)
    }

    public var kind: Kind
    /// The updates, at most ``updatesCountMax``.
    public var updates: [MembershipUpdate]

    public init(_ kind: Kind, updates: [MembershipUpdate] = []) {
        self.kind = kind
        self.updates = updates
    }

    /// Most updates in one message. A receiver refuses a message with more.
    public static let updatesCountMax = 1_024
}

extension WireWriter {
    /// Writes one message about the members.
    public mutating func membership(_ message: MembershipMessage) {
        switch message.kind {
        case .probe(let sequence):
            tag(1)
            unsigned(sequence)
        case .ack(let sequence):
            tag(2)
            unsigned(sequence)
        case .nack(let sequence):
            tag(3)
            unsigned(sequence)
        case .indirectProbe(let sequence, let target):
            tag(4)
            unsigned(sequence)
            text(target.rawValue)
        case .gossip: tag(5)
        case .digest(let hash):
            tag(6)
            unsigned(hash)
        case .page(let wantsAnswer):
            tag(7)
            tag(wantsAnswer ? 1 : 0)
        }
        list(message.updates) { $0.update($1) }
    }

    private mutating func update(_ update: MembershipUpdate) {
        tag(update.state.rawValue | update.role.rawValue << 4)
        peer(update.member)
        unsigned(update.incarnation)
        optional(update.suspecter) { $0.text($1.rawValue) }
    }
}

extension WireReader {
    /// See ``WireWriter/membership(_:)``.
    public mutating func membership() throws(DecodeError) -> MembershipMessage {
        let kind = try membershipKind()
        let updates = try list(countMax: MembershipMessage.updatesCountMax) { reader throws(DecodeError) in try reader.update() }
        return MembershipMessage(kind, updates: updates)
    }

    private mutating func membershipKind() throws(DecodeError) -> MembershipMessage.Kind {
        switch try tag() {
        case 1: return .probe(try unsigned())
        case 2: return .ack(try unsigned())
        case 3: return .nack(try unsigned())
        case 4: return .indirectProbe(try unsigned(), target: try node())
        case 5: return .gossip
        case 6: return .digest(try unsigned())
        case 7: return .page(wantsAnswer: try flag())
        case let other: throw .unknownTag(other)
        }
    }

    private mutating func node() throws(DecodeError) -> NodeID { NodeID(try text(bytesMax: Limits.nameBytesMax)) }

    private mutating func update() throws(DecodeError) -> MembershipUpdate {
        let tag = try tag()
        guard let state = MemberState(rawValue: tag & 0x0F), let role = MemberRole(rawValue: tag >> 4) else { throw .unknownTag(tag) }
        let member = try peer()
        let incarnation = try unsigned()
        let suspecter = try optional { reader throws(DecodeError) in try reader.node() }
        return MembershipUpdate(member: member, incarnation: incarnation, state: state, role: role, suspecter: suspecter)
    }
}
