import PresenceWire

/// Whether all records have new versions since this node started, and which of them are still to be written.
enum Renewal: Equatable {
    case none
    /// The records from this index on are not written yet.
    case writing(from: Int)
    case written

    /// Most rows written at a time.
    private static let rowsMax = 2_000

    /// Writes some of the renewed records.
    mutating func write(some users: UserStore, into outbox: inout Outbox) {
        guard case .writing(let start) = self else { return }
        let indices = users.allIndices
        for index in indices.dropFirst(start).prefix(Self.rowsMax) where users.isLive(index) && users[index].record.version > .zero {
            outbox.rows.append(Row(users[index].record))
            if let privacy = users[index].record.privacy { outbox.rows.append(Row(privacy, of: users.user(at: index))) }
        }
        self = start + Self.rowsMax < indices.count ? .writing(from: start + Self.rowsMax) : .written
    }
}
