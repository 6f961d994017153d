/// What nodes say to one another. The same values travel between two nodes and inside one: nothing on the way
/// to an owner depends on where the owner is.
public enum Message: Hashable, Sendable {
    // From the node of a gateway to an owner.
    /// What does the receiver know that the sender hosts and watches of the receiver's users by this ring? What was said before, on this link
    /// or the other, may be lost; the answer is ``registered(epoch:_:)``.
    case requestRegistered(epoch: UInt64, ring: UInt64)
    /// All that the sender knows about sessions and watches of the receiver's users follows, until ``endSync(epoch:)``: of those whose
    /// slots are in `ranges`.
    case beginSync(epoch: UInt64, ranges: SlotRanges)
    /// What was not said since ``beginSync(epoch:)`` is no longer so.
    case endSync(epoch: UInt64)
    /// A session is open.
    case attach(Attach)
    /// A session has ended.
    case detach(Detach)
    /// The sender wants to be told of these users.
    case watch([Watch])
    /// The sender does not care any more.
    case unwatch([UserID])
    /// An operation for the owner of a user.
    case request(Request)

    // From an owner to the node of a gateway.
    /// A user's record has changed.
    case delta(Record)
    /// The same, to be passed on to those of `targets`, by ``Peer/number``, who are reached no other way.
    case relay(Record, targets: [UInt32])
    /// Versions that others were to pass on to the receiver, as hashes of user and version, by slot: who holds another one asks.
    case relayed([SlotHash])
    /// What the sender knows that the receiver watches and hosts of the sender's users by this ring: one hash for each range of slots,
    /// from the range `first` on. The receiver says anew what differs (``beginSync(epoch:ranges:)``).
    case viewDigest(ring: UInt64, first: UInt8, [UInt64])
    /// The answer to ``requestRegistered(epoch:ring:)``: one hash for each of ``digestRangesCount`` ranges of slots, or none where the sender goes by
    /// another ring or does not decide yet. The receiver says anew what differs; what does not is known on both sides.
    case registered(epoch: UInt64, [UInt64])
    /// The answer to ``watch(_:)``.
    case watched([Watched])
    /// Whom a user follows, or what has changed in it.
    case interest(Interest)
    /// End this session's stream.
    case end(SessionID, user: UserID, reason: String)
    /// The answer to ``request(_:)``.
    case answer(id: UInt64, Answer)
    /// The sender does not own these users' slots, or does not decide about them yet: try again, by a newer ring. With nobody named it
    /// decides now about all that it owns.
    case misrouted([UserID])

    // Between the nodes that keep a slot.
    /// Facts for the receiver to keep, on disk too. A ticket other than 0 asks for ``replicated(ticket:)``.
    case replicate(ticket: UInt64, [Row])
    /// The rows of the receiver's ticket are on the sender's disk.
    case replicated(ticket: UInt64)
    /// What the sender holds of the slots that both keep: one hash for each of ``digestRangesCount`` ranges of slots.
    /// The receiver sends its rows of the ranges that differ, and with `wantsAnswer` its own hashes.
    case digest([UInt64], wantsAnswer: Bool)
    /// Which of these users are followed by users that the receiver owns by this ring? They may be removed (`users.forgetAfter`). A node that
    /// goes by another ring, or does not know all that it owns, does not answer.
    case askFollowed(id: UInt64, ring: UInt64, [UserID])
    /// The answer to ``askFollowed(id:ring:_:)``: those who are followed.
    case areFollowed(id: UInt64, [UserID])

    // When the members have changed.
    /// What the sender holds of the slots that the receiver is to keep by this ring; in pages of ``offerSlotsMax``. The sender counts its
    /// rounds: it begins another whenever it holds more to offer.
    case offer(ring: UInt64, round: UInt64, [SlotHash], isFirst: Bool, isLast: Bool)
    /// Offer again: what was offered before does not count any more.
    case requestOffer
    /// Send me all that you hold of these slots.
    case want(ring: UInt64, [Slot])
    /// All that was wanted of so many slots has been sent.
    case sent(ring: UInt64, slotsCount: Int)
    /// Everything that the sender is to keep by this ring has come to it: of the receiver's offers up to this round, or none with 0.
    case settled(ring: UInt64, round: UInt64)

    // Between any two nodes.
    /// Who is a member, as the sender knows it.
    case membership(MembershipMessage)
    /// The sender's link to the receiver is up, so it can answer now: what was said to it before may have been lost, and is to be
    /// said again.
    case requestSync
    /// Every record that the sender had written when its clock showed this version has been sent before.
    case complete(upTo: Version)
}

extension Message {
    /// Ranges of 64 slots each: a difference costs the rows of one range, and a digest 8 KiB.
    public static let digestRangesCount = 1_024
    /// Ranges of 1,024 slots each, by which gateways and owners compare: a set of them is one integer.
    public static let viewRangesCount = 64
    /// Most slots of one ``offer(ring:round:_:isFirst:isLast:)``: a page of 45 KiB.
    public static let offerSlotsMax = 4_096
    /// Most rows of one ``replicate(ticket:_:)`` that repairs or moves.
    public static let replicateRowsMax = 200
    /// It is closed at this size.
    public static let replicateBytesMax = 256 << 10
}

/// A node's address card.
public struct Peer: Hashable, Sendable {
    public var id: NodeID
    /// The start time of the process in milliseconds since 1970: larger after each restart.
    public var generation: UInt64
    /// `host:port` of its cluster port.
    public var address: String
    /// Its share of the ring, 1–1000.
    public var weight: UInt32

    public init(id: NodeID, generation: UInt64, address: String, weight: UInt32 = 100) {
        self.id = id
        self.generation = generation
        self.address = address
        self.weight = weight
    }
}

/// What two nodes say of themselves on a link, once the caller has proved that it knows the cluster's secret.
public struct Hello: Hashable, Sendable {
    /// The version of this protocol; nodes with another one refuse the link.
    public static let protocolVersion: UInt64 = 15

    public var protocolVersion: UInt64
    /// Nodes of another cluster refuse the link.
    public var cluster: String
    public var sender: Peer
    /// All the members that the sender knows, itself included.
    public var members: [Peer]
    /// The sender's wall clock: nodes whose clocks are too far apart refuse the link.
    public var wall: Milliseconds
    /// Counts the connections that the sender has opened; 0 in the answer to a hello.
    public var number: UInt64

    /// The connection on which the sender says it.
    public var connection: ConnectionID { ConnectionID(generation: sender.generation, number: number) }

    /// Whether it can be read whole. What comes before ``members`` is the same in all versions.
    public var isOfThisProtocol: Bool { protocolVersion == Hello.protocolVersion }

    public init(
        cluster: String, sender: Peer, members: [Peer], wall: Milliseconds, number: UInt64 = 0,
        protocolVersion: UInt64 = Hello.protocolVersion
    ) {
        self.protocolVersion = protocolVersion
        self.cluster = cluster
        self.sender = sender
        self.members = members
        self.wall = wall
        self.number = number
    }
}

/// Names a connection from one node to another.
///
/// A later connection of the same node makes the earlier ones void: batches that are still unread there must not undo what the node has said
/// since on the later one.
public struct ConnectionID: Comparable, Hashable, Sendable {
    /// The process that opened the connection (``Peer/generation``).
    public let generation: UInt64
    /// How many connections that process had opened by then; from 1 on.
    public let number: UInt64

    public init(generation: UInt64, number: UInt64) {
        self.generation = generation
        self.number = number
    }

    public static func < (one: ConnectionID, other: ConnectionID) -> Bool {
        (one.generation, one.number) < (other.generation, other.number)
    }
}

/// A session, as its gateway describes it to the owner of its user.
public struct Attach: Hashable, Sendable {
    public var session: SessionID
    public var user: UserID
    public var platform: String
    /// Empty when the client did not name its device.
    public var deviceID: String
    /// Set on login (Z8); nil leaves it.
    public var customStatus: String?
    /// False when an open session is registered again, with a new owner or after a broken link.
    public var isLogin: Bool
    /// Vendor push reaches the device, so that a lost session does not make the user OFFLINE where the policy says so (N19).
    public var isPushReachable: Bool
    /// When it was opened, by the clock of its node.
    public var openedAt: Milliseconds = 0
    /// The newest record of the user that the gateway holds, for an owner that knows less.
    public var record: Record?

    public init(
        session: SessionID, user: UserID, platform: String, deviceID: String = "", customStatus: String? = nil,
        isLogin: Bool = true, isPushReachable: Bool = false, record: Record? = nil
    ) {
        self.session = session
        self.user = user
        self.platform = platform
        self.deviceID = deviceID
        self.customStatus = customStatus
        self.isLogin = isLogin
        self.isPushReachable = isPushReachable
        self.record = record
    }
}

/// The end of a session.
public struct Detach: Hashable, Sendable {
    /// Why a session ended.
    public enum Cause: UInt8, Sendable {
        /// FIN, RST, or silence: OFFLINE after the grace (T3, T5, T6).
        case lost = 1
        /// By `logout`: UNLOGINED (T7).
        case loggedOut = 2
    }

    public var session: SessionID
    public var user: UserID
    public var cause: Cause
    /// How long nothing had been heard of the client; 0 if the client's side closed the connection, which is a sign of life itself.
    public var silence: Milliseconds

    public init(session: SessionID, user: UserID, cause: Cause, silence: Milliseconds = 0) {
        self.session = session
        self.user = user
        self.cause = cause
        self.silence = silence
    }
}

/// Why an owner ends a session: what the client is told.
public enum SessionEnd {
    /// The user logged it out, here or elsewhere: the client is told by `onLogout`.
    public static let logout = "logout"
    /// A newer login took its place (`login.multiClient`), or the user has too many sessions.
    public static let replaced = "replaced"
}

/// One user that a node wants to be told of.
public struct Watch: Hashable, Sendable {
    public var user: UserID
    /// The version that the node holds; the owner answers only with a newer one.
    public var held: Version
    /// The record that the node holds, when the user's owner has changed: it may know less.
    public var record: Record?

    public init(user: UserID, held: Version, record: Record? = nil) {
        self.user = user
        self.held = held
        self.record = record
    }
}

/// An owner's answer to a ``Watch``.
public struct Watched: Hashable, Sendable {
    public var user: UserID
    /// Nil when what the watching node holds is the newest.
    public var record: Record?
    /// Of what the watching node holds already: see ``Record/knownSince``.
    public var knownSince: Milliseconds

    public init(user: UserID, record: Record?, knownSince: Milliseconds = 0) {
        self.user = user
        self.record = record
        self.knownSince = knownSince
    }
}

/// Whom a user follows: the whole list, or a change of it.
public struct Interest: Hashable, Sendable {
    /// One followed user.
    public struct Followed: Hashable, Sendable {
        public var target: UserID
        /// The version that the follower was told in the answer to the call; nil when it was told none, the largest when it is to be told
        /// only of changes.
        public var told: Version?
        /// Since when the owner knows of it, on its version clock: who resumes from an earlier position was not told of the target.
        public var since: Milliseconds
        /// The type of the subscription (R3); 0 for a friend without one (T28).
        public var subscribeType: UInt8
        /// When the subscription ends by itself; nil for never.
        public var expiresAt: Milliseconds?

        public init(
            target: UserID, told: Version?, since: Milliseconds, subscribeType: UInt8 = Subscription.onlineStatus,
            expiresAt: Milliseconds? = nil
        ) {
            self.target = target
            self.told = told
            self.since = since
            self.subscribeType = subscribeType
            self.expiresAt = expiresAt
        }
    }

    /// A subscription that a call has ended.
    public struct Unfollowed: Hashable, Sendable {
        public var target: UserID
        public var subscribeType: UInt8

        public init(target: UserID, subscribeType: UInt8) {
            self.target = target
            self.subscribeType = subscribeType
        }
    }

    public var user: UserID
    /// The newest change of the list that is in here; a gateway ignores an older whole list than it holds.
    public var version: Version
    /// Whether `added` is the whole list.
    public var isWhole: Bool
    public var added: [Followed]
    public var removed: [UserID]
    /// The user asked for it on one device, and the others are told of `added` and `unfollowed` (R14).
    public var isNews = false
    /// The subscriptions that the call has ended, where it `isNews`: also those to friends, who go on being told.
    public var unfollowed: [Unfollowed] = []
    /// The session that asked, which need not be told.
    public var asker: SessionID?
    /// `removed` have run out, and the user's sessions are told so (`subscription.notifyExpiry`).
    public var hasExpired = false
    /// Of a whole list: its owner decides without having heard what all others hold. Whom it names neither here nor in `removed` may be
    /// followed all the same, and goes on being told.
    public var mayLackSome = false
    /// Of a whole list: names it, and changes with all that is told of it (``marked(after:)``). A node that has the owner's mark has missed
    /// nothing of the list.
    public var mark: UInt64 = 0

    public init(user: UserID, version: Version, isWhole: Bool, added: [Followed], removed: [UserID]) {
        self.user = user
        self.version = version
        self.isWhole = isWhole
        self.added = added
        self.removed = removed
    }
}

extension Interest {
    /// The mark of a list after this was told of it.
    public func marked(after mark: UInt64) -> UInt64 {
        isWhole ? self.mark : StableHash.mix(mark, StableHash.mix(version.stamp, UInt64(version.node)))
    }

    /// The same when the answer to the call, and what it would have told, has not reached the follower. What nobody asked to be told
    /// (N8) is not told now either.
    public var toldNothing: Interest {
        var interest = self
        for place in interest.added.indices where interest.added[place].told != .max { interest.added[place].told = nil }
        return interest
    }
}

/// What a node holds of one slot, as a hash.
public struct SlotHash: Hashable, Sendable {
    public var slot: Slot
    /// Equal for equal facts.
    public var hash: UInt64

    public init(slot: Slot, hash: UInt64) {
        self.slot = slot
        self.hash = hash
    }
}

/// One subscription of a user.
public struct Subscription: Hashable, Sendable {
    /// Lasts until it ends by itself or is ended.
    public static let onlineStatus: UInt8 = 1
    /// To a friend, and no longer than the friendship.
    public static let friendOnlineStatus: UInt8 = 3

    public var target: UserID
    /// R3: ``onlineStatus`` or ``friendOnlineStatus``.
    public var subscribeType: UInt8
    public var subscribedAt: Milliseconds
    /// Nil for never.
    public var expiresAt: Milliseconds?
    public var version: Version
    /// A tombstone: unsubscribed, evicted or expired.
    public var isRemoved: Bool
    /// When this node learnt of it, if that was later than ``subscribedAt``; does not travel.
    public var learntAt: Milliseconds = 0

    public init(
        target: UserID, subscribeType: UInt8 = Subscription.onlineStatus, subscribedAt: Milliseconds, expiresAt: Milliseconds?,
        version: Version,
        isRemoved: Bool = false
    ) {
        self.target = target
        self.subscribeType = subscribeType
        self.subscribedAt = subscribedAt
        self.expiresAt = expiresAt
        self.version = version
        self.isRemoved = isRemoved
    }
}
