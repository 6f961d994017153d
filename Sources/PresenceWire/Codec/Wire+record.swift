extension WireWriter {
    /// Writes a user: the bytes of app, NUL and ID.
    public mutating func user(_ value: UserID) { text(value.joined) }

    /// Writes a version: stamp and node.
    public mutating func version(_ value: Version) {
        unsigned(value.stamp)
        unsigned(UInt64(value.node))
    }

    /// Writes a session's identity.
    public mutating func session(_ value: SessionID) {
        unsigned(value.stamp)
        unsigned(UInt64(value.node))
    }

    /// Writes a whole record.
    public mutating func record(_ value: Record) {
        hiddenView(value)
        if value.hasPrivacy, let rule = value.privacy { self.rule(rule, of: value.user) } else { tag(RuleTag.none) }
    }

    /// Writes a record without the visibility of its user.
    mutating func hiddenView(_ value: Record) {
        user(value.user)
        version(value.version)
        tag(value.statusType.rawValue)
        text(value.customStatus)
        signed(value.customStatusExpiresAt)
        version(value.customStatusVersion)
        list(value.onlinePlatforms) { $0.text($1) }
        value.writeFlags(into: &self)
        list(value.pushDevices) { writer, device in
            writer.text(device.platform)
            writer.text(device.deviceID)
            writer.signed(device.until)
        }
        optional(value.hasPublished ? value.events : nil) { writer, events in
            writer.optional(events.newest) { $0.event($1) }
            writer.optional(events.forLogins) { $0.event($1) }
            writer.version(events.newestID)
            writer.version(events.newestIDForLogins)
        }
        signed(value.lastUpdateTime)
        signed(value.lastOnlineStatusUpdateTime)
        signed(value.lastCustomStatusUpdateTime)
        signed(value.lastSeenTime)
        signed(value.knownSince)
    }

    private mutating func event(_ event: PublishedEvent) {
        signed(event.value)
        text(event.ext)
        signed(event.expiresAt)
        version(event.id)
        tag((event.isForOnlineOnly ? 1 : 0) | (event.isSynced ? 2 : 0))
        optional(event.session) { $0.session($1) }
    }
}

extension WireWriter {
    /// Writes a durable row. Its value is JSON, and therefore text.
    public mutating func row(_ row: Row) {
        user(row.user)
        tag(row.kind.rawValue)
        text(row.key)
        version(row.version)
        optional(row.value) { $0.text(String(decoding: $1, as: UTF8.self)) }
        optional(row.expiresAt) { $0.signed($1) }
    }
}

extension WireReader {
    /// See ``WireWriter/row(_:)``.
    public mutating func row() throws(DecodeError) -> Row {
        let user = try user()
        let code = try tag()
        guard let kind = Row.Kind(rawValue: code) else { throw .unknownTag(code) }
        return Row(
            user: user, kind: kind, key: try text(bytesMax: Limits.nameBytesMax), version: try version(),
            value: try optional { reader throws(DecodeError) in Array(try reader.text(bytesMax: kind.valueBytesMax).utf8) },
            expiresAt: try optional { reader throws(DecodeError) in try reader.time() })
    }

    /// See ``WireWriter/user(_:)``. Throws when the name breaks the rules of user IDs (<doc:HTTPAPI#Callers-and-tokens>).
    public mutating func user() throws(DecodeError) -> UserID {
        let bytes = try textBytes(bytesMax: 2 * Limits.nameBytesMax + 1)
        let joined = try text(bytesMax: 2 * Limits.nameBytesMax + 1)
        if Limits.arePlainNames(bytes) { return UserID(joined: joined) }
        let parts = joined.utf8.split(separator: 0, omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ Limits.isValidName(Substring($0)) }) else { throw .notUTF8 }
        return UserID(joined: joined)
    }

    /// See ``WireWriter/version(_:)``.
    public mutating func version() throws(DecodeError) -> Version {
        Version(stamp: try unsigned(), node: try node())
    }

    /// See ``WireWriter/session(_:)``.
    public mutating func session() throws(DecodeError) -> SessionID {
        SessionID(stamp: try unsigned(), node: try node())
    }

    private mutating func node() throws(DecodeError) -> UInt32 {
        let value = try unsigned()
        guard let node = UInt32(exactly: value) else { throw .tooLong(count: Int(clamping: value), limit: Int(UInt32.max)) }
        return node
    }

    private mutating func publishedEvent() throws(DecodeError) -> PublishedEvent {
        var event = PublishedEvent(
            value: try signed(), ext: try text(bytesMax: Limits.eventBytesMax), expiresAt: try time(), id: try version())
        let flags = try tag()
        guard flags < 4 else { throw .unknownTag(flags) }
        (event.isForOnlineOnly, event.isSynced) = (flags & 1 != 0, flags & 2 != 0)
        event.session = try optional { reader throws(DecodeError) in try reader.session() }
        return event
    }

    /// See ``WireWriter/record(_:)``.
    public mutating func record() throws(DecodeError) -> Record {
        var record = try hiddenView()
        let tag = try tag(as: RuleTag.self)
        if tag != .none { record.privacy = try rule(tag, of: record.user) }
        return record
    }

    /// See ``WireWriter/hiddenView(_:)``.
    mutating func hiddenView() throws(DecodeError) -> Record {
        var record = Record(blank: try user())
        record.version = try version()
        let status = try tag()
        guard let statusType = StatusType(rawValue: status) else { throw .unknownTag(status) }
        record.statusType = statusType
        record.customStatus = try text(bytesMax: Limits.customStatusBytesMax)
        record.customStatusExpiresAt = try time()
        record.customStatusVersion = try version()
        record.onlinePlatforms = try list(countMax: Limits.sessionsPerUserMax) { reader throws(DecodeError) in
            try reader.text(bytesMax: Limits.platformBytesMax)
        }
        try record.readFlags(from: &self)
        record.pushDevices = try list(countMax: PushDevice.countMax) { reader throws(DecodeError) in
            PushDevice(
                platform: try reader.text(bytesMax: Limits.platformBytesMax), deviceID: try reader.text(bytesMax: Limits.deviceBytesMax),
                until: try reader.time())
        }
        let events = try optional { reader throws(DecodeError) in
            PublishedEvents(
                newest: try reader.optional { reader throws(DecodeError) in try reader.publishedEvent() },
                forLogins: try reader.optional { reader throws(DecodeError) in try reader.publishedEvent() },
                newestID: try reader.version(), newestIDForLogins: try reader.version())
        }
        if let events { record.events = events }
        record.lastUpdateTime = try time()
        record.lastOnlineStatusUpdateTime = try time()
        record.lastCustomStatusUpdateTime = try time()
        record.lastSeenTime = try time()
        record.knownSince = try time()
        return record
    }
}

extension Record {
    private static let registeredFlag: UInt8 = 1
    private static let profileFlag: UInt8 = 2
    private static let ownEndFlag: UInt8 = 4

    /// Writes one byte, and the version of the profile if there is one.
    fileprivate func writeFlags(into wire: inout WireWriter) {
        let hasProfile = profileVersion > .zero
        wire.tag(
            (isRegistered ? Self.registeredFlag : 0) | (hasProfile ? Self.profileFlag : 0) | (customStatusHasOwnEnd ? Self.ownEndFlag : 0))
        if hasProfile { wire.version(profileVersion) }
    }

    fileprivate mutating func readFlags(from wire: inout WireReader) throws(DecodeError) {
        let flags = try wire.tag()
        guard flags < 8 else { throw .unknownTag(flags) }
        customStatusHasOwnEnd = flags & Self.ownEndFlag != 0
        isRegistered = flags & Self.registeredFlag != 0
        if flags & Self.profileFlag != 0 { profileVersion = try wire.version() }
    }
}

extension Row.Kind {
    /// Longest value of a row of this kind, in bytes.
    fileprivate var valueBytesMax: Int { self == .visibility ? Limits.visibilityRowBytesMax : Limits.rowBytesMax }
}
