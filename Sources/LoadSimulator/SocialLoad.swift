import PresenceWire

/// The relationships of scenario `social`: decides who does what, keeps the ledger, and reads the lists before and after the load.
///
/// Of the changes 60 % are presence changes, 30 % concern a relationship and 10 % a profile. A relationship call is drawn by the facts of
/// its pair. Most calls take effect; the rules of the chain refuse the others.
struct SocialLoad {
    enum Kind { case presence, relationship, profile }

    /// A call to send.
    struct Outgoing {
        let user: Int
        let purpose: PendingCall.Purpose
        let operation: String
        let body: String
    }

    private enum Stage: Equatable {
        case logins
        /// The lists before the load are being read.
        case first
        case load
        /// The lists after the load are being read, until they are right or this time has come.
        case last(until: Double)
        case over
    }

    /// The reading that ``SocialLoad/advance(at:isLive:)`` has completed.
    enum Completed: Equatable { case first, last }

    private static let presencePercent = 60
    private static let relationshipPercent = 30
    /// Pairs or users that are tried for one change.
    private static let triesMax = 8
    /// Of the profile changes, every fourth also sets the users who may add this one.
    private static let allowTypeEvery = 4

    private let population: Population
    private var stage = Stage.logins
    private var ledger: RelationshipLedger
    private var told: ToldSequences
    private var pace: ChainPace
    private var reading: ListReading
    private var profileChanges: [Int]
    private(set) var differences: [RelationshipLedger.Difference] = []
    /// The operations that found nobody who was free.
    private(set) var skipped = 0

    init(population: Population) {
        let users = population.watched.count
        self.population = population
        ledger = RelationshipLedger(population: population)
        told = ToldSequences(users: users)
        pace = ChainPace(users: users)
        reading = ListReading(users: users)
        profileChanges = Array(repeating: 0, count: users)
    }

    /// Whether lists are being read and compared.
    var isReading: Bool {
        switch stage {
        case .first, .last: true
        case .logins, .load, .over: false
        }
    }

    /// Whether a user that does not watch another one may receive its records.
    func mayFollow(_ user: Int, _ watcher: Int) -> Bool {
        population.pair(of: user, and: watcher).map { ledger.mayHaveBeenFriends(pair: $0) } ?? false
    }

    // MARK: Changes

    func drawKind(using random: inout some RandomNumberGenerator) -> Kind {
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<Self.presencePercent: .presence
        case Self.presencePercent..<Self.presencePercent + Self.relationshipPercent: .relationship
        default: .profile
        }
    }

    /// Begins a call about a relationship. Returns nil if no pair was found whose user is live, below its limit and free.
    mutating func beginRelationship(
        scheduledAt: Double, at now: Double, using random: inout some RandomNumberGenerator, isLive: (Int) -> Bool
    ) -> Outgoing? {
        for _ in 0..<Self.triesMax {
            let index = Int.random(in: 0..<population.pairs.count, using: &random)
            let isByFirst = Bool.random(using: &random)
            let pair = population.pairs[index]
            let (user, other) = isByFirst ? (pair.first, pair.second) : (pair.second, pair.first)
            guard ledger.isFree(pair: index), isLive(user), pace.take(user, at: now) else { continue }
            let decision = Self.draw(ledger.facts(of: index, isByFirst: isByFirst), using: &random)
            ledger.begin(decision, pair: index, isByFirst: isByFirst)
            return Outgoing(
                user: user, purpose: .relationship(pair: index, decision, scheduledAt: scheduledAt), operation: decision.operation,
                body: decision.body(about: population.name(of: other)))
        }
        skipped += 1
        return nil
    }

    /// Begins a change of a profile. Returns nil if no user was found who is live, below its limit and free.
    mutating func beginProfile(
        at now: Double, using random: inout some RandomNumberGenerator, isLive: (Int) -> Bool
    ) -> Outgoing? {
        for _ in 0..<Self.triesMax {
            let user = population.members[Int.random(in: population.members.indices, using: &random)]
            guard ledger.isProfileFree(of: user), isLive(user), pace.take(user, at: now) else { continue }
            profileChanges[user] += 1
            let change = profileChanges[user]
            let nick = "n\(user).\(change)"
            let type = change % Self.allowTypeEvery == 1 ? AllowType.allCases.randomElement(using: &random) : nil
            ledger.beginProfile(of: user, nick: nick, allowType: type)
            let values = type.map { ",\"AllowType\":\"\($0.rawValue)\"" } ?? ""
            return Outgoing(
                user: user, purpose: .profile(user: user), operation: "modifySelfProfile",
                body: "{\"values\":{\"Nick\":\"\(nick)\"\(values)}}")
        }
        skipped += 1
        return nil
    }

    /// Draws a decision that fits the facts, or now and then another one.
    private static func draw(_ facts: RelationshipFacts, using random: inout some RandomNumberGenerator) -> RelationshipDecision {
        let weights: [(RelationshipDecision, Int)] =
            if facts.contains(.ownBlocks) {
                [(.unblock, 80), (.add, 8), (.block, 6), (.delete, 6)]
            } else if facts.contains(.ownReceived) {
                [(.accept, 42), (.acceptOneWay, 10), (.reject, 25), (.add, 10), (.block, 5), (.delete, 8)]
            } else if facts.contains(.ownFriend) {
                [(.delete, 50), (.deleteOneWay, 15), (.add, 12), (.block, 15), (.unblock, 8)]
            } else {
                [(.add, 80), (.block, 6), (.delete, 5), (.accept, 5), (.unblock, 4)]
            }
        var rest = Int.random(in: 0..<100, using: &random)
        for (decision, weight) in weights {
            if rest < weight { return decision }
            rest -= weight
        }
        preconditionFailure("the weights are 100 in all: \(weights)")
    }

    /// Records the end of a pair's open call. A node may have repeated it if `mayBeRepeated`.
    mutating func end(pair: Int, _ end: RelationshipLedger.CallEnd, mayBeRepeated: Bool) {
        ledger.end(pair: pair, end, mayBeRepeated: mayBeRepeated)
    }

    mutating func endProfile(of user: Int, _ end: RelationshipLedger.CallEnd) { ledger.endProfile(of: user, end) }

    /// Takes an event of a user's session. Returns false if it is not as documented.
    mutating func receive(_ event: ChainEvent, _ data: UnsafeBufferPointer<UInt8>, by user: Int) -> Bool {
        told.receive(event, try? JSONReader.read(data), by: user)
    }

    // MARK: Lists

    /// Takes the next call that reads a list; nil when none is due.
    mutating func nextRead(at now: Double) -> Outgoing? {
        reading.next(at: now).map { outgoing($0.user, $0.step) }
    }

    private func outgoing(_ user: Int, _ step: ListReading.Step) -> Outgoing {
        Outgoing(user: user, purpose: .list(user: user, step), operation: step.operation, body: step.body)
    }

    /// Takes the answer of a list. Returns the user's next call, if there is one. An answer that is not as documented is an error.
    mutating func receive(_ body: [UInt8], of step: ListReading.Step, user: Int) throws(ListReading.UnexpectedAnswer) -> Outgoing? {
        try reading.receive(body, of: step, user: user).map { outgoing(user, $0) }
    }

    mutating func failRead(of user: Int, retryAt time: Double) { reading.fail(user, retryAt: time) }

    /// Begins to read the lists before the load, unless it has begun.
    mutating func beginReading(at now: Double) {
        guard stage == .logins else { return }
        stage = .first
        reading.read(population.members, at: now)
    }

    /// Begins to read the lists after the load. They must be right within `settle` seconds, and 5 ms more for each user.
    ///
    /// Returns false if the load has not begun.
    mutating func beginVerification(at now: Double, settle: Double) -> Bool {
        guard stage == .load else { return false }
        stage = .last(until: now + settle + Double(population.members.count) * 0.005)
        reading.read(population.members, at: now)
        return true
    }

    /// Goes on once all lists are there. Lists that differ are read once more, until the time is over. Returns what is complete.
    mutating func advance(at now: Double, isLive: (Int) -> Bool) -> Completed? {
        switch stage {
        case .first:
            guard reading.isComplete else { return nil }
            ledger.adopt(reading.lists)
            stage = .load
            return .first
        case .last(let end):
            if now > end { reading.stop() }
            guard reading.isComplete else { return nil }
            differences = ledger.differences(reading.lists)
            differences += told.differences(reading.lists, population: population, users: isLive)
            guard !differences.isEmpty, now <= end else {
                stage = .over
                return .last
            }
            reading.read(Array(Set(differences.flatMap(\.users))).sorted(), at: now + 1)
            return nil
        case .logins, .load, .over: return nil
        }
    }

    /// The result, for the report.
    var result: RelationshipReport.Verification {
        RelationshipReport.Verification(
            pairs: population.pairs.count, uncertainPairs: ledger.uncertainCount, skipped: skipped, gaps: told.gaps,
            events: Dictionary(uniqueKeysWithValues: told.counts.map { ($0.key.rawValue, $0.value) }),
            differences: differences.map(\.text), isComplete: stage == .over)
    }
}

/// Keeps each user below `rate.chain`, which is 20 calls in 5 s by default.
///
/// A user may make 6 calls at once and 2 a second: at most 16 in 5 s.
struct ChainPace {
    private static let burst = 6.0
    private static let interval = 0.5

    /// The time at which each user's earlier calls are paid off.
    private var paidAt: [Double]

    init(users: Int) { paidAt = Array(repeating: 0, count: users) }

    /// Counts a call. Returns false, and counts nothing, if the user must wait.
    mutating func take(_ user: Int, at now: Double) -> Bool {
        let next = max(paidAt[user], now) + Self.interval
        guard next - now <= Self.burst * Self.interval else { return false }
        paidAt[user] = next
        return true
    }
}
