import PresenceWire

/// The verifier's book: what each user did, what each watcher was told, and what does not fit together.
///
/// - **lost**: after the load and a time of quiet, a watcher holds an older version than the nodes.
/// - **stale**: on one stream, a version lower than one before it: the stream went back.
/// - **phantom**: a change that never happened: a custom status that its user never set, or OFFLINE or UNLOGINED of a user who did not leave.
/// - **duplicate**: on one stream, the same version twice.
///
/// Changes that no push tells of are explained by coalescing as long as a newer version came.
struct Ledger {
    /// What went wrong, or was seen.
    struct Counts: Equatable {
        var lost = 0
        var stale = 0
        var phantom = 0
        var duplicate = 0
        /// Versions older than one that another stream of the same user had told: a client keeps the newest.
        var olderOnOtherStream = 0
        var recordsReceived = 0
        var junk = 0
    }

    /// What may be seen of a user.
    private struct Truth {
        var changesSent = 0
        var mayBeOffline = false
        /// Everybody starts logged out.
        var mayBeUnlogined = true
        var isAbsent = false
        var absentSince = 0.0
    }

    private struct Held {
        var version = Version.zero
        /// What the present stream has told.
        var onStream = Version.zero
        var wasTold = false
    }

    private(set) var counts = Counts()
    private let population: Population
    private let graceSeconds: Double
    private var truths: [Truth]
    /// For each watcher, what it holds of whom it watches, in the order of the population's list; the last is itself.
    private var held: [[Held]]
    /// The first violations, in words.
    private(set) var examples: [String] = []

    init(population: Population, graceSeconds: Double) {
        self.population = population
        self.graceSeconds = graceSeconds
        truths = Array(repeating: Truth(), count: population.watched.count)
        held = population.watched.map { Array(repeating: Held(), count: $0.count + 1) }
    }

    // MARK: What users do

    /// The next change of a user; call before it is sent.
    mutating func beginChange(of user: Int) -> Int {
        truths[user].changesSent += 1
        return truths[user].changesSent
    }

    /// A user logs out on purpose.
    mutating func loggedOut(_ user: Int) { truths[user].mayBeUnlogined = true }

    /// A session was lost or dropped.
    mutating func left(_ user: Int, at seconds: Double) {
        guard !truths[user].isAbsent else { return }
        truths[user].isAbsent = true
        truths[user].absentSince = seconds
    }

    /// The user's node has told it that it is connected again.
    mutating func returned(_ user: Int, at seconds: Double) {
        if truths[user].isAbsent, seconds - truths[user].absentSince >= graceSeconds { truths[user].mayBeOffline = true }
        truths[user].isAbsent = false
    }

    /// A stream of `watcher` begins: versions may be told again.
    mutating func beginStream(of watcher: Int) {
        for place in held[watcher].indices {
            held[watcher][place].onStream = .zero
            held[watcher][place].wasTold = false
        }
    }

    // MARK: What watchers are told

    /// A record came on a stream of `watcher`. Returns user and number of the change that its custom status tells, if it was news.
    mutating func received(_ status: ScannedStatus, by watcher: Int, at seconds: Double) -> (user: Int, change: Int)? {
        counts.recordsReceived += 1
        let population = population
        guard let user = population.user(named: status.userID), let place = place(of: user, for: watcher) else {
            note(\.phantom, "\(population.name(of: watcher)) was told of somebody it does not watch")
            return nil
        }
        check(status, of: user, watcher: watcher, at: seconds)
        var entry = held[watcher][place]
        let wasNews = status.version > entry.version
        if entry.wasTold, status.version == entry.onStream {
            note(\.duplicate, "\(population.name(of: watcher)) was told \(status.version.text) of \(population.name(of: user)) twice")
        } else if entry.wasTold, status.version < entry.onStream {
            note(
                \.stale,
                "\(population.name(of: watcher)) went back from \(entry.onStream.text) to \(status.version.text) of \(population.name(of: user))"
            )
        } else if status.version < entry.version {
            counts.olderOnOtherStream += 1
        }
        entry.onStream = max(entry.onStream, status.version)
        entry.version = max(entry.version, status.version)
        entry.wasTold = true
        held[watcher][place] = entry
        return wasNews ? Population.parse(customStatus: status.customStatus) : nil
    }

    private mutating func check(_ status: ScannedStatus, of user: Int, watcher: Int, at seconds: Double) {
        let population = population
        if status.customStatus.count > 0 {
            let change = Population.parse(customStatus: status.customStatus)
            if change == nil || change!.user != user || change!.change < 1 || change!.change > truths[user].changesSent {
                note(\.phantom, "\(population.name(of: user)) never set \"\(String(decoding: status.customStatus, as: UTF8.self))\"")
            }
        }
        let truth = truths[user]
        let isLongAbsent = truth.isAbsent && seconds - truth.absentSince >= graceSeconds
        if status.statusType == .offline, !truth.mayBeOffline, !isLongAbsent {
            note(\.phantom, "\(population.name(of: user)) did not leave, and \(population.name(of: watcher)) was told OFFLINE")
        }
        if status.statusType == .unlogined, !truth.mayBeUnlogined {
            note(\.phantom, "\(population.name(of: user)) did not log out, and \(population.name(of: watcher)) was told UNLOGINED")
        }
    }

    /// Once everybody is online, UNLOGINED needs a logout.
    mutating func allOnline() { for user in truths.indices { truths[user].mayBeUnlogined = false } }

    mutating func receivedJunk() { note(\.junk, "an event that is no JSON") }

    // MARK: The end

    /// Compares what watchers hold with what the nodes say. Returns how many views are behind.
    func viewsBehind(_ truth: [Version?], watchers: (Int) -> Bool) -> Int {
        var behind = 0
        for watcher in held.indices where watchers(watcher) {
            for (place, user) in population.watched[watcher].enumerated() {
                if let version = truth[Int(user)], held[watcher][place].version < version { behind += 1 }
            }
        }
        return behind
    }

    /// The last comparison stands; the first of those who are behind are named.
    mutating func close(lost: Int, truth: [Version?]) {
        counts.lost = lost
        for watcher in held.indices {
            for (place, user) in population.watched[watcher].enumerated() {
                guard let version = truth[Int(user)], held[watcher][place].version < version else { continue }
                let (own, watcher, name) = (held[watcher][place].version, population.name(of: watcher), population.name(of: Int(user)))
                note("\(watcher) holds \(own.text) of \(name), the nodes \(version.text)")
            }
        }
    }

    private mutating func note(_ example: @autoclosure () -> String) {
        if examples.count < 20 { examples.append(example()) }
    }

    private func place(of user: Int, for watcher: Int) -> Int? {
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

    private mutating func note(_ count: WritableKeyPath<Counts, Int>, _ example: @autoclosure () -> String) {
        counts[keyPath: count] += 1
        note(example())
    }
}
