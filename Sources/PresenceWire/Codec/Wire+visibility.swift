/// How a record gives the visibility of its user.
enum RuleTag: UInt8 {
    /// The user never changed the visibility.
    case none = 0
    /// The visibility follows.
    case whole = 1
    /// The visibility follows, and both ends of the connection store it under their next number.
    case stored = 2
    /// The number of a stored visibility follows.
    case named = 3
}

extension WireWriter {
    /// Writes a change of a user's visibility.
    mutating func visibility(_ change: Visibility.Change) {
        optional(change.mode) { $0.text($1.rawValue) }
        optional(change.isInvisible) { $0.tag($1 ? 1 : 0) }
        for list in [change.listed, change.blocked] { optional(list) { $0.users($1) } }
    }

    /// Writes the visibility of a record's user: the number under which the connection has carried it, or the whole.
    mutating func rule(_ rule: Privacy, of user: UserID) {
        guard let table = rules else {
            tag(RuleTag.whole)
            return wholeRule(rule)
        }
        switch table.reference(to: rule, of: user) {
        case .whole:
            tag(RuleTag.stored)
            let start = bytes.count
            wholeRule(rule)
            rules?.store(rule, of: user, bytesCount: bytes.count - start)
        case .named(let number):
            tag(RuleTag.named)
            unsigned(number)
        }
    }

    /// Writes a user's visibility with the friends, who are named by their IDs because all are of one app.
    private mutating func wholeRule(_ rule: Privacy) {
        privacy(rule)
        optional(rule.visibility.friends) { writer, friends in writer.list(friends) { $0.text(String($1.id)) } }
    }

    /// Writes a user's visibility, without the friends, and the hidden views.
    mutating func privacy(_ privacy: Privacy) {
        let visibility = privacy.visibility
        text(visibility.mode.rawValue)
        tag(visibility.isInvisible ? 1 : 0)
        for list in [visibility.listed, visibility.blocked] { users(list) }
        for time in [privacy.writtenAt, privacy.version, privacy.heldVersion ?? privacy.version] { version(time) }
        list(privacy.contents) { $0.hiddenView($1) }
        list(privacy.named) { writer, named in
            writer.user(named.user)
            writer.optional(named.view) { $1.write(into: &$0) }
        }
        optional(privacy.others) { $1.write(into: &$0) }
        privacy.news.write(into: &self)
    }
}

extension WireReader {
    /// See ``WireWriter/visibility(_:)``.
    mutating func visibilityChange() throws(DecodeError) -> Visibility.Change {
        Visibility.Change(
            mode: try optional { reader throws(DecodeError) in try reader.mode() },
            isInvisible: try optional { reader throws(DecodeError) in try reader.flag() },
            listed: try optional { reader throws(DecodeError) in try reader.someNames() },
            blocked: try optional { reader throws(DecodeError) in try reader.chainNames() })
    }

    /// See ``WireWriter/rule(_:of:)``. Throws if the connection has not carried the named visibility.
    mutating func rule(_ tag: RuleTag, of user: UserID) throws(DecodeError) -> Privacy {
        guard tag != .named else {
            let number = try unsigned()
            guard let rule = rules?.rule(number, of: user) else { throw .unknownRule(number) }
            return rule
        }
        let start = remainingBytes
        let choice = try privacy()
        let friends = try optional { reader throws(DecodeError) in
            try reader.list(countMax: Limits.chainUsersMax) { reader throws(DecodeError) in try UserID(from: &reader, besides: user) }
        }
        let rule = choice.withFriends(choice.visibility.mode == .friends ? friends : nil)
        let bytesCount = start - remainingBytes
        if tag == .stored { rules?.store(rule, of: user, bytesCount: bytesCount) }
        return rule
    }

    /// See ``WireWriter/privacy(_:)``.
    mutating func privacy() throws(DecodeError) -> Privacy {
        var visibility = Visibility()
        visibility.mode = try mode()
        visibility.isInvisible = try flag()
        visibility.listed = try someNames()
        visibility.blocked = try chainNames()
        let (writtenAt, version, held) = (try version(), try version(), try version())
        let contents = try list { reader throws(DecodeError) in try reader.hiddenView() }
        let named = try list { reader throws(DecodeError) in
            Privacy.Named(user: try reader.user(), view: try reader.optional(Privacy.View.init))
        }
        let others = try optional(Privacy.View.init)
        guard
            let privacy = Privacy(
                visibility: visibility, writtenAt: writtenAt, version: version, heldVersion: held == version ? nil : held,
                contents: contents, named: named, others: others, news: try ProfileNews(&self))
        else { throw .unknownTag(UInt8(clamping: contents.count)) }
        return privacy
    }

    private mutating func mode() throws(DecodeError) -> Visibility.Mode {
        guard let mode = Visibility.Mode(rawValue: try text(bytesMax: Limits.platformBytesMax)) else { throw .unknownTag(0) }
        return mode
    }

    private mutating func someNames() throws(DecodeError) -> [UserID] {
        try list(countMax: Limits.visibilityUsersMax) { reader throws(DecodeError) in try reader.user() }
    }

    private mutating func chainNames() throws(DecodeError) -> [UserID] {
        try list(countMax: Limits.chainUsersMax) { reader throws(DecodeError) in try reader.user() }
    }
}

extension ProfileNews {
    fileprivate func write(into wire: inout WireWriter) {
        wire.list(named) { writer, named in
            writer.user(named.user)
            named.entry.write(into: &writer)
        }
        others.write(into: &wire)
    }

    fileprivate init(_ wire: inout WireReader) throws(DecodeError) {
        let named = try wire.list { reader throws(DecodeError) in Named(user: try reader.user(), entry: try Entry(&reader)) }
        self.init(named: named, others: try Entry(&wire))
    }
}

extension ProfileNews.Entry {
    fileprivate func write(into wire: inout WireWriter) {
        wire.version(stamp)
        wire.optional(known) { $0.version($1) }
    }

    fileprivate init(_ wire: inout WireReader) throws(DecodeError) {
        let stamp = try wire.version()
        self.init(known: try wire.optional { reader throws(DecodeError) in try reader.version() }, stamp: stamp)
    }
}

extension Privacy.View {
    fileprivate func write(into wire: inout WireWriter) {
        wire.unsigned(UInt64(content))
        wire.version(version)
        for time in [
            times.lastUpdateTime, times.lastOnlineStatusUpdateTime, times.lastCustomStatusUpdateTime, times.lastSeenTime, admittedAt,
        ] { wire.signed(time) }
    }

    fileprivate init(_ wire: inout WireReader) throws(DecodeError) {
        let (content, version) = (Int(clamping: try wire.unsigned()), try wire.version())
        let times = RecordTimes(
            lastUpdateTime: try wire.time(), lastOnlineStatusUpdateTime: try wire.time(), lastCustomStatusUpdateTime: try wire.time(),
            lastSeenTime: try wire.time())
        self.init(content: content, version: version, times: times, admittedAt: try wire.time())
    }
}
