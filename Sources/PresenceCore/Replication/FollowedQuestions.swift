import PresenceWire

/// Asks all nodes whether users that may be removed have followers (`users.forgetAfter`), many users at a time.
///
/// The owner asks only while all members are alive and active, because a dead member may know of followers. If a node does not answer, the
/// owner asks about these users again on its next walk.
struct FollowedQuestions {
    /// A question to all other nodes, and their answers.
    struct Question {
        let id: UInt64
        let ring: UInt64
        let users: [UserID]
        let deadline: Instant
        /// The nodes that have not answered, sorted.
        var missing: [PeerIndex]
        var followed: Set<UserID>
    }

    /// Users of one question: 256.
    static let usersMax = 256
    private static let answerTimeout = Duration.seconds(2)
    /// The time between two questions: 100 ms, so at most 2,560 users a second. Very many may be due when the setting is switched on.
    private static let interval = Duration.milliseconds(100)

    private(set) var question: Question?
    /// The walk over all users.
    private var walk = UserRemoval()
    private var nextAt = Instant(nanoseconds: 0)

    /// Whether this node, and all others as far as it knows, know all followers.
    private func knowsFollowers(_ owner: borrowing Owner, _ cluster: Cluster) -> Bool {
        cluster.ownership.acquiringCount == 0 && cluster.ownership.transfer.isComplete && !owner.listsMayBeIncomplete
            && cluster.ownership.isStable
            && cluster.peers.missedCount == 0 && cluster.peers.isMajority
    }

    /// Asks about the next users that may be removed. Called at every tick.
    mutating func ask(_ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        if let question {
            guard question.deadline <= now.instant || question.ring != cluster.placement.id else { return }
            self.question = nil
        }
        guard nextAt <= now.instant else { return }
        nextAt = now.instant + Self.interval
        guard owner.policies.removesUsers, knowsFollowers(owner, cluster) else { return }
        let questionsCount = max(Int(cluster.settings.removalInterval / Self.interval), 1)
        let share = owner.users.allIndices.count / questionsCount + 1
        let users = walk.next(of: owner.users, owner.policies, countMax: min(share, Self.usersMax), at: now)
        guard !users.isEmpty else { return }
        let (id, ring, others) = (cluster.nextTicket(), cluster.placement.id, cluster.peers.alive)
        question = Question(
            id: id, ring: ring, users: users, deadline: now.instant + Self.answerTimeout, missing: others,
            followed: Set(Self.followed(of: users, owner)))
        for peer in others { cluster.send(.askFollowed(id: id, ring: ring, users), to: peer) }
        conclude(&owner, &cluster, at: now)
    }

    /// Those of `users` that users of this node follow.
    private static func followed(of users: [UserID], _ owner: borrowing Owner) -> [UserID] {
        users.filter { owner.users.followersCount(of: $0) > 0 }
    }

    func onAskFollowed(
        _ users: [UserID], id: UInt64, ring: UInt64, from peer: PeerIndex, _ owner: borrowing Owner, _ cluster: inout Cluster
    ) {
        guard ring == cluster.placement.id, knowsFollowers(owner, cluster) else { return }
        cluster.send(.areFollowed(id: id, Self.followed(of: users, owner)), to: peer)
    }

    mutating func onAreFollowed(
        _ users: [UserID], id: UInt64, from peer: PeerIndex, _ owner: inout Owner, _ cluster: inout Cluster, at now: Now
    ) {
        guard question?.id == id, let index = question?.missing.firstIndex(of: peer) else { return }
        question?.missing.remove(at: index)
        question?.followed.formUnion(users)
        conclude(&owner, &cluster, at: now)
    }

    /// Removes the users without followers after all nodes have answered, unless the members have changed since the question.
    private mutating func conclude(_ owner: inout Owner, _ cluster: inout Cluster, at now: Now) {
        guard let question, question.missing.isEmpty else { return }
        self.question = nil
        guard question.ring == cluster.placement.id, knowsFollowers(owner, cluster) else { return }
        cluster.outbox.writeInBulk { outbox in
            for user in question.users where owner.users.followersCount(of: user) == 0 && !question.followed.contains(user) {
                UserRemoval.remove(user, from: &owner, in: &outbox[at: now])
            }
        }
    }
}
