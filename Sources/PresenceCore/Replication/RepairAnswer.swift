import PresenceWire

/// The answer to a digest of another replica, or to its buckets: smaller buckets, rows, and requests for rows.
///
/// An answer follows from the message alone, and from the users here. A lost message needs no repetition, because the next digest starts
/// again.
struct RepairAnswer {
    let salt: UInt64
    private let peer: PeerIndex
    private let placement: Placement
    private(set) var rows: [Row] = []
    private(set) var buckets: [HashBucket] = []

    init(to peer: PeerIndex, salt: UInt64, placement: Placement) {
        self.peer = peer
        self.salt = salt
        self.placement = placement
    }

    /// Describes a place in which the peer has other rows: its few users, or the hashes of its parts.
    mutating func describe(_ place: HashBucket.Place, _ owner: borrowing Owner) {
        guard hasRoomForBucket else { return }
        let countMax = place.isDivisible ? HashBucket.entriesMax : HashBucket.wantedMax
        if let users = owner.users.usersWithRows(in: place, countMax: countMax, where: isShared) {
            return buckets.append(HashBucket(place, .entries(users.map { owner.users.entry(of: $0, salt: salt) })))
        }
        guard place.isDivisible else { return }
        buckets.append(HashBucket(place, .parts(owner.users.partHashes(of: place, salt: salt, where: isShared))))
    }

    /// Compares a bucket of the peer with the users here.
    mutating func add(_ bucket: HashBucket, _ owner: borrowing Owner) {
        switch bucket.content {
        case .parts(let hashes):
            let own = owner.users.partHashes(of: bucket.place, salt: salt, where: isShared)
            for (part, hash) in hashes.enumerated() where hash != own[part] { describe(bucket.place.part(part), owner) }
        case .entries(let entries): compare(entries, in: bucket.place, owner)
        case .wanted(let keys):
            for user in users(in: bucket.place, owner) where keys.contains(owner.users.entry(of: user, salt: salt).key) {
                send(user, owner)
            }
        }
    }

    /// Sends the rows of users that the peer lacks or has an older version of, and asks for the other users that differ.
    ///
    /// If the newest versions are equal, each side may have a row that the other one lacks.
    private mutating func compare(_ entries: [HashBucket.Entry], in place: HashBucket.Place, _ owner: borrowing Owner) {
        var wanted = Set(entries.map(\.key))
        for user in users(in: place, owner) {
            let own = owner.users.entry(of: user, salt: salt)
            guard let other = entries.first(where: { $0.key == own.key }) else {
                send(user, owner)
                continue
            }
            if other.hash == own.hash || own.newest > other.newest { wanted.remove(other.key) }
            if other.hash != own.hash, own.newest >= other.newest { send(user, owner) }
        }
        guard !wanted.isEmpty, hasRoomForBucket else { return }
        buckets.append(HashBucket(place, .wanted(entries.map(\.key).filter(wanted.contains))))
    }

    private mutating func send(_ user: Owner.Index, _ owner: borrowing Owner) {
        if rows.count < Handoff.rowsSentMax { rows += owner.users.rows(of: user) }
    }

    private func users(in place: HashBucket.Place, _ owner: borrowing Owner) -> [Owner.Index] {
        owner.users.usersWithRows(in: place, countMax: .max, where: isShared) ?? []
    }

    private var hasRoomForBucket: Bool { buckets.count < Message.bucketsMax }

    private func isShared(_ slot: Slot) -> Bool { placement.isShared(slot, with: peer) }
}
