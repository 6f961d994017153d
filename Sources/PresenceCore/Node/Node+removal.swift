import PresenceWire

/// Before a user is removed (`users.forgetAfter`) its owner asks all nodes whether anybody follows it, many users at a time.
///
/// Only while all members are there and know all that they own: a member that is missed may know of followers. Users of a question that a
/// node does not answer are asked about when the owner comes by them again.
extension Node {
    /// A question to all other nodes, and what they have answered.
    struct FollowedQuestion {
        let id: UInt64
        let ring: UInt64
        let users: [UserID]
        let deadline: Instant
        /// The nodes that have not answered; sorted.
        var missing: [PeerIndex]
        var followed: Set<UserID>
    }

    /// Users of one question: 256.
    static let usersAskedMax = 256
    private static let answerTimeout = Duration.seconds(2)
    /// Between two questions: at most 2,560 users a second. When the setting is switched on, very many may be due.
    private static let questionInterval = Duration.milliseconds(100)

    /// Whether this node, and all others as far as it knows, can say who is followed.
    private var knowsFollowers: Bool {
        ownership.acquiringCount == 0 && ownership.transfer.isComplete && !owners.isUnheard && ownership.isStable && peers.missedCount == 0
            && peers.isMajority
    }

    /// Asks about the next users that may be removed. Called at every tick.
    mutating func askFollowed(at now: Now) {
        if let question = followedQuestion {
            guard question.deadline <= now.instant || question.ring != placement.id else { return }
            followedQuestion = nil
        }
        guard nextQuestionAt <= now.instant else { return }
        nextQuestionAt = now.instant + Self.questionInterval
        guard owners.policies.removesUsers, knowsFollowers else { return }
        let questionsCount = max(Int(settings.removalInterval / Self.questionInterval), 1)
        let share = owners.users.places.count / questionsCount + 1
        let users = owners.usersToRemove(countMax: min(share, Self.usersAskedMax), at: now)
        guard !users.isEmpty else { return }
        nextTicket += 1
        let others = peers.indices.dropFirst().filter { peers[$0].isAlive }
        followedQuestion = FollowedQuestion(
            id: nextTicket, ring: placement.id, users: users, deadline: now.instant + Self.answerTimeout, missing: others,
            followed: Set(followed(of: users)))
        for peer in others { send(.askFollowed(id: nextTicket, ring: placement.id, users), to: peer) }
        concludeFollowed(at: now)
    }

    /// Those of `users` whom users of this node follow.
    private func followed(of users: [UserID]) -> [UserID] { users.filter { owners.users.followersCount(of: $0) > 0 } }

    mutating func onAskFollowed(_ users: [UserID], id: UInt64, ring: UInt64, from peer: PeerIndex) {
        guard ring == placement.id, knowsFollowers else { return }
        send(.areFollowed(id: id, followed(of: users)), to: peer)
    }

    mutating func onAreFollowed(_ users: [UserID], id: UInt64, from peer: PeerIndex, at now: Now) {
        guard followedQuestion?.id == id, let place = followedQuestion?.missing.firstIndex(of: peer) else { return }
        followedQuestion?.missing.remove(at: place)
        followedQuestion?.followed.formUnion(users)
        concludeFollowed(at: now)
    }

    /// All have answered: the owner removes the users that nobody follows, unless the members have changed since the question.
    private mutating func concludeFollowed(at now: Now) {
        guard let question = followedQuestion, question.missing.isEmpty else { return }
        followedQuestion = nil
        guard question.ring == placement.id, knowsFollowers else { return }
        writeInBulk { owners, outbox in
            for user in question.users where owners.users.followersCount(of: user) == 0 && !question.followed.contains(user) {
                owners.removeUnfollowed(user, at: now, into: &outbox)
            }
        }
    }
}
