import PresenceWire

/// State by user in a dense array.
///
/// A message's user ID is looked up once, where the message enters. Inside, an index is an array read. An index is used again after
/// ``remove(_:)``. Indices, and so the order of a walk, depend only on the order of the calls.
struct UserTable<Value> {
    typealias Index = UInt32

    private var indices: [UserID: Index] = [:]
    private var slots: [Place] = []
    private var free: [Index] = []

    private struct Place {
        var user: UserID
        var value: Value?
    }

    /// The number of users in the table.
    var count: Int { indices.count }

    /// The index of `user`, if it is here.
    func index(of user: UserID) -> Index? { indices[user] }

    /// The index of `user`. If it is new, `value` is stored.
    mutating func index(of user: UserID, orInsert value: @autoclosure () -> Value) -> (index: Index, isNew: Bool) {
        if let index = indices[user] { return (index, false) }
        let place = Place(user: user, value: value())
        let index: Index
        if let reused = free.popLast() {
            slots[Int(reused)] = place
            index = reused
        } else {
            index = Index(slots.count)
            slots.append(place)
        }
        indices[user] = index
        return (index, true)
    }

    /// Whether a user lives at `index`.
    func isLive(_ index: Index) -> Bool { Int(index) < slots.count && slots[Int(index)].value != nil }

    /// The user at a live index.
    func user(at index: Index) -> UserID { slots[Int(index)].user }

    /// The value at a live index.
    subscript(index: Index) -> Value {
        _read {
            guard case .some = slots[Int(index)].value else { preconditionFailure("no user lives at index \(index)") }
            yield slots[Int(index)].value.unsafelyUnwrapped
        }
        _modify {
            precondition(slots[Int(index)].value != nil, "no user lives at index \(index)")
            yield &slots[Int(index)].value!
        }
    }

    /// Frees an index.
    mutating func remove(_ index: Index) {
        indices[slots[Int(index)].user] = nil
        slots[Int(index)].value = nil
        free.append(index)
    }

    /// All indices, live or free, in order. Check each with ``isLive(_:)``, so that values may change during the walk.
    var allIndices: Range<Index> { 0..<Index(slots.count) }
}
