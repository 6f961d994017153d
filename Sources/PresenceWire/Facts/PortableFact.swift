/// A durable fact of a user on its way into a cluster, or out of it.
///
/// It has no version: the owner that takes it decides one. Its value is that of a row of its kind, as an owner stores it. A profile has the
/// values of its fields alone.
public struct PortableFact: Hashable, Sendable {
    /// The kinds of facts that come into a cluster, in the order in which they leave one: each needs only those before it.
    public static let kinds: [Row.Kind] = [
        .status, .profile, .friendGroup, .blocked, .friend, .pendencyIn, .pendencyOut, .pendencyRead, .subscription, .profileSubscription,
    ]
    /// Most facts of one call.
    public static let callMax = 100
    /// Most bytes of the values of one call, so that the call fits into a batch between two nodes.
    public static let callBytesMax = 512 << 10
    /// Longest value, in bytes.
    public static let valueBytesMax = 32 << 10

    public let kind: Row.Kind
    /// The key of the row: for most kinds the ID of another user.
    public let key: String
    /// A JSON object.
    public let value: [UInt8]
    /// The time at which a subscription ends by itself; nil for never.
    public let expiresAt: Milliseconds?

    public init(kind: Row.Kind, key: String, value: [UInt8], expiresAt: Milliseconds? = nil) {
        (self.kind, self.key, self.value, self.expiresAt) = (kind, key, value, expiresAt)
    }

    init(from wire: inout WireReader) throws(DecodeError) {
        kind = try wire.tag(as: Row.Kind.self)
        key = try wire.text(bytesMax: Limits.nameBytesMax)
        value = Array(try wire.text(bytesMax: Self.valueBytesMax).utf8)
        expiresAt = try wire.optional { reader throws(DecodeError) in try reader.time() }
    }

    func write(into wire: inout WireWriter) {
        wire.tag(kind)
        wire.text(key)
        wire.text(String(decoding: value, as: UTF8.self))
        wire.optional(expiresAt) { $0.signed($1) }
    }
}

extension Row.Kind {
    /// The name of a kind, as exports have it.
    public var name: String { "\(self)" }

    /// Reads ``name``; nil for any other text.
    public init?(name: String) {
        guard let kind = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = kind
    }
}

/// The place of a fact among those of its user: the end of a page of an export.
public struct FactPosition: Hashable, Sendable {
    /// Most bytes of ``text``.
    public static let textBytesMax = Limits.nameBytesMax + 32

    public let kind: Row.Kind
    public let key: String

    public init(kind: Row.Kind, key: String) { (self.kind, self.key) = (kind, key) }

    init(from wire: inout WireReader) throws(DecodeError) {
        (kind, key) = (try wire.tag(as: Row.Kind.self), try wire.text(bytesMax: Self.textBytesMax))
    }

    func write(into wire: inout WireWriter) {
        wire.tag(kind)
        wire.text(key)
    }
}

/// Takes facts into a user's lists, or only says what would become of each.
public struct FactImportRequest: OwnRequest {
    public typealias Answer = FactImportAnswer

    /// At most ``PortableFact/callMax``.
    public let facts: [PortableFact]
    /// Whether the owner decides about each fact, and writes none.
    public let isDryRun: Bool

    public init(_ facts: [PortableFact], isDryRun: Bool) { (self.facts, self.isDryRun) = (facts, isDryRun) }

    init(from wire: inout WireReader) throws(DecodeError) {
        facts = try wire.list(countMax: PortableFact.callMax) { reader throws(DecodeError) in try PortableFact(from: &reader) }
        isDryRun = try wire.flag()
    }

    func write(into wire: inout WireWriter) {
        wire.list(facts) { $1.write(into: &$0) }
        wire.tag(isDryRun ? 1 : 0)
    }
}

/// The outcome of each fact of a ``FactImportRequest``, in its order.
public struct FactImportAnswer: OwnAnswer {
    /// The outcome of one fact.
    public enum Outcome: Hashable, Sendable {
        case imported
        /// The user has a fact of this kind and key, which stays as it is.
        case present
        case refused(Int, String)
    }

    public let outcomes: [Outcome]

    public init(_ outcomes: [Outcome]) { self.outcomes = outcomes }

    public init?(_ answer: PresenceWire.Answer) {
        guard case .factsImported(let answer) = answer else { return nil }
        self = answer
    }

    public var answer: PresenceWire.Answer { .factsImported(self) }

    init(from wire: inout WireReader) throws(DecodeError) {
        outcomes = try wire.list(countMax: PortableFact.callMax) { reader throws(DecodeError) in
            switch try reader.tag() {
            case 0: .imported
            case 1: .present
            case 2: .refused(Int(clamping: try reader.unsigned()), try reader.text(bytesMax: Limits.detailBytesMax))
            case let other: throw .unknownTag(other)
            }
        }
    }

    func write(into wire: inout WireWriter) {
        wire.list(outcomes) { wire, outcome in
            switch outcome {
            case .imported: wire.tag(0)
            case .present: wire.tag(1)
            case .refused(let code, let reason):
                wire.tag(2)
                wire.unsigned(UInt64(clamping: code))
                wire.text(reason)
            }
        }
    }
}

/// Reads a page of the facts of a user.
public struct FactExportRequest: OwnRequest {
    public typealias Answer = FactExportAnswer

    /// The last fact of the page before; nil for the first page.
    public let after: FactPosition?
    /// Whether the page has all that the owner holds of the user; otherwise it has what an import takes.
    public let isWhole: Bool

    public init(after: FactPosition?, isWhole: Bool) { (self.after, self.isWhole) = (after, isWhole) }

    init(from wire: inout WireReader) throws(DecodeError) {
        after = try wire.optional { reader throws(DecodeError) in try FactPosition(from: &reader) }
        isWhole = try wire.flag()
    }

    func write(into wire: inout WireWriter) {
        wire.optional(after) { $1.write(into: &$0) }
        wire.tag(isWhole ? 1 : 0)
    }
}

/// A page of the facts of a user.
public struct FactExportAnswer: OwnAnswer {
    /// The bytes after which a page ends. The last fact of a page may exceed it by the size of a row.
    public static let bytesMax = 256 << 10

    /// Each is a JSON object.
    public let facts: [[UInt8]]
    /// The place of the last fact; nil if no facts follow.
    public let next: FactPosition?

    public init(facts: [[UInt8]], next: FactPosition?) { (self.facts, self.next) = (facts, next) }

    public init?(_ answer: PresenceWire.Answer) {
        guard case .factsExported(let answer) = answer else { return nil }
        self = answer
    }

    public var answer: PresenceWire.Answer { .factsExported(self) }

    init(from wire: inout WireReader) throws(DecodeError) {
        facts = try wire.list { reader throws(DecodeError) in Array(try reader.text(bytesMax: Limits.batchBytesMax).utf8) }
        next = try wire.optional { reader throws(DecodeError) in try FactPosition(from: &reader) }
    }

    func write(into wire: inout WireWriter) {
        wire.list(facts) { $0.text(String(decoding: $1, as: UTF8.self)) }
        wire.optional(next) { $1.write(into: &$0) }
    }
}

/// A fact of another user that names this one.
public struct Mention: Hashable, Sendable {
    public let user: UserID
    public let kind: Row.Kind

    public init(user: UserID, kind: Row.Kind) { (self.user, self.kind) = (user, kind) }
}

/// Reads which users of a node have facts about the request's user, or removes these facts.
public struct MentionRequest: OwnRequest {
    public typealias Answer = MentionAnswer

    /// The first slot that is searched.
    public let slot: Slot
    /// Whether the facts that are found are removed.
    public let removes: Bool

    public init(from slot: Slot, removes: Bool = false) { (self.slot, self.removes) = (slot, removes) }

    init(from wire: inout WireReader) throws(DecodeError) {
        slot = try Self.slot(from: &wire)
        removes = try wire.flag()
    }

    func write(into wire: inout WireWriter) {
        wire.unsigned(UInt64(slot))
        wire.tag(removes ? 1 : 0)
    }
}

extension MentionRequest {
    fileprivate static func slot(from wire: inout WireReader) throws(DecodeError) -> Slot {
        let number = try wire.unsigned()
        guard let slot = Slot(exactly: number) else { throw .outOfRange(Int64(clamping: number)) }
        return slot
    }
}

/// The facts about a user that a node has found.
public struct MentionAnswer: OwnAnswer {
    public let mentions: [Mention]
    /// The first slot that was not searched; nil if all were.
    public let next: Slot?

    public init(_ mentions: [Mention], next: Slot?) { (self.mentions, self.next) = (mentions, next) }

    public init?(_ answer: PresenceWire.Answer) {
        guard case .mentioned(let answer) = answer else { return nil }
        self = answer
    }

    public var answer: PresenceWire.Answer { .mentioned(self) }

    init(from wire: inout WireReader) throws(DecodeError) {
        mentions = try wire.list { reader throws(DecodeError) in
            Mention(user: try reader.user(), kind: try reader.tag(as: Row.Kind.self))
        }
        next = try wire.optional { reader throws(DecodeError) in try MentionRequest.slot(from: &reader) }
    }

    func write(into wire: inout WireWriter) {
        wire.list(mentions) { wire, mention in
            wire.user(mention.user)
            wire.tag(mention.kind)
        }
        wire.optional(next) { $0.unsigned(UInt64($1)) }
    }
}
