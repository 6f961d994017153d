import PresenceWire

/// The facts of one user as JSON objects, page by page: all that the owner holds, or those that an import takes.
///
/// The order of kinds is fixed, and that of facts of a kind is by key. So two exports of the same facts have the same bytes.
struct FactExport {
    let id: UserID
    let request: FactExportRequest

    /// The kinds that an owner holds beside those of an import.
    private static let otherKinds: [Row.Kind] = [.visibility, .chainOutbox, .answeredCall, .webhookLog, .deletion]
    /// Rows of a list that are read at a time.
    private static let rowsRead = 64

    private var kinds: [Row.Kind] { request.isWhole ? PortableFact.kinds + Self.otherKinds : PortableFact.kinds }

    /// The next page.
    func page(of owner: borrowing Owner) -> FactExportAnswer {
        guard let user = owner.index(ofKnown: id) else { return FactExportAnswer(facts: [], next: nil) }
        var page = Page(user: id)
        let kinds = kinds
        let start = request.after.flatMap { kinds.firstIndex(of: $0.kind) } ?? 0
        for kind in kinds[start...] where !page.isFull {
            add(kind, after: kind == request.after?.kind ? request.after?.key : nil, of: owner.users[user], to: &page)
        }
        return FactExportAnswer(facts: page.facts, next: page.isFull ? page.last : nil)
    }

    private func add(_ kind: Row.Kind, after key: String?, of user: OwnedUser, to page: inout Page) {
        switch kind {
        case .status: if key == nil { addRecord(of: user, to: &page) }
        case .visibility:
            guard key == nil, let privacy = user.record.privacy else { return }
            page.add(kind) { $0.visibility(privacy.visibility) }
        case .profile:
            guard key == nil, user.list(.profile).liveCount > 0 else { return }
            page.add(kind) { $0.fields(of: user.profile) }
        case .subscription: addSubscriptions(after: key, of: user, to: &page)
        case .webhookLog:
            guard key == nil, let row = user.list(.webhookLog).entry(for: ""), !row.isRemoved,
                let log = try? WebhookLog(Row(row, of: id, .webhookLog)), !log.isEmpty
            else { return }
            page.add(kind) { $0.members(of: log) }
        case .friendGroup, .blocked, .friend, .pendencyIn, .pendencyOut, .pendencyRead, .profileSubscription, .chainOutbox, .answeredCall,
            .deletion:
            addList(kind, after: key, of: user, to: &page)
        case .member, .clock, .policy, .kick: break
        }
    }

    private func addRecord(of user: OwnedUser, to page: inout Page) {
        if request.isWhole {
            guard user.record.version > .zero else { return }
            return page.add(.status) { $0.facts(of: user.record) }
        }
        // A user who has logged in counts as registered. Of the status nothing else leaves a cluster.
        if user.record.isOfKnownUser { page.add(.status) { $0.member("isRegistered", true) } }
    }

    private func addSubscriptions(after key: String?, of user: OwnedUser, to page: inout Page) {
        let last = key.map { UserID($0, besides: id) }
        for entry in user.subscriptions.live where last.map({ $0 < entry.target }) ?? true {
            guard !page.isFull else { return }
            let row = Row(entry, of: id)
            page.add(.subscription, row.key, row.value ?? [], until: row.expiresAt)
        }
    }

    private func addList(_ kind: Row.Kind, after key: String?, of user: OwnedUser, to page: inout Page) {
        let (list, groups) = (user.list(kind), FriendGroups(user.list(.friendGroup), of: id))
        var last = key
        while !page.isFull {
            let rows = list.page(after: last, limit: Self.rowsRead)
            for row in rows where !page.isFull {
                let value = withExistingGroups(row, kind, groups) ?? row.value
                page.add(kind, row.key, value ?? [], until: row.expiresAt)
            }
            guard rows.count == Self.rowsRead else { return }
            last = rows.last?.key
        }
    }

    /// The value of a row without the numbers of groups that were deleted; nil for a row that names none.
    private func withExistingGroups(_ row: RowList.Entry, _ kind: Row.Kind, _ groups: FriendGroups) -> [UInt8]? {
        if kind == .friend, var friend: Friend = row.fact(of: id), !friend.groupIDs.isEmpty {
            friend.groupIDs = groups.existing(friend.groupIDs)
            return Row(friend, of: id, key: row.key, version: row.version).value
        }
        if kind == .pendencyOut, var sent: SentRequest = row.fact(of: id), let group = sent.groupID {
            sent.groupID = groups.existing([group]).first
            return Row(sent, of: id, key: row.key, version: row.version).value
        }
        return nil
    }

    /// A page that grows to ``PresenceWire/FactExportAnswer/bytesMax``.
    private struct Page {
        let user: UserID
        private(set) var facts: [[UInt8]] = []
        private(set) var last: FactPosition?
        private var bytesCount = 0

        init(user: UserID) { self.user = user }

        var isFull: Bool { bytesCount >= FactExportAnswer.bytesMax }

        mutating func add(_ kind: Row.Kind, _ write: (inout JSONWriter) -> Void) {
            var json = JSONWriter(reserving: 256)
            json.object(write)
            add(kind, "", json.bytes, until: nil)
        }

        mutating func add(_ kind: Row.Kind, _ key: String, _ value: [UInt8], until end: Milliseconds?) {
            var json = JSONWriter(reserving: value.count + 128)
            json.object { json in
                json.member("userID", user.id)
                json.member("kind", kind.name)
                json.member("key", key)
                json.member("value", json: value)
                if let end { json.member("expiresAt", end) }
            }
            facts.append(json.bytes)
            bytesCount += json.bytes.count
            last = FactPosition(kind: kind, key: key)
        }
    }
}

extension OwnedUser {
    /// Whether an export has something of the user.
    var hasPortableFacts: Bool {
        record.isOfKnownUser || subscriptions.liveCount > 0 || PortableFact.kinds.contains { list($0).liveCount > 0 }
    }
}

extension JSONWriter {
    /// Writes the members of a visibility that the user has chosen. The friends and the blocked users are facts of their own.
    fileprivate mutating func visibility(_ visibility: Visibility) {
        member("visibility", visibility.mode.rawValue)
        array("userIDs", visibility.listed) { $0.string($1.id) }
        member("invisible", visibility.isInvisible)
    }

    /// Writes the members of a webhook log.
    fileprivate mutating func members(of log: WebhookLog) {
        array("sessions", log.sessions) { json, session in
            json.object { json in
                json.member("sessionID", session.id.description)
                json.member("platform", session.platform)
                json.member("deviceID", session.deviceID)
            }
        }
        array("events", log.events) { json, event in
            json.object { json in
                json.member("version", event.version)
                json.member("isDelivered", event.isDelivered)
                json.member("event", json: event.json)
            }
        }
    }

    /// Writes the values of a profile's fields, by their names.
    fileprivate mutating func fields(of profile: Profile) {
        for field in profile.fields {
            key(text: field.name)
            value(field.value, isCompact: true)
        }
    }
}
