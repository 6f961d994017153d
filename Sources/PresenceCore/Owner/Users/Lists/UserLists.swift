import PresenceWire

/// The durable lists of one user, by kind. It is one pointer, and takes no room for a user without lists.
struct UserLists {
    private struct Element {
        let kind: Row.Kind
        /// The number of unread requests, among the received ones. It stands in the gap behind the kind.
        var unreadCount: UInt32 = 0
        var list = RowList()
        /// See ``UserLists/learnedAt(_:)``.
        var learnedAt: Milliseconds = 0

        /// A time, by the wall clock, before which no row of the list goes without a tombstone.
        var expiresNext: Milliseconds {
            switch kind {
            case .answeredCall: list.oldestHeld.map { $0.milliseconds + AnsweredCalls.keptFor } ?? list.expiresNext
            case .deletion: list.oldestHeld.map { $0.milliseconds + Deletion.keptFor } ?? list.expiresNext
            default: list.expiresNext
            }
        }
    }

    /// The memory of lists.
    struct Size: Equatable {
        /// Allocated bytes.
        var bytes = 0
        /// Rows, tombstones included.
        var rows = 0

        static func += (total: inout Size, size: Size) { (total.bytes, total.rows) = (total.bytes + size.bytes, total.rows + size.rows) }
        static func -= (total: inout Size, size: Size) { (total.bytes, total.rows) = (total.bytes - size.bytes, total.rows - size.rows) }
    }

    /// The lists that have rows, by kind.
    private var elements: [Element] = []

    /// Whether no list has a row.
    var isEmpty: Bool { elements.isEmpty }

    /// The list of a kind; empty if no row of the kind was ever written.
    subscript(kind: Row.Kind) -> RowList { elements.first { $0.kind == kind }?.list ?? RowList() }

    /// The number of rows of all lists that are not tombstones.
    var liveCount: Int { elements.reduce(0) { $0 + $1.list.liveCount } }

    /// The version of the newest change of any list; ``PresenceWire/Version/zero`` for none.
    var version: Version { elements.reduce(.zero) { max($0, $1.list.version) } }

    /// The newest version of a row that a list holds; ``PresenceWire/Version/zero`` for none.
    var newestHeld: Version { elements.reduce(.zero) { max($0, $1.list.newestHeld) } }

    /// A time, by the wall clock, before which ``expireTombstones(at:of:)`` and ``endAnswers(at:of:)`` have no work; `.max` for never.
    var expiresNext: Milliseconds { elements.reduce(.max) { min($0, $1.expiresNext) } }

    /// A time, by the wall clock, before which no row of any list ends by itself; `.max` for never.
    var endsNext: Milliseconds { elements.reduce(.max) { min($0, $1.list.endsNext) } }

    /// A hash of all rows of all lists, in whatever order they arrived; 0 for no rows.
    var hash: UInt64 { elements.reduce(0) { $0 ^ StableHash.mix($1.list.hash, UInt64($1.kind.rawValue)) } }

    /// The allocated bytes of all lists.
    var allocatedCount: Int {
        elements.capacity == 0
            ? 0 : elements.reduce(elements.capacity * MemoryLayout<Element>.stride + 32) { $0 + $1.list.allocatedCount }
    }

    /// The memory of all lists, and the number of their rows.
    var size: Size { Size(bytes: allocatedCount, rows: elements.reduce(0) { $0 + $1.list.count }) }

    /// The rows with wanted versions by kind, tombstones included. The rows of a list are in the order of their changes.
    ///
    /// Several messages may carry the rows to another node. In this order no row is older than those before it, so that the node does not
    /// take it for a change that clients have passed.
    func rows(of user: UserID, where isWanted: (Version) -> Bool = { _ in true }) -> [Row] {
        elements.flatMap { element in element.list.entries(where: isWanted).map { Row($0, of: user, element.kind) } }
    }

    /// Stores a row if it is newer than the one with its kind and key. Returns whether it was.
    mutating func merge(_ row: Row) -> Bool {
        let entry = RowList.Entry(key: row.key, version: row.version, value: row.value, expiresAt: row.expiresAt)
        let index = elements.insertionIndex { $0.kind.rawValue < row.kind.rawValue }
        if index == elements.count || elements[index].kind != row.kind {
            elements.reserveCapacity(elements.count + 1)
            elements.insert(Element(kind: row.kind), at: index)
        }
        let held = row.kind == .pendencyIn ? elements[index].list.entry(for: row.key) : nil
        guard elements[index].list.merge(entry) else { return false }
        switch row.kind {
        case .pendencyIn:
            let time = readTime(of: row.user)
            if Self.isUnread(held, of: row.user, since: time) { elements[index].unreadCount -= 1 }
            if Self.isUnread(entry, of: row.user, since: time) { elements[index].unreadCount += 1 }
        case .pendencyRead: updateUnreadCount(of: row.user)
        default: break
        }
        return true
    }

    // MARK: Unread requests

    /// The number of received requests that were made after the user has read them last (P28).
    ///
    /// It is kept, because each event about the user's lists has it, and to count it reads up to ten thousand requests.
    var unreadCount: UInt32 { elements.first { $0.kind == .pendencyIn }?.unreadCount ?? 0 }

    /// The time up to which the user has read the received requests; 0 for none.
    func readTime(of user: UserID) -> Milliseconds { (self[.pendencyRead].fact("", of: user) as ReadRequests?)?.timestamp ?? 0 }

    private static func isUnread(_ entry: RowList.Entry?, of user: UserID, since readTime: Milliseconds) -> Bool {
        (entry?.fact(of: user) as ReceivedRequest?).map { $0.addTime > readTime } ?? false
    }

    private func countUnread(of user: UserID) -> UInt32 {
        let time = readTime(of: user)
        return UInt32(self[.pendencyIn].liveEntries.count { Self.isUnread($0, of: user, since: time) })
    }

    private mutating func updateUnreadCount(of user: UserID) {
        guard let index = elements.firstIndex(where: { $0.kind == .pendencyIn }) else { return }
        elements[index].unreadCount = countUnread(of: user)
    }

    // MARK: Ends

    /// The time at which this node last learned rows of a list from another node, or began to own the user.
    ///
    /// A client that resumes from an earlier position has not been sent what follows from these rows.
    func learnedAt(_ kind: Row.Kind) -> Milliseconds { elements.first { $0.kind == kind }?.learnedAt ?? 0 }

    /// Records that this node has learned rows of a list from elsewhere: see ``learnedAt(_:)``.
    mutating func learn(_ kind: Row.Kind, at time: Milliseconds) {
        guard let index = elements.firstIndex(where: { $0.kind == kind }) else { return }
        elements[index].learnedAt = max(elements[index].learnedAt, time)
    }

    /// Removes the answers of calls that have ended, and the oldest beyond the limit (``AnsweredCalls``). Returns their rows.
    mutating func endAnswers(at wall: Milliseconds, of user: UserID) -> [Row] {
        guard let index = elements.firstIndex(where: { $0.kind == .answeredCall }) else { return [] }
        let ended = elements[index].list.removeOldest(upTo: wall - AnsweredCalls.keptFor, keeping: AnsweredCalls.countMax)
        if elements[index].list.isEmpty { elements.remove(at: index) }
        return ended.map { Row($0, of: user, .answeredCall) }
    }

    /// Removes the deletion of the user after ``PresenceWire/Deletion/keptFor``. Returns its row.
    mutating func endDeletion(at wall: Milliseconds, of user: UserID) -> [Row] {
        guard let index = elements.firstIndex(where: { $0.kind == .deletion }) else { return [] }
        let ended = elements[index].list.removeOldest(upTo: wall - Deletion.keptFor, keeping: 1)
        if elements[index].list.isEmpty { elements.remove(at: index) }
        return ended.map { Row($0, of: user, .deletion) }
    }

    /// Removes all rows that are not newer than the deletion of the user, without tombstones. Returns them. Webhook events stay.
    mutating func removeAll(upTo version: Version, of user: UserID) -> [Row] {
        var removed: [Row] = []
        for index in elements.indices where elements[index].kind != .deletion && elements[index].kind != .webhookLog {
            removed += elements[index].list.removeAll(upTo: version).map { Row($0, of: user, elements[index].kind) }
        }
        elements.removeAll { $0.list.isEmpty }
        updateUnreadCount(of: user)
        return removed
    }

    /// Removes expired tombstones from every list: see ``TypedList/expireTombstones(at:)``. Returns their rows.
    mutating func expireTombstones(at wall: Milliseconds, of user: UserID) -> [Row] {
        var expired: [Row] = []
        for index in elements.indices where elements[index].list.expiresNext <= wall {
            expired += elements[index].list.expireTombstones(at: wall).map { Row($0, of: user, elements[index].kind) }
        }
        return expired
    }

    /// Computes ``endsNext`` again, after rows have ended.
    mutating func updateEnds() { for index in elements.indices { elements[index].list.updateEnds() } }

    /// The first derived value of a list that does not match its rows, in words; nil for none. For simulations and tests.
    func brokenInvariant(of user: UserID) -> String? {
        let unread = isEmpty ? 0 : countUnread(of: user)
        guard unreadCount == unread else { return "\(unreadCount) requests count as unread, right are \(unread)" }
        for element in elements {
            if let broken = element.list.brokenInvariant() { return "\(element.kind): \(broken)" }
            if element.list.isEmpty { return "\(element.kind): a list without rows is kept" }
        }
        return zip(elements, elements.dropFirst()).allSatisfy { $0.kind.rawValue < $1.kind.rawValue } ? nil : "unsorted lists: \(elements)"
    }
}

extension Row {
    /// The durable form of a row of a list.
    init(_ entry: RowList.Entry, of user: UserID, _ kind: Kind) {
        self.init(user: user, kind: kind, key: entry.key, version: entry.version, value: entry.value, expiresAt: entry.expiresAt)
    }
}
