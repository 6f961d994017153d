import PresenceWire

/// Whether all records were given new versions since this node has begun, and which of them are not written.
enum Renewal: Equatable {
    case none
    /// The records from this place on are not written.
    case writing(from: Int)
    case written

    /// Rows written at a time.
    private static let rowsMax = 2_000

    /// Writes some of the records that were given new versions.
    mutating func write(some users: UserStore, into outbox: inout Outbox) {
        guard case .writing(let start) = self else { return }
        let places = users.places
        for index in places.dropFirst(start).prefix(Self.rowsMax) where users.isLive(index) && users[index].record.version > .zero {
            outbox.rows.append(Row(users[index].record))
            if let privacy = users[index].record.privacy { outbox.rows.append(Row(privacy, of: users.user(at: index))) }
        }
        self = start + Self.rowsMax < places.count ? .writing(from: start + Self.rowsMax) : .written
    }
}
