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
    }

    struct Event: Equatable {
        let version: Version
        var isDelivered = false
        /// The event as a receiver gets it: JSON without line breaks, UTF-8.
        let json: [UInt8]
    }

    /// Most events that wait for the receiver. Beyond it the oldest becomes a dead letter.
    static let waitingMax = 100
    /// Most delivered events that are kept for a replay.
    static let deliveredMax = 8
    /// Most bytes of all events. The row has room for the sessions as well.
    static let eventsBytesMax = 48 << 10
    /// The time that events are kept, and that they are retried: 24 h.
    static let keptFor: Milliseconds = 86_400_000

    /// The announced sessions, in the order of their logins; at most ``PresenceWire/Limits/sessionsPerUserMax`` and a few.
    var sessions: [Session] = []
    /// The events by version.
    private(set) var events: [Event] = []
    /// The version of the newest event that was removed. An event that another copy lacks, and that is newer, was written elsewhere.
    private(set) var removed = Version.zero

    init() {}

    /// Whether nothing is announced and no event is kept.
    var isEmpty: Bool { sessions.isEmpty && events.isEmpty }

    /// The version of the newest event.
    var newest: Version { events.last?.version ?? .zero }

    /// The events that the receiver has not accepted.
    var waiting: some Sequence<Event> { events.lazy.filter { !$0.isDelivered } }

    var hasWaiting: Bool { events.contains { !$0.isDelivered } }

    // MARK: Changes

    /// Adds an event that is newer than all others.
    mutating func append(_ json: [UInt8], version: Version) { events.append(Event(version: version, json: json)) }

    /// Marks the events up to a version as delivered.
    mutating func markDelivered(upTo version: Version) {
        for index in events.indices where events[index].version <= version { events[index].isDelivered = true }
    }

    /// Removes old events, and the oldest beyond the limits. Returns the number of those that were not delivered, by reason.
    mutating func trim(at wall: Milliseconds) -> (expired: Int, full: Int) {
        let expired = remove(events.prefix { $0.version.milliseconds + Self.keptFor <= wall }.count)
        var kept = 0
        var first = events.count
        var bytes = 0
        var counts = (waiting: 0, delivered: 0)
        while first > 0 {
            let event = events[first - 1]
            if event.isDelivered { counts.delivered += 1 } else { counts.waiting += 1 }
            bytes += event.json.count
            guard counts.waiting <= Self.waitingMax, counts.delivered <= Self.deliveredMax, bytes <= Self.eventsBytesMax || kept == 0 else {
                break
            }
            (first, kept) = (first - 1, kept + 1)
        }
        // The delivered ones come first, unless a replay or another owner has mixed them.
        return (expired, remove(first))
    }

    /// Removes the first events. Returns the number of those that were not delivered.
    private mutating func remove(_ count: Int) -> Int {
        guard count > 0 else { return 0 }
        let waiting = events.prefix(count).count { !$0.isDelivered }
        removed = max(removed, events[count - 1].version)
        events.removeFirst(count)
        return waiting
    }

    /// Has the delivered events since a time delivered again. Returns how many, and whether all events since then are kept.
    mutating func replay(since: Milliseconds) -> (count: Int, isComplete: Bool) {
        var count = 0
        for index in events.indices where events[index].isDelivered && events[index].version.milliseconds >= since {
            events[index].isDelivered = false
            count += 1
        }
        return (count, removed == .zero || removed.milliseconds < since)
    }

    /// The log with the events of an older copy that its writer did not know.
    ///
    /// Two owners may each have added some, in a split or because one died before its row arrived here.
    func joined(with older: WebhookLog) -> WebhookLog {
        let unknown = older.events.filter { event in event.version > removed && !events.contains { $0.version == event.version } }
        guard !unknown.isEmpty else { return self }
        var joined = self
        for index in joined.events.indices {
            let isDelivered = older.events.contains { $0.version == events[index].version && $0.isDelivered }
            if isDelivered { joined.events[index].isDelivered = true }
        }
        joined.events = (joined.events + unknown).sorted { $0.version < $1.version }
        return joined
    }
}

// MARK: The row

extension WebhookLog {
    private static let waitingMark = UInt8(ascii: "+")
    private static let deliveredMark = UInt8(ascii: "-")
    private static let newline = UInt8(ascii: "\n")
    private static let space = UInt8(ascii: " ")
    /// The length of a version, and of a session's ID.
    private static let digitsCount = 24

    /// The text of the row.
    var text: [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(events.reduce(64 + 64 * sessions.count) { $0 + $1.json.count + 32 })
        removed.appendText(to: &text)
        for session in sessions { text += " \(session.id)=\(session.platform)".utf8 }
        for event in events {
            text.append(Self.newline)
            text.append(event.isDelivered ? Self.deliveredMark : Self.waitingMark)
            event.version.appendText(to: &text)
            text.append(Self.space)
            text += event.json
        }
        return text
    }

    /// Reads a row of kind ``PresenceWire/Row/Kind/webhookLog``. A tombstone is an empty log.
    init(_ row: Row) throws(RowError) {
        guard let value = row.value else { return }
        let lines = value.split(separator: Self.newline, omittingEmptySubsequences: false)
        try readHead(String(decoding: lines[0], as: UTF8.self), of: row)
        for line in lines.dropFirst() {
            let start = line.startIndex
            guard line.count > Self.digitsCount + 2, [Self.waitingMark, Self.deliveredMark].contains(line[start]),
                let version = Version(text: String(decoding: line[(start + 1)...(start + Self.digitsCount)], as: UTF8.self)),
                line[start + Self.digitsCount + 1] == Self.space, version > newest
            else { throw RowError(row, "line \(events.count + 2) is not a mark, a later version and an event") }
            events.append(
                Event(
                    version: version, isDelivered: line[start] == Self.deliveredMark,
                    json: Array(line[(start + Self.digitsCount + 2)...])))
        }
    }

    private mutating func readHead(_ line: String, of row: Row) throws(RowError) {
        let words = line.split(separator: " ")
        guard let first = words.first, let version = Version(text: String(first)) else {
            throw RowError(row, "the first version is missing")
        }
        removed = version
        for word in words.dropFirst() {
            let parts = word.split(separator: "=", maxSplits: 1)
            guard parts.count == 2, let id = SessionID(parts[0]), Limits.isValidPlatform(String(parts[1])) else {
                throw RowError(row, "\"\(word)\" is not a session and its platform")
            }
            sessions.append(Session(id: id, platform: String(parts[1])))
        }
    }
}
