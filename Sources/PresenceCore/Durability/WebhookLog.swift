import PresenceWire

/// The webhook events of one user, delivered or not, and the sessions about whose logins there is an event (X2).
///
/// The log is one durable row of the user, which the owner writes together with the change. So an acknowledged change and its event are on
/// the same disks. The next owner compares the announced sessions with those that gateways register, and adds the events that are missing.
///
/// The row is text: a line about the log, and a line for each event with its JSON as it is delivered.
struct WebhookLog: Equatable {
    /// A session whose login was announced.
    struct Session: Equatable {
        let id: SessionID
        let platform: String
        /// Empty if the device has no name.
        let deviceID: String
    }

    struct Event: Equatable {
        let version: Version
        var isDelivered = false
        /// The event as a receiver gets it: JSON without line breaks, UTF-8.
        let json: [UInt8]
    }

    /// Most events that wait for the receiver. Beyond it the oldest becomes a dead letter.
    static let waitingMax = 100
    /// Most delivered events that are kept for a replay. Each change writes them again, so more of them would delay the change.
    static let deliveredMax = 2
    /// Most bytes of all events. The row has room for the sessions as well.
    static let eventsBytesMax = 44 << 10
    /// The time that events are kept, and that they are retried: 24 h.
    static let keptFor: Milliseconds = 86_400_000

    /// The announced sessions, in the order of their logins; at most ``PresenceWire/Limits/sessionsPerUserMax`` and a few.
    var sessions: [Session] = []
    /// The events by version.
    private(set) var events: [Event] = []
    /// The version of the newest removed event of each writer, by node. An event that another copy lacks, and that is newer, was written
    /// by another owner. Those of more than two days ago are left out.
    private(set) var removed: [Version] = []

    init() {}

    /// Whether nothing is announced and no event is kept.
    var isEmpty: Bool { sessions.isEmpty && events.isEmpty }

    /// The version of the newest event.
    var newest: Version { events.last?.version ?? .zero }

    /// The version of the newest event that the log has or had.
    private var newestKnown: Version { max(newest, removed.max() ?? .zero) }

    /// The events that the receiver has not accepted.
    var waiting: some Sequence<Event> { events.lazy.filter { !$0.isDelivered } }

    var hasWaiting: Bool { events.contains { !$0.isDelivered } }

    // MARK: Changes

    /// Adds an event that is newer than all others.
    mutating func append(_ json: [UInt8], version: Version) { events.append(Event(version: version, json: json)) }

    /// Marks events as delivered.
    mutating func markDelivered(_ versions: [Version]) {
        for index in events.indices where versions.contains(events[index].version) { events[index].isDelivered = true }
    }

    /// Removes old events, and the oldest beyond the limits. Returns the number of those that were not delivered, by reason.
    mutating func trim(at wall: Milliseconds, waitingMax: Int = Self.waitingMax) -> (expired: Int, full: Int) {
        let oldest = wall - Self.keptFor
        let expired = remove { $0.version.milliseconds <= oldest }
        var (waiting, delivered, bytes) = (0, 0, 0)
        var kept: Set<Version> = []
        for event in events.reversed() {
            let isKept: Bool
            if event.isDelivered { isKept = delivered < Self.deliveredMax } else { isKept = waiting < waitingMax }
            guard isKept, bytes + event.json.count <= Self.eventsBytesMax || kept.isEmpty else { continue }
            if event.isDelivered { delivered += 1 } else { waiting += 1 }
            bytes += event.json.count
            kept.insert(event.version)
        }
        let full = remove { !kept.contains($0.version) }
        // A copy without this removal may be as old as the event.
        removed.removeAll { $0.milliseconds + 2 * Self.keptFor <= wall }
        return (expired, full)
    }

    /// Removes the events for which `isRemoved` holds. Returns the number of those that were not delivered.
    private mutating func remove(where isRemoved: (Event) -> Bool) -> Int {
        var waiting = 0
        for event in events where isRemoved(event) {
            if !event.isDelivered { waiting += 1 }
            noteRemoved(event.version)
        }
        events.removeAll(where: isRemoved)
        return waiting
    }

    private mutating func noteRemoved(_ version: Version) {
        guard let index = removed.firstIndex(where: { $0.node >= version.node }) else { return removed.append(version) }
        if removed[index].node == version.node {
            removed[index] = max(removed[index], version)
        } else {
            removed.insert(version, at: index)
        }
    }

    /// Whether the log had an event of this version. A copy that has an event has, or had, all older ones of the same writer.
    private func hasRemoved(_ version: Version) -> Bool {
        version <= removed.first { $0.node == version.node } ?? .zero && !events.contains { $0.version == version }
    }

    /// Removes the events that name a user who was deleted. Returns whether there were any.
    mutating func forget(_ user: UserID) -> Bool {
        let (name, count) = (user.inJSON, events.count)
        _ = remove { $0.names(user, inJSON: name) }
        return events.count < count
    }

    /// Removes the events up to the deletion of the user whom they are about. Returns whether there were any.
    mutating func forget(upTo version: Version) -> Bool {
        let count = events.count
        _ = remove { $0.version <= version }
        return events.count < count
    }

    /// Whether an event waits that is not newer than a version.
    func hasWaiting(upTo version: Version) -> Bool { waiting.contains { $0.version <= version } }

    /// Has the delivered events since a time delivered again. Returns how many, and whether all events since then are kept.
    mutating func replay(since: Milliseconds) -> (count: Int, isComplete: Bool) {
        var count = 0
        for index in events.indices where events[index].isDelivered && events[index].version.milliseconds >= since {
            events[index].isDelivered = false
            count += 1
        }
        return (count, removed.allSatisfy { $0.milliseconds < since })
    }

    /// The log with the events of an older copy that its writer did not know, and without those that either has removed.
    ///
    /// Two owners may each have added some, in a split or because one died before its row arrived here. The copy that knows of the newest
    /// event says which sessions are announced, and the other one's events are applied to it, so that each login keeps one end.
    func joined(with older: WebhookLog) -> WebhookLog {
        let (base, other) = older.newestKnown > newestKnown ? (older, self) : (self, older)
        var joined = base
        _ = joined.remove { other.hasRemoved($0.version) }
        for version in other.removed { joined.noteRemoved(version) }
        let unknown = other.events.filter { event in
            !base.events.contains { $0.version == event.version } && !base.hasRemoved(event.version)
        }
        // Without news of the other copy, its events may wait again for a replay.
        guard !unknown.isEmpty else { return joined }
        joined.markDelivered(other.events.lazy.filter(\.isDelivered).map(\.version))
        let told = ToldSessions(by: base, besides: other)
        let dropped = unknown.filter { joined.announce($0, told) }.map(\.version)
        joined.events = (joined.events + unknown).sorted { $0.version < $1.version }
        if !dropped.isEmpty { _ = joined.remove { dropped.contains($0.version) } }
        return joined
    }

    /// Begins or ends the session of an event that another copy has added.
    ///
    /// - Parameter told: the sessions of the log before the join.
    /// - Returns: whether the event is not delivered any more, because the log has, or had, one of its own: the login of a session that it
    ///   has announced, or an end that it has told.
    private mutating func announce(_ event: Event, _ told: ToldSessions) -> Bool {
        guard let session = event.session else { return false }
        let isAnnounced = sessions.contains { $0.id == session.id }
        let hasLater = told.newest[session.id] ?? .zero > event.version
        if session.isLogin {
            if isAnnounced || hasLater { return !event.isDelivered }
            sessions.append(Session(id: session.id, platform: session.platform, deviceID: session.deviceID))
            return false
        }
        if !hasLater { sessions.removeAll { $0.id == session.id } }
        return !isAnnounced && !event.isDelivered && (told.hasForgotten || told.ended.contains(session.id))
    }

    /// The sessions in the events of a log.
    private struct ToldSessions {
        /// The version of the newest event of each session.
        private(set) var newest: [SessionID: Version] = [:]
        private(set) var ended: Set<SessionID> = []
        /// Whether the log has removed events that the other copy never had. They may have been ends of any session.
        let hasForgotten: Bool

        init(by log: WebhookLog, besides other: WebhookLog) {
            for event in log.events {
                guard let session = event.session else { continue }
                newest[session.id] = event.version
                if !session.isLogin { ended.insert(session.id) }
            }
            hasForgotten = log.removed.contains { version in
                !other.hasRemoved(version) && !other.events.contains { $0.version == version }
            }
        }
    }
}

extension WebhookLog.Event {
    /// The session that the event begins or ends; nil for another event.
    fileprivate var session: (id: SessionID, isLogin: Bool, platform: String, deviceID: String)? {
        guard let event = try? JSONReader.read(json), let id = event["sessionID"]?.text.flatMap({ SessionID($0) }),
            let platform = event["platform"]?.text, let deviceID = event["deviceID"]?.text
        else { return nil }
        return (id, event["action"]?.text == "Login", platform, deviceID)
    }

    /// Whether the event, which is about another user, names a user.
    ///
    /// - Parameter name: the ID as it stands in JSON. Few events have it, and only those are read.
    func names(_ user: UserID, inJSON name: [UInt8]) -> Bool {
        guard json.contains(name), let event = try? JSONReader.read(json) else { return false }
        return event.names(String(user.id))
    }
}

extension JSONValue {
    /// Whether a member `userID` or `userIDs`, at any depth, has this ID. Other texts are no users.
    fileprivate func names(_ id: String) -> Bool {
        switch self {
        case .array(let elements): elements.contains { $0.names(id) }
        case .object(let members):
            members.contains { member in
                switch (member.name, member.value) {
                case ("userID", .string(let text)): text == id
                case ("userIDs", .array(let elements)): elements.contains { $0.text == id }
                default: member.value.names(id)
                }
            }
        default: false
        }
    }
}

extension UserID {
    /// The ID as it stands in JSON, with its quotes.
    var inJSON: [UInt8] {
        var json = JSONWriter(reserving: 64)
        json.string(String(id))
        return json.bytes
    }
}

extension [UInt8] {
    /// Whether the bytes contain others.
    func contains(_ part: [UInt8]) -> Bool {
        guard let first = part.first, count >= part.count else { return part.isEmpty }
        return self[...(count - part.count)].indices.contains { self[$0] == first && self[$0...].starts(with: part) }
    }
}

// MARK: The row

extension WebhookLog {
    private static let waitingMark = UInt8(ascii: "+")
    private static let deliveredMark = UInt8(ascii: "-")
    private static let noneMark = UInt8(ascii: "0")
    private static let newline = UInt8(ascii: "\n")
    private static let space = UInt8(ascii: " ")
    private static let equals = UInt8(ascii: "=")
    /// The length of a version, and of a session's ID.
    private static let digitsCount = 24

    /// The text of the row.
    var text: [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(events.reduce(64 + 64 * sessions.count) { $0 + $1.json.count + 32 })
        if removed.isEmpty { text.append(Self.noneMark) }
        for version in removed { version.appendText(to: &text) }
        for session in sessions {
            text += " \(session.id)=\(session.platform)".utf8
            if !session.deviceID.isEmpty { text += "=\(Base64.text(of: Array(session.deviceID.utf8)))".utf8 }
        }
        for event in events {
            text.append(Self.newline)
            text.append(event.isDelivered ? Self.deliveredMark : Self.waitingMark)
            event.version.appendText(to: &text)
            text.append(Self.space)
            text += event.json
        }
        return text
    }

    /// The bytes of the events that wait, without reading them. The text was checked when it was stored.
    static func waitingBytes(in text: [UInt8]?) -> Int {
        guard let text else { return 0 }
        var bytes = 0
        var start = text.firstIndex(of: newline) ?? text.endIndex
        while start < text.endIndex {
            let end = text[(start + 1)...].firstIndex(of: newline) ?? text.endIndex
            if text[(start + 1)..<end].first == waitingMark { bytes += end - start }
            start = end
        }
        return bytes
    }

    /// Reads a row of kind ``PresenceWire/Row/Kind/webhookLog``. A tombstone is an empty log.
    ///
    /// Each change of a user reads the row at the owner and at the replicas, so this reads bytes, and no text.
    init(_ row: Row) throws(RowError) {
        guard let value = row.value else { return }
        var start = value.firstIndex(of: Self.newline) ?? value.endIndex
        try readHead(value[..<start], of: row)
        while start < value.endIndex {
            let end = value[(start + 1)...].firstIndex(of: Self.newline) ?? value.endIndex
            try readEvent(value[(start + 1)..<end], of: row)
            start = end
        }
    }

    private mutating func readEvent(_ line: ArraySlice<UInt8>, of row: Row) throws(RowError) {
        let digits = line.dropFirst().prefix(Self.digitsCount)
        guard line.count > Self.digitsCount + 2, let mark = line.first, mark == Self.waitingMark || mark == Self.deliveredMark,
            let version = Version(digits: digits), version > newest, line[digits.endIndex] == Self.space
        else { throw RowError(row, "line \(events.count + 2) is not a mark, a later version and an event") }
        let json = Array(line[(digits.endIndex + 1)...])
        events.append(Event(version: version, isDelivered: mark == Self.deliveredMark, json: json))
    }

    private mutating func readHead(_ line: ArraySlice<UInt8>, of row: Row) throws(RowError) {
        var words = line.split(separator: Self.space)[...]
        guard let first = words.popFirst(), first.count == 1 ? first.first == Self.noneMark : first.count % Self.digitsCount == 0 else {
            throw RowError(row, "the versions of removed events are missing")
        }
        for start in stride(from: first.startIndex, to: first.count == 1 ? first.startIndex : first.endIndex, by: Self.digitsCount) {
            guard let version = Version(digits: first[start..<start + Self.digitsCount]),
                version.node > removed.last?.node ?? 0 || removed.isEmpty
            else { throw RowError(row, "the version of a removed event is not a later node's version") }
            removed.append(version)
        }
        for word in words {
            let names = word.dropFirst(Self.digitsCount + 1).split(separator: Self.equals, maxSplits: 1)
            let platform = String(decoding: names.first ?? [], as: UTF8.self)
            let device = names.count < 2 ? [] : Base64.bytes(of: String(decoding: names[1], as: UTF8.self))
            guard word.count > Self.digitsCount, word[word.startIndex + Self.digitsCount] == Self.equals,
                let id = SessionID(digits: word.prefix(Self.digitsCount)), Limits.isValidPlatform(platform), let device
            else { throw RowError(row, "\"\(String(decoding: word, as: UTF8.self))\" is not a session, its platform and its device") }
            sessions.append(Session(id: id, platform: platform, deviceID: String(decoding: device, as: UTF8.self)))
        }
    }
}
