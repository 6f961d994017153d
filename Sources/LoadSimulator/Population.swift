import PresenceWire

/// The users, by number, and their watch lists: a pure function of the options.
struct Population {
    /// The numbers of the users that each user watches, sorted, without its own.
    let watched: [[UInt32]]
    /// The number of watchers of each user.
    let watchersCounts: [Int]
    /// Two users whose relationship changes in scenario `social`.
    struct Pair: Equatable {
        let first: Int
        let second: Int

        /// The other user of the pair.
        func other(than user: Int) -> Int { user == first ? second : first }
    }

    /// In scenario `social` every tenth user, from the first one, has no relationships. These users see all others as they are.
    static let bystandersEvery = 10
    /// In scenario `social` a user is in so many pairs with users before it, and as many with users after it.
    private static let reach = 3

    /// The pairs of scenario `social`. No user of a pair watches the other, because a block hides one from the other.
    let pairs: [Pair]
    /// The indices of each user's pairs.
    let pairsOfUser: [[Int]]
    /// The users with relationships, sorted.
    let members: [Int]
    private let prefix: String

    init(scenario: Scenario, users: Int, watch: Int, seed: UInt64) {
        var random = SplitMix64(seed: seed)
        prefix = "s\(seed)u"
        members = scenario == .social ? (0..<users).filter { $0 % Self.bystandersEvery != 0 } : []
        (pairs, pairsOfUser) = Self.pairs(of: members, users: users, seed: seed)
        switch scenario {
        case .celebrity: watched = (0..<users).map { $0 == 0 ? [] : [0] }
        case .steady, .mesh, .loginStorm, .flapping, .social:
            let (pairs, pairsOfUser) = (pairs, pairsOfUser)
            watched = (0..<users).map { user in
                let excluded = [user] + pairsOfUser[user].map { pairs[$0].other(than: user) }
                var chosen: Set<UInt32> = []
                while chosen.count < watch {
                    let other = UInt32.random(in: 0..<UInt32(users), using: &random)
                    if !excluded.contains(Int(other)) { chosen.insert(other) }
                }
                return chosen.sorted()
            }
        }
        var counts = Array(repeating: 0, count: users)
        for list in watched { for user in list { counts[Int(user)] += 1 } }
        watchersCounts = counts
    }

    /// The most users that each user may watch.
    static func watchMax(scenario: Scenario, users: Int) -> Int {
        guard scenario == .social else { return users - 1 }
        let members = users - (users + bystandersEvery - 1) / bystandersEvery
        return users - 1 - min(2 * reach, max(members - 1, 0))
    }

    /// Pairs neighbors on a circle on which the members stand in random order.
    private static func pairs(of members: [Int], users: Int, seed: UInt64) -> ([Pair], [[Int]]) {
        var random = SplitMix64(seed: seed &* 17 &+ 3)
        let circle = members.shuffled(using: &random)
        var pairs: [Pair] = []
        var pairsOfUser: [[Int]] = Array(repeating: [], count: users)
        for (place, user) in circle.enumerated() {
            for step in 1...reach {
                let other = circle[(place + step) % circle.count]
                guard other != user, !pairsOfUser[user].contains(where: { pairs[$0].other(than: user) == other }) else { continue }
                pairsOfUser[user].append(pairs.count)
                pairsOfUser[other].append(pairs.count)
                pairs.append(Pair(first: user, second: other))
            }
        }
        return (pairs, pairsOfUser)
    }

    /// The index of the pair of two users; nil if they are none.
    func pair(of user: Int, and other: Int) -> Int? { pairsOfUser[user].first { pairs[$0].other(than: user) == other } }

    /// Draws a user who sees the records of all others as they are.
    func observer(using random: inout some RandomNumberGenerator) -> Int {
        guard !members.isEmpty else { return Int.random(in: 0..<watched.count, using: &random) }
        return Int.random(in: 0...(watched.count - 1) / Self.bystandersEvery, using: &random) * Self.bystandersEvery
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
