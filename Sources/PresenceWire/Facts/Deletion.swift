/// The deletion of a user: the receipt that the app's back end gets, and the fact that makes the user's older facts void.
///
/// It is a row of the user. Wherever it arrives, the user's facts up to its beginning go, and do not come back from a node that was away.
/// So the user's own facts need no tombstone of their own.
public struct Deletion: Hashable, Sendable {
    /// How long the row is kept, in milliseconds: 30 days. The user's earlier tokens stay void for as long.
    public static let keptFor: Milliseconds = 30 * 86_400_000
    /// Most nodes that are named.
    public static let nodesMax = 1_000

    /// The number of removed facts of a kind.
    public struct Removed: Hashable, Sendable {
        public let kind: Row.Kind
        public let count: UInt64

        public init(kind: Row.Kind, count: UInt64) { (self.kind, self.count) = (kind, count) }
    }

    /// The name of the deletion; a repetition of the call has the same.
    public let receiptID: String
    /// The version of the beginning. Facts of the user that are not newer do not count.
    public let voidUpTo: Version
    /// The time of the first call.
    public let begunAt: Milliseconds
    /// The time at which no node found a fact of others about the user any more; nil before.
    public var sweptAt: Milliseconds?
    /// The time at which nothing was left; nil while facts may be left.
    public var completedAt: Milliseconds?
    /// The facts that were found at the beginning, by kind: those of the user, and those of others about the user.
    public let removed: [Removed]
    /// The nodes that were searched at the beginning, by name.
    public let nodes: [String]

    public init(
        receiptID: String, voidUpTo: Version, begunAt: Milliseconds, sweptAt: Milliseconds? = nil, completedAt: Milliseconds? = nil,
        removed: [Removed], nodes: [String]
    ) {
        self.receiptID = receiptID
        self.voidUpTo = voidUpTo
        self.begunAt = begunAt
        self.sweptAt = sweptAt
        self.completedAt = completedAt
        self.removed = removed
        self.nodes = nodes
    }

    /// The time at which the last trace of the user ends: the row of the deletion, and the kick that voids earlier tokens.
    public var endsAt: Milliseconds { (completedAt ?? begunAt) + Self.keptFor }

    init(from wire: inout WireReader) throws(DecodeError) {
        receiptID = try wire.text(bytesMax: Limits.nameBytesMax)
        voidUpTo = try wire.version()
        begunAt = try wire.time()
        sweptAt = try wire.optional { reader throws(DecodeError) in try reader.time() }
        completedAt = try wire.optional { reader throws(DecodeError) in try reader.time() }
        removed = try wire.list { reader throws(DecodeError) in try Removed(from: &reader) }
        nodes = try wire.list { reader throws(DecodeError) in try reader.text(bytesMax: Limits.nameBytesMax) }
    }

    func write(into wire: inout WireWriter) {
        wire.text(receiptID)
        wire.version(voidUpTo)
        wire.signed(begunAt)
        wire.optional(sweptAt) { $0.signed($1) }
        wire.optional(completedAt) { $0.signed($1) }
        wire.list(removed) { $1.write(into: &$0) }
        wire.list(nodes) { $0.text($1) }
    }
}

extension Deletion.Removed {
    init(from wire: inout WireReader) throws(DecodeError) {
        kind = try wire.tag(as: Row.Kind.self)
        count = try wire.unsigned()
    }

    func write(into wire: inout WireWriter) {
        wire.tag(kind)
        wire.unsigned(count)
    }
}

/// A step of a user's deletion at the user's owner.
public enum DeletionRequest: OwnRequest {
    public typealias Answer = DeletionAnswer

    /// Reads the deletion, and counts the user's own facts.
    case find
    /// Removes the user's own facts, and keeps the deletion with what was found about the user.
    case begin(removed: [Deletion.Removed], nodes: [String])
    /// Ends the deletion: no node has found a fact about the user any more.
    case end

    /// Whether the step changes nothing.
    public var isRead: Bool { self == .find }

    init(from wire: inout WireReader) throws(DecodeError) {
        switch try wire.tag() {
        case 0: self = .find
        case 1:
            self = .begin(
                removed: try wire.list { reader throws(DecodeError) in try Deletion.Removed(from: &reader) },
                nodes: try wire.list { reader throws(DecodeError) in try reader.text(bytesMax: Limits.nameBytesMax) })
        case 2: self = .end
        case let other: throw .unknownTag(other)
        }
    }

    func write(into wire: inout WireWriter) {
        switch self {
        case .find: wire.tag(0)
        case .begin(let removed, let nodes):
            wire.tag(1)
            wire.list(removed) { $1.write(into: &$0) }
            wire.list(nodes) { $0.text($1) }
        case .end: wire.tag(2)
        }
    }
}

/// The deletion that the owner of a user knows.
public struct DeletionAnswer: OwnAnswer {
    /// The deletion; nil if the user was not deleted, or has come back since.
    public let deletion: Deletion?
    /// The user's own facts.
    public let facts: [Deletion.Removed]

    public init(_ deletion: Deletion?, facts: [Deletion.Removed] = []) { (self.deletion, self.facts) = (deletion, facts) }

    public init?(_ answer: PresenceWire.Answer) {
        guard case .deleted(let answer) = answer else { return nil }
        self = answer
    }

    public var answer: PresenceWire.Answer { .deleted(self) }

    init(from wire: inout WireReader) throws(DecodeError) {
        deletion = try wire.optional { reader throws(DecodeError) in try Deletion(from: &reader) }
        facts = try wire.list { reader throws(DecodeError) in try Deletion.Removed(from: &reader) }
    }

    func write(into wire: inout WireWriter) {
        wire.optional(deletion) { $1.write(into: &$0) }
        wire.list(facts) { $1.write(into: &$0) }
    }
}
