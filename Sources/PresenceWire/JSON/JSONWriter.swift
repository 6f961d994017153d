/// Appends JSON text (RFC 8259) to a byte array, without an intermediate tree. Every push and answer is built with it.
public struct JSONWriter: Sendable {
    /// The text written until now, UTF-8.
    public var bytes: [UInt8]
    fileprivate var needsComma = false

    public init(reserving bytesCount: Int = 0) {
        bytes = []
        if bytesCount > 0 { bytes.reserveCapacity(bytesCount) }
    }

    /// Empties the text and keeps its memory.
    public mutating func clear() {
        bytes.removeAll(keepingCapacity: true)
        needsComma = false
    }

    /// Writes `{`, the output of `body`, and `}`.
    @inlinable
    public mutating func object(_ body: (inout JSONWriter) -> Void) {
        open(123)
        body(&self)
        close(125)
    }

    /// Adds members to the object that was written last, which is not empty.
    public mutating func reopen(_ body: (inout JSONWriter) -> Void) {
        precondition(bytes.popLast() == 125, "no object was written last")
        needsComma = true
        body(&self)
        close(125)
    }

    /// Writes `[`, the output of `body`, and `]`.
    @inlinable
    public mutating func array(_ body: (inout JSONWriter) -> Void) {
        open(91)
        body(&self)
        close(93)
    }

    /// Writes a member's name; its value must follow. The name must need no escape.
    public mutating func key(_ name: StaticString) {
        FieldText.append(name.utf8CodeUnitCount + 4, to: &bytes) { text in
            if needsComma { text.byte(44) }
            text.byte(34)
            text.raw(name)
            text.byte(34)
            text.byte(58)
        }
        needsComma = false
    }

    /// Writes a member's name that is not known at compile time; its value must follow.
    public mutating func key(text name: String) {
        string(name)
        bytes.append(58)
        needsComma = false
    }

    /// Writes a number or `null` from its text.
    mutating func literal(_ text: String) {
        comma()
        bytes.append(contentsOf: text.utf8)
        needsComma = true
    }

    /// Writes a truth value.
    public mutating func bool(_ value: Bool) {
        comma()
        raw(value ? "true" : "false")
        needsComma = true
    }

    /// Writes a member with a text.
    public mutating func member(_ name: StaticString, _ value: some StringProtocol) {
        key(name)
        string(value)
    }

    /// Writes a member with an integer.
    public mutating func member(_ name: StaticString, _ value: Int64) {
        key(name)
        integer(value)
    }

    /// Writes a member with a finite number.
    public mutating func member(_ name: StaticString, number: Double) {
        key(name)
        literal("\(number)")
    }

    /// Writes a member with a truth value.
    public mutating func member(_ name: StaticString, _ value: Bool) {
        key(name)
        bool(value)
    }

    /// Writes a text with its quotes and escapes.
    public mutating func string(_ value: some StringProtocol) {
        comma()
        bytes.append(34)
        let copied: Void? = value.utf8.withContiguousStorageIfAvailable { escape($0) }
        if copied == nil { Array(value.utf8).withUnsafeBufferPointer { escape($0) } }
        bytes.append(34)
        needsComma = true
    }

    /// Writes an integer in decimal.
    public mutating func integer(_ value: Int64) {
        comma()
        needsComma = true
        FieldText.append(20, to: &bytes) { $0.integer(value) }
    }

    /// Writes a member with a version as text.
    public mutating func member(_ name: StaticString, _ value: Version) {
        key(name)
        bytes.append(34)
        value.appendText(to: &bytes)
        bytes.append(34)
        needsComma = true
    }

    /// Writes a value that is JSON already.
    public mutating func value(_ json: [UInt8]) {
        comma()
        bytes.append(contentsOf: json)
        needsComma = true
    }

    /// Writes a part of a text that is JSON already.
    public mutating func value(_ json: ArraySlice<UInt8>) {
        comma()
        bytes.append(contentsOf: json)
        needsComma = true
    }

    /// Writes a member whose value is JSON already.
    public mutating func member(_ name: StaticString, json: [UInt8]) {
        key(name)
        bytes.append(contentsOf: json)
        needsComma = true
    }

    /// Writes bytes that are not a JSON value, such as the frame of a server-sent event; starts a new value.
    public mutating func raw(_ text: StaticString) {
        FieldText.append(text.utf8CodeUnitCount, to: &bytes) { $0.raw(text) }
        needsComma = false
    }

    @usableFromInline
    mutating func open(_ bracket: UInt8) {
        comma()
        bytes.append(bracket)
        needsComma = false
    }

    @usableFromInline
    mutating func close(_ bracket: UInt8) {
        bytes.append(bracket)
        needsComma = true
    }

    fileprivate mutating func comma() {
        if needsComma { bytes.append(44) }
    }

    fileprivate mutating func escape(_ text: UnsafeBufferPointer<UInt8>) {
        var isPlain = true
        for byte in text where byte < 0x20 || byte == 34 || byte == 92 { isPlain = false }
        if isPlain { return FieldText.append(text.count, to: &bytes) { $0.raw(text) } }
        for byte in text {
            switch byte {
            case 34, 92:
                bytes.append(92)
                bytes.append(byte)
            case 0..<0x20:
                raw("\\u00")
                Hex.append(UInt64(byte), digits: 2, to: &bytes)
            default: bytes.append(byte)
            }
        }
    }
}

extension String {
    /// The bytes of the text in JSON, without its quotes.
    var escapedBytes: Int {
        var count = 0
        for byte in utf8 { count += byte < 0x20 ? 6 : byte == 34 || byte == 92 ? 2 : 1 }
        return count
    }
}

extension JSONWriter {
    /// Writes a `UserStatus` (<doc:HTTPAPI#UserStatus>).
    ///
    /// Each name is written together with its punctuation, because statuses are most of what a node writes.
    ///
    /// - Parameters:
    ///   - showsPlatforms: whether to write the platforms; false writes what ``Record/shown(by:)`` shows, without a copy of the record.
    ///   - isUnknown: whether to hide the general status and the time of its change: see ``Policy/SelfReport``.
    ///   - isOwn: whether the receiver is the user itself; it also sees by which session its events were published.
    ///   - isUnsure: whether the node may not know better.
    public mutating func userStatus(
        _ record: Record, showsPlatforms: Bool = true, isUnknown: Bool = false, isOwn: Bool = false, isUnsure: Bool = false
    ) {
        comma()
        raw("{\"userID\":\"")
        record.user.withIDBytes { escape($0) }
        FieldText.append(64, to: &bytes) { text in
            text.raw("\",\"statusType\":\"")
            text.raw(isUnknown ? "UNKNOWN" : record.statusType.literal)
            text.raw("\",\"customStatus\":")
        }
        needsComma = false
        string(record.customStatus)
        raw(",\"onlinePlatforms\":")
        array { json in
            for platform in record.onlinePlatforms where showsPlatforms { json.string(platform) }
        }
        if record.hasEvents {
            let events = record.events
            if let event = events.newest { member("event", event, isOwn: isOwn) }
            if let event = events.forLogins { member("loginEvent", event, isOwn: isOwn) }
        }
        FieldText.append(256, to: &bytes) { text in
            text.raw(",\"lastUpdateTime\":")
            text.integer(isUnknown ? 0 : record.lastUpdateTime)
            text.raw(",\"lastOnlineStatusUpdateTime\":")
            text.integer(record.lastOnlineStatusUpdateTime)
            text.raw(",\"lastCustomStatusUpdateTime\":")
            text.integer(record.lastCustomStatusUpdateTime)
            text.raw(",\"lastSeenTime\":")
            text.integer(record.lastSeenTime)
            text.raw(",\"version\":\"")
            text.version(record.version)
            text.raw(isUnsure ? "\",\"isUnsure\":true}" : "\"}")
        }
        needsComma = true
    }

    private mutating func member(_ name: StaticString, _ event: PublishedEvent, isOwn: Bool) {
        key(name)
        object { json in
            json.member("eventID", event.id.text)
            json.member("value", event.value)
            json.member("ext", event.ext)
            json.member("publishedAt", event.publishedAt)
            json.member("expiresAt", event.expiresAt)
            json.member("sendToOnlineUsersOnly", event.isForOnlineOnly)
            json.member("syncEnabled", event.isSynced)
            if isOwn, let session = event.session { json.member("sessionID", session.description) }
        }
    }
}

extension StatusType {
    /// The name that the HTTP API shows (<doc:HTTPAPI#UserStatus>).
    public var name: String { literal.description }

    fileprivate var literal: StaticString {
        switch self {
        case .unlogined: "UNLOGINED"
        case .offline: "OFFLINE"
        case .online: "ONLINE"
        }
    }

    /// Reads ``name``.
    public init?(name: String) {
        switch name {
        case "UNLOGINED": self = .unlogined
        case "OFFLINE": self = .offline
        case "ONLINE": self = .online
        default: return nil
        }
    }
}
