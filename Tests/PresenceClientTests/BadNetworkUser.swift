import NodeFixture
import PresenceWire
import Synchronization

@testable import PresenceClient

/// A user of a ``BadNetworkRun``: does what its seed says, and keeps what it was promised.
actor BadNetworkUser {
    /// Keeps the newest received version of each user, and the outdated ones. Bounded, unlike a `RecordingListener`.
    final class Listener: PresenceListener {
        private struct State {
            var newest: [String: String] = [:]
            var wentBack = 0
            var reconnectsCount = 0
            var lastOwnText = ""
            var overwritten = 0
        }

        private let own: String
        private let state = Mutex(State())

        init(own: String) { self.own = own }

        var wentBack: Int { state.withLock { $0.wentBack } }
        var reconnectsCount: Int { state.withLock { $0.reconnectsCount } }
        /// The number of times that an older custom status replaced a newer one. The texts are in the order in which they were set.
        var overwritten: Int { state.withLock { $0.overwritten } }
        func newest(of user: String) -> String? { state.withLock { $0.newest[user] } }

        func onUserStatusChanged(_ userStatusList: [UserStatus]) {
            state.withLock { state in
                for status in userStatusList {
                    if status.version <= state.newest[status.userID] ?? "" { state.wentBack += 1 }
                    state.newest[status.userID] = status.version
                    guard status.userID == own else { continue }
                    if status.customStatus < state.lastOwnText { state.overwritten += 1 }
                    state.lastOwnText = status.customStatus
                }
            }
        }

        func onConnectionStateChanged(_ change: ConnectionChange) {
            if change.state == .reconnecting { state.withLock { $0.reconnectsCount += 1 } }
        }
    }

    /// A value of one's own that was set: the acknowledged one, and those after it of which it is not known whether they were.
    private struct Promise {
        var acknowledged: String?
        var possible: [String] = []

        mutating func set(_ value: String, isAcknowledged: Bool) {
            if isAcknowledged { (acknowledged, possible) = (value, []) } else { possible.append(value) }
        }

        func allows(_ value: String) -> Bool {
            acknowledged == value || possible.contains(value) || (acknowledged == nil && value.isEmpty)
        }
    }

    nonisolated let name: String
    nonisolated let client: PresenceClient
    /// The same user without a bad network and without a session.
    nonisolated let direct: PresenceClient
    nonisolated let listener: Listener
    private let others: [String]
    private var random: SeededGenerator
    private var text = Promise()
    private var event = Promise()
    /// True and false: acknowledged; nil: not known.
    private var follows: [String: Bool?] = [:]
    private var ownVersion = ""
    private var callsCount = 0
    private var failures: [Int: Int] = [:]
    private var wentBack = 0
    private var broken: Set<String> = []

    init(_ name: String, among names: [String], _ configuration: ClientConfiguration, direct: ClientConfiguration, seed: UInt64) throws {
        self.name = name
        others = names.filter { $0 != name }
        random = SeededGenerator(seed: seed)
        client = try PresenceClient(configuration)
        self.direct = try PresenceClient(direct)
        listener = Listener(own: name)
        client.addListener(listener)
    }

    /// Acknowledged changes that do not hold.
    var lost: [String] { broken.sorted() }

    /// Acts until the run is over, which is asked with the number of calls so far. Is logged in at the end.
    func act(until isOver: @Sendable (Int) -> Bool) async {
        while await client.connectionState == .disconnected {
            await attempt { client throws(PresenceError) in _ = try await client.login() }
        }
        while !isOver(callsCount) {
            switch random.next(in: 0...9) {
            case 0...3: await setStatus()
            case 4: await publish()
            case 5...6: await subscribe()
            case 7: await unsubscribe()
            default: await ask()
            }
        }
    }

    private func setStatus() async {
        let value = "s\(1_000_000 + callsCount)"
        var version: String?
        let isDone = await attempt { client throws(PresenceError) in version = try await client.setSelfStatus(value).version }
        text.set(value, isAcknowledged: isDone)
        if let version { await noteOwn(version) }
    }

    private func publish() async {
        let value = Int64(10_000 + callsCount)
        var version: String?
        let isDone = await attempt { client throws(PresenceError) in version = try await client.publishEvent(value).userStatus.version }
        event.set("\(value)", isAcknowledged: isDone)
        if let version { await noteOwn(version) }
    }

    /// Answers to one's own changes are in order, and one's own view is at least as new.
    private func noteOwn(_ version: String) async {
        if version <= ownVersion { wentBack += 1 }
        ownVersion = version
        if await client.status(of: name)?.version ?? "" < version { wentBack += 1 }
    }

    private func subscribe() async {
        let targets = some()
        let isSynced = random.next(in: 0...1) == 0
        let isDone = await attempt { client throws(PresenceError) in
            _ = try await client.subscribeUserStatus(targets, sync: isSynced)
        }
        for target in targets { follows[target] = .some(isDone ? true : nil) }
    }

    private func unsubscribe() async {
        let targets = some()
        let isDone = await attempt { client throws(PresenceError) in _ = try await client.unsubscribeUserStatus(targets) }
        for target in targets { follows[target] = .some(isDone ? false : nil) }
    }

    private func ask() async {
        let targets = some()
        var answered: [UserStatus] = []
        await attempt { client throws(PresenceError) in answered = try await client.getUserStatus(targets).userStatusList }
        for status in answered where await client.status(of: status.userID)?.version ?? "" < status.version { wentBack += 1 }
    }

    private func some() -> [String] {
        (0..<random.next(in: 1...3)).map { _ in others[Int(random.next(in: 0...Int64(others.count - 1)))] }
    }

    @discardableResult private func attempt(_ body: (PresenceClient) async throws(PresenceError) -> Void) async -> Bool {
        callsCount += 1
        do {
            try await body(client)
            return true
        } catch {
            failures[error.code.rawValue, default: 0] += 1
            return false
        }
    }

    // MARK: Afterwards

    /// The own record is what was promised.
    func compare(_ record: JSONValue) {
        let custom = record["customStatus"]?.text ?? ""
        if !text.allows(custom) {
            broken.insert("\(name): custom status \(custom), acknowledged \(text.acknowledged ?? "none"), then perhaps \(text.possible)")
        }
        let value = record["event"]?["value"]?.number.map { "\($0)" } ?? ""
        if !event.allows(value) {
            broken.insert("\(name): event \(value), acknowledged \(event.acknowledged ?? "none"), then perhaps \(event.possible)")
        }
        if record["version"]?.text ?? "" < ownVersion { broken.insert("\(name): its record is older than what it was answered") }
    }

    /// The targets of this user in the owner's list.
    func compare(followed: [String]) {
        for (target, isFollowed) in follows {
            if let isFollowed, isFollowed != followed.contains(target) {
                broken.insert("\(name): \(target) is \(isFollowed ? "not followed" : "followed"), against what was acknowledged")
            }
        }
    }

    func add(to report: inout BadNetworkRun.Report) {
        report.callsCount += callsCount
        report.failures.merge(failures) { $0 + $1 }
        report.overwritten += listener.overwritten
        report.wentBack += wentBack + listener.wentBack
        report.reconnectsCount += listener.reconnectsCount
    }
}
