import Foundation
import PresenceCore
import PresenceWire

@testable import ClusterSimulation

/// Plays the inputs of a transcript on a simulated cluster, and writes down what follows each block of inputs.
///
/// A blank line ends a block. `----` separates the inputs of a block from what follows them. Lines that begin with `#` are comments.
///
/// | input | does |
/// |---|---|
/// | `cluster nodes=3 faults=kills,clients allow=confirm` | starts the nodes; the first input |
/// | `users ann=node-0 bob=node-1` | names users, each with the node that owns it |
/// | `login ann at=node-2 device=web` | opens a stream; `logout ann` and `lose ann` end one |
/// | `status ann lunch`, `follow bob ann`, `unfollow bob ann`, `query bob ann` | make a call |
/// | `add ann bob`, `accept bob ann`, `kick ann`, `policy JSON` | make a call |
/// | `kill node-0 down=60000`, `drain node-0 down=1000`, `isolate node-0 for=8000`, `stall bob for=4000` | let something fail |
/// | `wait 300` | lets so many milliseconds pass |
/// | `show ann`, `show nodes` | show the state |
struct TranscriptPlayer {
    struct Unreadable: Error { let line: String }

    private static let usersCount = 24
    /// Messages that repeat all the time, whatever happens.
    private static let routine = ["digest", "bucketDigest", "clocks", "complete"]
    private static let lengthMax = 180

    private var cluster: SimulatedCluster
    private var users: [(name: String, user: Int)] = []
    /// Versions and sessions in the order in which they occurred. Their digits would hide what happens.
    private var symbols: [String] = []
    /// The time and the length of the log when the block began.
    private var begin = (milliseconds: 0, logCount: 0)

    static func played(_ text: String) throws -> String {
        var player: TranscriptPlayer?
        let blocks = text.trimmingCharacters(in: .newlines).components(separatedBy: "\n\n")
        let played = try blocks.map { block in
            let inputs = block.components(separatedBy: "\n").prefix { $0 != "----" }
            let commands = inputs.filter { !$0.hasPrefix("#") }
            guard !commands.isEmpty else { return inputs.joined(separator: "\n") }
            if player == nil { player = try TranscriptPlayer(commands[0]) }
            player?.beginBlock()
            var output: [String] = []
            for command in commands { output += try player?.play(command) ?? [] }
            return (inputs + ["----"] + output).joined(separator: "\n")
        }
        return played.joined(separator: "\n\n") + "\n"
    }

    private init(_ command: String) throws {
        let input = Input(command)
        guard input.verb == "cluster" else { throw Unreadable(line: command) }
        // Of the seed only the kind of history counts.
        let seeds: ClosedRange<UInt64> = 1...1_000
        guard let seed = seeds.first(where: { HistoryOptions(seed: $0).kind == .randomSteps }) else { throw Unreadable(line: command) }
        var options = HistoryOptions(seed: seed)
        options.nodesCount = input["nodes"].flatMap { Int($0) } ?? 3
        (options.usersCount, options.gatewaysCount) = (Self.usersCount, 1)
        options.faults = Set((input["faults"] ?? "").split(separator: ",").compactMap { HistoryOptions.Fault(rawValue: String($0)) })
        options.settings = CoreSettings()
        options.settings.policy.chain.rate = nil
        if let type = input["allow"].flatMap({ ChainPolicy.AllowType(rawValue: $0) }) {
            options.settings.policy.chain.defaultAllowType = type
        }
        cluster = SimulatedCluster(options, plan: Plan(steps: []), isLogging: true)
        cluster.begin()
    }

    private mutating func beginBlock() { begin = (cluster.elapsedMilliseconds, cluster.log.count) }

    // MARK: Inputs

    private struct Input {
        let verb: String
        let names: [String]
        let values: [(name: String, value: String)]

        init(_ line: String) {
            let words = line.split(separator: " ").map(String.init)
            let isValue = { (word: String) in word.contains("=") && !word.hasPrefix("{") }
            verb = words.first ?? ""
            names = words.dropFirst().filter { !isValue($0) }
            values = words.dropFirst().filter(isValue).map { word in
                let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
                return (parts[0], parts.count > 1 ? parts[1] : "")
            }
        }

        subscript(_ name: String) -> String? { values.first { $0.name == name }?.value }

        func milliseconds(_ name: String, else standard: Int) -> Int { self[name].flatMap { Int($0) } ?? standard }
    }

    /// Does what a line says. Returns what is to be written at once, or after time has passed.
    private mutating func play(_ line: String) throws -> [String] {
        let input = Input(line)
        switch input.verb {
        case "cluster":
            advance(by: SimulatedCluster.calmMilliseconds + 500)
            beginBlock()
            return nodes()
        case "users": return try input.values.map { try name($0.name, ownedBy: $0.value) }
        case "wait":
            advance(by: Int(input.names.first ?? "") ?? 0)
            return news()
        case "show": return try input.names.first == "nodes" ? nodes() : state(of: user(input.names.first, line))
        case "login": try login(input, line)
        default: cluster.perform(try action(input, line))
        }
        return []
    }

    private func action(_ input: Input, _ line: String) throws -> Step.Action {
        let first = input.names.first
        let second = input.names.dropFirst().first
        switch input.verb {
        case "logout": return .logout(client: try client(first, input, line))
        case "lose": return .drop(client: try client(first, input, line), comesBackAfter: nil)
        case "stall": return .stall(client: try client(first, input, line), milliseconds: input.milliseconds("for", else: 1_000))
        case "status": return .setStatus(user: try user(first, line), text: second ?? "", seconds: nil)
        case "follow": return .subscribe(user: try user(first, line), targets: [try user(second, line)], seconds: nil, sync: false)
        case "unfollow": return .unsubscribe(user: try user(first, line), targets: [try user(second, line)])
        case "query": return .query(user: try user(first, line), targets: [try user(second, line)])
        case "add": return .chain(.add(user: try user(first, line), other: try user(second, line), isTwoWay: true, number: 1))
        case "accept": return .chain(.accept(user: try user(first, line), requester: try user(second, line), isTwoWay: true))
        case "kick": return .kick(user: try user(first, line))
        case "policy": return .setPolicy(first ?? "")
        case "kill": return .kill(node: try node(first, line), downMilliseconds: input.milliseconds("down", else: 1_000))
        case "drain": return .drain(node: try node(first, line), downMilliseconds: input.milliseconds("down", else: 1_000))
        case "isolate": return .isolate(node: try node(first, line), duration: input.milliseconds("for", else: 1_000))
        default: throw Unreadable(line: line)
        }
    }

    private mutating func login(_ input: Input, _ line: String) throws {
        let client = try client(input.names.first, input, line)
        cluster.clients[client].isWanted = true
        cluster.clients[client].tokenIssuedAt = cluster.trueWall
        cluster.clients[client].attempt += 1
        _ = Clients.open(client, on: try node(input["at"], line), &cluster)
    }

    private mutating func advance(by milliseconds: Int) { cluster.advance(to: cluster.time + .milliseconds(milliseconds)) }

    // MARK: Names

    private mutating func name(_ name: String, ownedBy node: String) throws -> String {
        let user = (0..<Self.usersCount).first { user in
            !users.contains { $0.user == user } && cluster.owner(of: user).map { "\(cluster.nodes[$0].id)" } == node
        }
        guard let user else { throw Unreadable(line: "\(name)=\(node)") }
        users.append((name, user))
        return "\(name) is a user of \(node)"
    }

    private func user(_ name: String?, _ line: String) throws -> Int {
        guard let user = users.first(where: { $0.name == name })?.user else { throw Unreadable(line: line) }
        return user
    }

    private func node(_ name: String?, _ line: String) throws -> Int {
        guard let node = cluster.nodes.firstIndex(where: { "\($0.id)" == name }) else { throw Unreadable(line: line) }
        return node
    }

    private func client(_ name: String?, _ input: Input, _ line: String) throws -> Int {
        let device = SimulatedClient.platforms.firstIndex(of: input["device"] ?? SimulatedClient.platforms[0])
        guard let device else { throw Unreadable(line: line) }
        return try user(name, line) * SimulatedClient.devicesPerUser + device
    }

    private func userName(_ number: Int) -> String { users.first { $0.user == number }?.name ?? "user-\(number)" }

    /// A line with names of users, short names of versions and sessions, and times since the start.
    private mutating func readable(_ line: String) -> String {
        let named = line.replacing(/(?:default\/)?user-(\d+)/) { userName(Int($0.1) ?? 0) }
        let timed = named.replacing(/\b179\d{10}\b/) { "T+\((Int($0.0) ?? 0) - Int(SimulatedCluster.epoch))" }
        var text = timed
        for match in timed.matches(of: /\b[0-9a-f]{24}\b/) {
            let digits = String(match.0)
            if Set(digits) == ["0"] { continue }
            let index = symbols.firstIndex(of: digits) ?? symbols.endIndex
            if index == symbols.endIndex { symbols.append(digits) }
            text = text.replacing(digits, with: "#\(index + 1)")
        }
        return text.count > Self.lengthMax ? "\(text.prefix(Self.lengthMax))…" : text
    }

    // MARK: Output

    /// The lines of the log since the block began or since they were last read.
    private mutating func news() -> [String] {
        let entries = cluster.log.dropFirst(begin.logCount)
        begin.logCount = cluster.log.count
        var news: [String] = []
        for entry in entries {
            guard let separator = entry.firstRange(of: " ms  "), let at = Int(entry[..<separator.lowerBound]) else { continue }
            for (index, line) in lines(of: entry[separator.upperBound...]).enumerated() {
                let time = index == 0 ? "\(at - begin.milliseconds)" : ""
                news.append(readable(String(repeating: " ", count: max(5 - time.count, 0)) + "\(time)  \(line)"))
            }
        }
        if let violation = cluster.violation { news.append("BROKEN \(violation)") }
        return news
    }

    /// The lines of an entry; none for what is routine.
    private func lines(of entry: Substring) -> [String] {
        if entry.hasPrefix("step: ") { return [] }
        if let batch = entry.prefixMatch(of: /(node-\d+) takes \d+ bytes from (node-\d+)(, late|, void)?/) {
            let messages = entry.split(separator: "\n").dropFirst().map { $0.trimmingCharacters(in: .whitespaces) }
            let news = messages.filter { message in !Self.routine.contains { $0 == message.prefix { $0.isLetter } } }
            let words = news.map { "    \($0)" }
            return words.isEmpty ? [] : ["\(batch.2) -> \(batch.1)\(batch.3 ?? ""):"] + words
        }
        if let read = entry.prefixMatch(of: /(user-\d+) device (\d+) reads\s/) {
            guard let event = SimulatedClient.Event(Array(entry[read.range.upperBound...].utf8)) else { return [String(entry)] }
            let device = SimulatedClient.platforms[Int(read.2) ?? 0]
            guard event.name == "onUserStatusChanged" else {
                var json = JSONWriter()
                json.value(event.data)
                return ["\(read.1) (\(device)) reads \(event.name) \(String(decoding: json.bytes, as: UTF8.self))"]
            }
            return (event.data["userStatusList"]?.elements ?? []).map { status in
                let words = ["userID", "statusType", "customStatus"].map { status[$0]?.text ?? "" }
                return "\(read.1) (\(device)) reads that \(words[0]) is \(words[1]) \"\(words[2])\""
            }
        }
        return entry.split(separator: "\n").map(String.init)
    }

    private func nodes() -> [String] {
        cluster.nodes.map { node in
            guard node.isUp else { return "\(node.id) is down" }
            let members = node.look { $0.cluster.memberIDs }.map { "\($0)" }.sorted().joined(separator: " ")
            return "\(node.id) owns \(node.look { $0.statistics.slotsOwned }) slots, its members are \(members)"
        }
    }

    /// The record and the lists of a user at its owner, the disks that have the record, and the views of the user's devices.
    private mutating func state(of user: Int) -> [String] {
        guard let owner = cluster.owner(of: user) else { return ["\(userName(user)) has no owner"] }
        let id = cluster.userID(user)
        let kept = cluster.nodes[owner].kept(id)
        let key = SimulatedDisk.Key(id)
        let disks = cluster.nodes.filter { $0.disk.rows[key]?.version == kept.record.version }.map { "\($0.id)" }
        var lines = ["\(cluster.nodes[owner].id) has user-\(user): \(kept.record.words)"]
        lines.append("    on the disks of \(disks.joined(separator: " "))")
        let followed = kept.subscriptions.map { "\($0.target.id)" }
        if !followed.isEmpty { lines.append("    follows \(followed.joined(separator: " "))") }
        for (words, kind) in [("friends", Row.Kind.friend), ("requests to", .pendencyOut), ("requests from", .pendencyIn)] {
            let others = ChainChecks.rows(kind, of: user, cluster).map(\.key)
            if !others.isEmpty { lines.append("    \(words) \(others.joined(separator: " "))") }
        }
        for client in cluster.clients where client.user == user && client.stream != nil {
            let views = client.view.sorted { $0.key < $1.key }.map { "user-\($0.key) \($0.value.statusType) \"\($0.value.customStatus)\"" }
            lines.append("    \(SimulatedClient.platforms[client.device]) sees \(views.joined(separator: ", "))")
        }
        return lines.map { readable($0) }
    }
}
