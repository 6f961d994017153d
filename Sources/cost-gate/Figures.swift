import Glibc
import PresenceCore
import PresenceWire

/// The counted figures. Each prepares, warms up, and counts only inside ``World/measuredRegion(_:)``.
enum Figure: String, CaseIterable {
    /// A call that the node answers itself: `getUserStatus` of the own user.
    case request
    /// A client that connects and opens its event stream with a known token.
    case login
    /// A record of another node, up to the one stream that receives it.
    case delta
    /// An event for a stream with its own connection.
    case push
    /// An event for one of 500 streams of a connection.
    case multiplexed

    /// The users of the figure.
    var users: [String] {
        switch self {
        case .request: (0..<16).map { "user\($0)" }
        case .login: (0..<500).map { "user\($0)" } + ["other"]
        case .delta: ["watcher"]
        case .push: (0..<500).map { "user\($0)" } + ["star"]
        case .multiplexed: (0..<1_000).map { "user\($0)" } + ["star"]
        }
    }

    /// Returns the number of counted operations.
    func count(_ world: World) throws -> Int {
        switch self {
        case .request: try countRequests(world)
        case .login: try countLogins(world)
        case .delta: try countDeltas(world)
        case .push: try countPushes(world, streams: 1)
        case .multiplexed: try countPushes(world, streams: 500)
        }
    }

    private func countRequests(_ world: World) throws -> Int {
        let perTurn = 32, warmUp = 4, rounds = 12
        let clients = try users.map { user in
            let client = try Client(world)
            client.call("getUserStatus", #"{"userIDs":["\#(user)"]}"#, token: world.token(of: user))
            try client.exchange { $0.answersCount == 1 }
            return (user, client)
        }
        for round in 0..<warmUp + rounds {
            for (user, client) in clients {
                for _ in 0..<perTurn { client.call("getUserStatus", #"{"userIDs":["\#(user)"]}"#, token: world.token(of: user)) }
                try client.encode()
                world.loop.run()
                if round < warmUp { client.deliver() } else { world.measuredRegion(client) }
                try client.collect()
            }
        }
        let answers = clients.reduce(0) { $0 + $1.1.received.answersCount }
        return try counted(rounds * users.count * perTurn, seen: answers - clients.count - warmUp * users.count * perTurn)
    }

    private func countLogins(_ world: World) throws -> Int {
        let warmUp = 100
        let first = try Client(world)
        let names = users.dropLast()
        try world.follow((0..<5).map { "user\($0)" }, by: Array(names), through: first)
        var clients: [Client] = []
        for (index, user) in names.enumerated() {
            let client = try Client(world)
            clients.append(client)
            client.openStream(token: world.token(of: user))
            try client.encode()
            world.loop.run()
            if index < warmUp { client.deliver() } else { world.measuredRegion(client) }
            try client.collect()
            // onConnected, the statuses, onSubscriptionSyncCompleted
            guard client.received.eventsCount >= 3 else {
                throw GateError(description: "\(user) was told \(client.received.eventsCount) events")
            }
        }
        return names.count - warmUp
    }

    private func countDeltas(_ world: World) throws -> Int {
        // Each of the 100 users changes 20 times, which is the burst of `rate.changes`.
        let perBatch = 50, warmUp = 10, batches = 30
        let client = try Client(world, room: 1 << 20)
        let names = (0..<100).map { "user\($0)" }
        try world.follow(names, by: users, through: client)
        try world.open(users, on: client)
        world.node.meet(NodeID("b"))
        let wall = wallMilliseconds()
        var number: UInt16 = 0
        let before = client.received.eventsCount
        for batch in 0..<warmUp + batches {
            var writer = WireWriter()
            for index in 0..<perBatch {
                number += 1
                var record = Record(blank: UserID(app: "default", id: names[(batch * perBatch + index) % names.count]))
                record.version = Version(milliseconds: wall, counter: number, node: 7)
                record.statusType = .online
                record.onlinePlatforms = ["ios"]
                record.customStatus = "busy"
                record.lastUpdateTime = wall + Milliseconds(number)
                record.lastSeenTime = wall
                writer.message(.delta(record))
            }
            world.loop.run()
            if batch < warmUp { try world.take(writer.bytes) } else { try world.measuredRegion(batch: writer.bytes) }
            try client.collect()
            // The flow-control window opens again.
            client.deliver()
        }
        return try counted(batches * perBatch, seen: client.received.eventsCount - before - warmUp * perBatch)
    }

    private func countPushes(_ world: World, streams: Int) throws -> Int {
        // Together the burst of `rate.changes`.
        let warmUp = 6, changes = 14
        let star = try Client(world)
        let watchers = Array(users.dropLast())
        try world.follow(["star"], by: watchers, through: star)
        let clients = try stride(from: 0, to: watchers.count, by: streams).map { start in
            let client = try Client(world, room: streams * 1_024 + 16_384)
            try world.open(Array(watchers[start..<start + streams]), on: client)
            return client
        }
        var before = 0
        for change in 0..<warmUp + changes {
            if change == warmUp { before = clients.reduce(0) { $0 + $1.received.eventsCount } }
            star.call("setSelfStatus", #"{"customStatus":"status \#(100 + change)"}"#, token: world.token(of: "star"))
            // The first call has a token that must be checked.
            if change == 0 { try star.exchange { $0.answersCount > watchers.count } }
            try star.encode()
            world.loop.run()
            if change < warmUp { star.deliver() } else { world.measuredRegion(star) }
            try star.collect()
            for client in clients { try client.collect() }
        }
        return try counted(changes * watchers.count, seen: clients.reduce(0) { $0 + $1.received.eventsCount } - before)
    }

    private func counted(_ count: Int, seen: Int) throws -> Int {
        guard seen == count else { throw GateError(description: "\(seen) of \(count) were seen") }
        return count
    }
}

/// The wall clock.
private func wallMilliseconds() -> Milliseconds {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
}
