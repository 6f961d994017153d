import PresenceWire

/// The users whose records one session has still to be sent.
struct Backlog {
    typealias UserIndex = WatchIndex.UserIndex

    /// The knowledge that the client has of a user already.
    enum Knowledge: Equatable {
        case nothing
        /// That nobody knows anything of the user, as an answer has said.
        case blank
        /// This version of the record.
        case version(Version)
        /// Every change before this time, by the clock of the follower's owner.
        case changes(before: Milliseconds)
    }

    /// Followed users whose first record has not come yet, with what the client knows of them.
    private var expected: [UserIndex: Knowledge] = [:]
    /// Users that the answer to the newest call sends to the client, so that the stream leaves them out.
    private var answered: [(user: UserIndex, knowledge: Knowledge)] = []
    /// Users whose records are pushed together, at the end of the turn or when the stream has room again; sorted.
    private var pending: [UserIndex] = []
    /// Followed users whom the session ceases to follow once it was sent their records; sorted. Each is expected or pending.
    private var leaving: [UserIndex] = []
    /// Users whose profile version the session has still to be told, sorted: their first record has not come, or the queue is full.
    private(set) var profiles: [UserIndex] = []
    /// Users of whom the session was told the opposite of what ``UnsureUsers`` says now, sorted: the queue is full, or the record withheld.
    private(set) var marks: [UserIndex] = []

    /// Whether nothing is held back from the session.
    var isEmpty: Bool { expected.isEmpty && pending.isEmpty && profiles.isEmpty && marks.isEmpty }

    /// Removes all that concerns a user whom the session does not follow any more.
    mutating func drop(_ user: UserIndex) {
        expected[user] = nil
        answered.removeAll { $0.user == user }
        pending.removeAll { $0 == user }
        marks.removeAll { $0 == user }
        stay(user)
    }

    // MARK: First records

    /// Whether the session waits for the first record of a user.
    ///
    /// While its queue has room, it has been told the profile versions of all users whose records are here.
    var isExpectingRecords: Bool { !expected.isEmpty || !profiles.isEmpty }

    /// Whether the session waits for the first record of this user.
    func isExpecting(_ user: UserIndex) -> Bool { expected[user] != nil }

    /// Has the session wait for the first record of a user.
    mutating func expect(_ user: UserIndex, knowing knowledge: Knowledge) {
        expected[user] = knowledge
        // The record comes with the mark that holds then.
        marks.removeAll { $0 == user }
    }

    /// Has a record that waits to be pushed wait for its delivery instead, because it is withheld until then.
    mutating func expectPending(_ user: UserIndex) {
        guard pending.containsSorted(user) else { return }
        pending.removeAll { $0 == user }
        expect(user, knowing: .nothing)
    }

    /// Has the first records sent although the client knows them, because a new policy may show them in another way.
    mutating func expectAgain() {
        expected = expected.mapValues { if case .version = $0 { .version(.zero) } else { $0 } }
    }

    /// Ends the wait for the first record of a user. Returns what the client knew.
    mutating func takeExpected(_ user: UserIndex) -> Knowledge { expected.removeValue(forKey: user) ?? .nothing }

    /// Gives back the memory of the first records. Called when none is expected any more.
    mutating func endExpectations() {
        precondition(expected.isEmpty, "\(expected.count) first records are expected")
        expected = [:]
    }

    // MARK: Answers

    /// Stores what the answer to a call sends the client. Replaces what was stored for an earlier answer.
    mutating func setAnswered(_ answered: [(user: UserIndex, knowledge: Knowledge)]) { self.answered = answered }

    /// Moves an answered version to a later one that looks the same to the client, and that is therefore not pushed.
    mutating func raiseAnswered(_ user: UserIndex, from old: Version, to new: Version) {
        guard let index = answered.firstIndex(where: { $0.user == user && $0.knowledge == .version(old) }) else { return }
        answered[index].knowledge = .version(new)
    }

    /// Withdraws an answer that the client did not get. Returns what it would have sent.
    mutating func takeAnswered() -> [(user: UserIndex, knowledge: Knowledge)] {
        for (user, _) in answered where expected[user] != nil { expected[user] = .nothing }
        defer { answered = [] }
        return answered
    }

    // MARK: Pending records

    /// Whether records wait to be pushed together.
    var hasPending: Bool { !pending.isEmpty }

    /// Has the record of a user wait. Returns false if an older record of the user waits already, which this one replaces.
    mutating func postpone(_ user: UserIndex) -> Bool {
        let index = pending.insertionIndex(of: user)
        if index < pending.count, pending[index] == user { return false }
        pending.insert(user, at: index)
        return true
    }

    /// Removes and returns the users whose records wait.
    mutating func takePending() -> [UserIndex] { pending.takeAll() }

    // MARK: Marks

    /// The marks of these users, sorted, have changed. A mark that changes back before the session was told is not owed any more.
    mutating func turnMarks(of users: [UserIndex]) {
        guard !marks.isEmpty else { return marks = users }
        let back = marks.filter { users.containsSorted($0) }
        marks = (marks + users).filter { !back.containsSorted($0) }.sorted()
    }

    /// The session is pushed the records of these users, with the marks that hold now.
    mutating func endMarks(of users: [UserIndex]) {
        guard !marks.isEmpty else { return }
        let users = users.sorted()
        marks.removeAll { users.containsSorted($0) }
    }

    // MARK: Last records

    /// Whether the session ceases to follow users once it was sent their records.
    var isLeavingUsers: Bool { !leaving.isEmpty }

    /// Whether the session ceases to follow a user once it was sent the record.
    func isLeaving(_ user: UserIndex) -> Bool { leaving.containsSorted(user) }

    /// Has the session cease to follow a user once it was sent the record.
    mutating func leave(_ user: UserIndex) { if !isLeaving(user) { leaving.insert(user, at: leaving.insertionIndex(of: user)) } }

    /// Has the session follow a user whom it was about to leave.
    mutating func stay(_ user: UserIndex) { if !leaving.isEmpty { leaving.removeAll { $0 == user } } }

    /// Returns the users whom the session ceases to follow now, because it was sent their records.
    mutating func takeLeft() -> [UserIndex] {
        let left = leaving.filter { expected[$0] == nil && !pending.containsSorted($0) }
        leaving.removeAll { left.containsSorted($0) }
        return left
    }

    // MARK: Profiles

    /// Has the version of a user's profile wait.
    mutating func postponeProfile(of user: UserIndex) {
        let index = profiles.insertionIndex(of: user)
        if index == profiles.count || profiles[index] != user { profiles.insert(user, at: index) }
    }

    /// Ends the wait of the version of a user's profile. Returns whether it has waited.
    mutating func takeProfile(of user: UserIndex) -> Bool {
        let index = profiles.insertionIndex(of: user)
        guard index < profiles.count, profiles[index] == user else { return false }
        profiles.remove(at: index)
        return true
    }

    // MARK: Invariants

    /// Stops the process if the pending users are not sorted, or if a user is here whom the session does not follow.
    ///
    /// - Parameters:
    ///   - targets: the users that the session follows, sorted.
    ///   - followed: the users whose profiles it follows, sorted. It follows its own profile, too.
    func checkInvariants(targets: [UserIndex], profiles followed: [UserIndex]) {
        for list in [pending, profiles, marks] {
            for (user, next) in zip(list, list.dropFirst()) {
                precondition(user < next, "pending users \(user) and \(next) are not sorted")
            }
        }
        for user in marks {
            let isHere = targets.containsSorted(user) && expected[user] == nil
            precondition(isHere, "a mark of user \(user) is owed, and the user is expected or not followed")
        }
        for user in profiles {
            let isFollowed = followed.containsSorted(user) || targets.containsSorted(user)
            precondition(isFollowed, "the profile of user \(user) is pending, and is not followed")
        }
        for user in pending { precondition(targets.containsSorted(user), "user \(user) is pending, and is not followed") }
        for user in leaving { precondition(targets.containsSorted(user), "user \(user) is left, and is not followed") }
        // The order does not matter: each is only looked up.
        for user in expected.keys { precondition(targets.containsSorted(user), "user \(user) is expected, and is not followed") }
        for (user, _) in answered { precondition(targets.containsSorted(user), "user \(user) is answered, and is not followed") }
    }
}
