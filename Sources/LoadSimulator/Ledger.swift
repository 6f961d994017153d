import PresenceWire

/// Verifies pushes: compares the records that each watcher received with the actions of the users.
///
/// - **lost**: after the load and a quiet time, a watcher holds an older version than the nodes.
/// - **stale**: a stream carries a lower version after a higher one.
/// - **phantom**: a change that never happened. Its user never set the custom status, or did not leave although the status is OFFLINE or
///   UNLOGINED.
/// - **duplicate**: a stream carries the same version twice, and both look the same. A policy that shows records in another way sends them
///   again.
///
/// A change without a push is explained by coalescing when a newer version arrived.
struct Ledger {
    /// The violations and the received records, counted.
    struct Counts: Equatable {
        var lost = 0
        var stale = 0
        var phantom = 0
        var duplicate = 0
        /// Versions older than one on an earlier stream of the same watcher. They are not violations: a client keeps the newest.
        var olderOnOtherStream = 0
        var recordsReceived = 0
        var junk = 0
    }

    /// The statuses of a user that watchers may see.
    private struct Allowed {
        var changesSent = 0
        var mayBeOffline = false
        /// Every user starts logged out.
        var mayBeUnlogined = true
        var isAbsent = false
        var absentSince = 0.0
    }

    /// A watcher's view of one user.
    private struct View {
        var version = Version.zero
        /// The highest version on the present stream; nil before the first.
        var onStream: Version?
        /// See ``ScannedStatus/look``; that of the newest record on the present stream.
        var look: Int32 = 0
    }

    /// The part of a record that the users of a simulation change.
    struct Content: Equatable {
        /// The number of the change that the custom status names; nil for none.
        let change: Int?
        let statusType: StatusType

        init(_ status: ScannedStatus) {
            change = Population.parse(customStatus: status.customStatus)?.change
            statusType = status.statusType
        }
    }

    private(set) var counts = Counts()
    private let population: Population
    private let graceSeconds: Double
    private var allowed: [Allowed]
    /// The views of each watcher, in the order of the population's list. The last is the view of itself.
    private var views: [[View]]
    /// The content of each view in scenario `social`; empty otherwise. A change of a profile is a new version with the same content, and is
    /// not pushed to watchers.
    private var contents: [[Content?]]
    /// The first violations, as sentences.
    private(set) var examples: [String] = []

    init(population: Population, graceSeconds: Double) {
        self.population = population
        self.graceSeconds = graceSeconds
        allowed = Array(repeating: Allowed(), count: population.watched.count)
        views = population.watched.map { Array(repeating: View(), count: $0.count + 1) }
        contents = population.members.isEmpty ? [] : population.watched.map { Array(repeating: nil, count: $0.count + 1) }
    }

    // MARK: Actions of users

    /// Numbers the next change of a user. Call it before the change is sent.
    mutating func beginChange(of user: Int) -> Int {
        allowed[user].changesSent += 1
        return allowed[user].changesSent
    }

    /// Records a logout on purpose.
    mutating func logOut(_ user: Int) { allowed[user].mayBeUnlogined = true }

    /// Records that a session was disconnected or dropped.
    mutating func leave(_ user: Int, at seconds: Double) {
        guard !allowed[user].isAbsent else { return }
        allowed[user].isAbsent = true
        allowed[user].absentSince = seconds
    }

    /// Records that a node has connected the user again.
    mutating func comeBack(_ user: Int, at seconds: Double) {
        if allowed[user].isAbsent, seconds - allowed[user].absentSince >= graceSeconds { allowed[user].mayBeOffline = true }
        allowed[user].isAbsent = false
    }

    /// Records the beginning of a stream of `watcher`. It may repeat versions of earlier streams.
    mutating func beginStream(of watcher: Int) {
        for index in views[watcher].indices { views[watcher][index].onStream = nil }
    }

    // MARK: Received records

    /// Checks a record on a stream of `watcher`.
    ///
    /// Returns the user and the number of the change that its custom status names; nil when the record is not newer than the view.
    ///
    /// - Parameter isFriend: whether the watcher may receive the records of a user that it does not watch, because they are friends.
    mutating func receive(
        _ status: ScannedStatus, by watcher: Int, at seconds: Double, isFriend: (_ user: Int, _ watcher: Int) -> Bool = { _, _ in false }
    ) -> (user: Int, change: Int)? {
        counts.recordsReceived += 1
        let population = population
        guard let user = population.user(named: status.userID) else {
            record(\.phantom, "\(population.name(of: watcher)) received a record of a user it does not follow")
            return nil
        }
        guard let index = index(of: user, for: watcher) else {
            receive(status, ofFriend: user, by: watcher, isAllowed: isFriend(user, watcher))
            return nil
        }
        check(status, of: user, watcher: watcher, at: seconds)
        var view = views[watcher][index]
        let isNewer = status.version > view.version
        if let onStream = view.onStream, status.version == onStream, status.look == view.look {
            record(\.duplicate, "\(population.name(of: watcher)) received \(status.version.text) of \(population.name(of: user)) twice")
        } else if let onStream = view.onStream, status.version < onStream {
            record(
                \.stale,
                "\(population.name(of: watcher)) went back from \(onStream.text) to \(status.version.text) of \(population.name(of: user))"
            )
        } else if status.version < view.version {
            counts.olderOnOtherStream += 1
        }
        if status.version >= view.onStream ?? .zero { view.look = status.look }
        view.onStream = max(view.onStream ?? .zero, status.version)
        view.version = max(view.version, status.version)
        if isNewer, !contents.isEmpty { contents[watcher][index] = Content(status) }
        views[watcher][index] = view
        return isNewer ? Population.parse(customStatus: status.customStatus) : nil
    }

    /// Checks a record that a friend receives without a subscription. A block may hide it, so only the custom status must be genuine.
    private mutating func receive(_ status: ScannedStatus, ofFriend user: Int, by watcher: Int, isAllowed: Bool) {
        let population = population
        guard isAllowed else {
            return record(
                \.phantom, "\(population.name(of: watcher)) received a record of \(population.name(of: user)), which it does not follow")
        }
        checkCustomStatus(status, of: user)
    }

    private mutating func check(_ status: ScannedStatus, of user: Int, watcher: Int, at seconds: Double) {
        let population = population
        checkCustomStatus(status, of: user)
        let allowed = allowed[user]
        let isLongAbsent = allowed.isAbsent && seconds - allowed.absentSince >= graceSeconds
        if status.statusType == .offline, !allowed.mayBeOffline, !isLongAbsent {
            record(\.phantom, "\(population.name(of: user)) did not disconnect, but \(population.name(of: watcher)) received OFFLINE")
        }
        if status.statusType == .unlogined, !allowed.mayBeUnlogined {
            record(\.phantom, "\(population.name(of: user)) did not log out, but \(population.name(of: watcher)) received UNLOGINED")
        }
    }

    private mutating func checkCustomStatus(_ status: ScannedStatus, of user: Int) {
        let population = population
        if status.customStatus.count > 0 {
            let change = Population.parse(customStatus: status.customStatus)
            if change == nil || change!.user != user || change!.change < 1 || change!.change > allowed[user].changesSent {
                record(\.phantom, "\(population.name(of: user)) never set \"\(String(decoding: status.customStatus, as: UTF8.self))\"")
            }
        }
    }

    /// Records that every user is online. From then on UNLOGINED needs a logout.
    mutating func endLogins() { for user in allowed.indices { allowed[user].mayBeUnlogined = false } }

    /// Records an event that is not JSON.
    mutating func receivedJunk() { record(\.junk, "an event that is no JSON") }

    // MARK: The end

    /// Counts the views that are older than the nodes' records, among the watchers that `watchers` selects.
    func viewsBehind(_ records: RecordQuery, watchers: (Int) -> Bool) -> Int {
        var behind = 0
        for watcher in views.indices where watchers(watcher) {
            for (index, user) in population.watched[watcher].enumerated()
            where missedVersion(records, of: Int(user), by: watcher, index) != nil { behind += 1 }
        }
        return behind
    }

    /// The version of the nodes' record if the watcher lacks it.
    private func missedVersion(_ records: RecordQuery, of user: Int, by watcher: Int, _ index: Int) -> Version? {
        guard let version = records.versions[user], views[watcher][index].version < version else { return nil }
        return !contents.isEmpty && contents[watcher][index] == records.contents[user] ? nil : version
    }

    /// Takes the result of the last comparison, and names the first views that are behind.
    mutating func close(lost: Int, records: RecordQuery) {
        counts.lost = lost
        for watcher in views.indices {
            for (index, user) in population.watched[watcher].enumerated() {
                guard let version = missedVersion(records, of: Int(user), by: watcher, index) else { continue }
                let (own, watcher, name) = (views[watcher][index].version, population.name(of: watcher), population.name(of: Int(user)))
                record("\(watcher) holds \(own.text) of \(name), the nodes \(version.text)")
            }
        }
    }

    private mutating func record(_ example: @autoclosure () -> String) {
        if examples.count < 20 { examples.append(example()) }
    }

    /// The index of the watcher's view of a user; nil when it does not watch the user.
    private func index(of user: Int, for watcher: Int) -> Int? {
        let list = population.watched[watcher]
        if user == watcher { return list.count }
        var low = 0
        var high = list.count
        while low < high {
            let middle = (low + high) / 2
            if list[middle] < UInt32(user) { low = middle + 1 } else { high = middle }
        }
        return low < list.count && list[low] == UInt32(user) ? low : nil
    }

    private mutating func record(_ count: WritableKeyPath<Counts, Int>, _ example: @autoclosure () -> String) {
        counts[keyPath: count] += 1
        record(example())
    }
}
