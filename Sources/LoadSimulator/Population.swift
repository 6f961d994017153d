import PresenceWire

/// The users, by number, and their watch lists: a pure function of the options.
struct Population {
    /// The numbers of the users that each user watches, sorted, without its own.
    let watched: [[UInt32]]
    /// The number of watchers of each user.
    let watchersCounts: [Int]
    private let prefix: String

    init(scenario: Scenario, users: Int, watch: Int, seed: UInt64) {
        var random = SplitMix64(seed: seed)
        prefix = "s\(seed)u"
        switch scenario {
        case .celebrity: watched = (0..<users).map { $0 == 0 ? [] : [0] }
        case .steady, .mesh, .loginStorm, .flapping:
            watched = (0..<users).map { user in
                var chosen: Set<UInt32> = []
                while chosen.count < watch {
                    let other = UInt32.random(in: 0..<UInt32(users), using: &random)
                    if other != UInt32(user) { chosen.insert(other) }
                }
                return chosen.sorted()
            }
        }
        var counts = Array(repeating: 0, count: users)
        for list in watched { for user in list { counts[Int(user)] += 1 } }
        watchersCounts = counts
    }

    /// A user's ID.
    func name(of user: Int) -> String { prefix + String(user) }

    /// The user with this ID; nil for an ID that the simulation does not use.
    func user(named name: UnsafeBufferPointer<UInt8>) -> Int? {
        guard name.count > prefix.utf8.count, zip(name, prefix.utf8).allSatisfy({ $0 == $1 }) else { return nil }
        var user = 0
        for byte in name.dropFirst(prefix.utf8.count) {
            guard (48...57).contains(byte), user < 10_000_000 else { return nil }
            user = user * 10 + Int(byte) - 48
        }
        return user < watched.count ? user : nil
    }

    /// The custom status of a user's n-th change. It names both, so that a push proves its origin.
    static func customStatus(user: Int, change: Int) -> String { "c\(user).\(change)" }

    /// Reads ``customStatus(user:change:)``.
    static func parse(customStatus: UnsafeBufferPointer<UInt8>) -> (user: Int, change: Int)? {
        guard customStatus.first == UInt8(ascii: "c"), customStatus.count <= 30 else { return nil }
        var numbers = [0, 0]
        var part = 0
        for byte in customStatus.dropFirst() {
            if byte == UInt8(ascii: "."), part == 0 {
                part = 1
            } else if (48...57).contains(byte) {
                numbers[part] = numbers[part] &* 10 &+ Int(byte) - 48
            } else {
                return nil
            }
        }
        return part == 1 ? (numbers[0], numbers[1]) : nil
    }
}
