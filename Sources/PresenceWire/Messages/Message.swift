/// A message from one node to another.
///
/// The same values travel between two nodes and inside one. A caller does not need to know where the owner is.
public enum Message: Hashable, Sendable {
    // From the node of a gateway to an owner.
    /// Asks for the receiver's view digests of the sessions and watches that the sender hosts, by this ring.
    ///
    /// Earlier registrations may be lost, on this link or the other. The answer is ``registered(registrationID:_:)``.
    case requestRegistered(registrationID: UInt64, ring: UInt64)
    /// Starts a registration: all sessions and watches of the receiver's users in `ranges` follow, until ``endSync(registrationID:)``.
    case beginSync(registrationID: UInt64, ranges: SlotRanges)
    /// Ends a registration: what was not registered since ``beginSync(registrationID:)`` has ended.
    case endSync(registrationID: UInt64)
    /// Registers an open session.
    case attach(Attach)
    /// Reports the end of a session.
    case detach(Detach)
    /// Subscribes the sender to the records of these users.
    case watch([Watch])
    /// Ends the sender's watches of these users.
    case unwatch([UserID])
    /// Hands the receiver, the next owner of these users, the ends of sessions that are under way. The offers of the ring follow.
    case pendingEnds([PendingEnds])
    /// Forwards an operation to the owner of a user.
    case request(Request)
    /// Forwards an operation that belongs to a client's trace. Sent only to nodes that have said that they read it.
    indirect case traced(TraceContext, Request)

    // From an owner to the node of a gateway.
    /// Sends a user's record after a change.
    case delta(Record)
    /// Sends a changed record, which the receiver forwards to `targets` (by ``Peer/number``). No other node sends it to them.
    case relay(Record, targets: [UInt32])
    /// Sends the versions that relays should have forwarded to the receiver, as hashes of user and version, by slot.
    ///
    /// The receiver asks for those that it does not hold.
    case relayed([SlotHash])
    /// Sends one hash for each range of slots, from the range `first` on: the sessions and watches that the sender knows of the receiver,
    /// by this ring.
    ///
    /// The receiver registers the ranges that differ (``beginSync(registrationID:ranges:)``).
    case viewDigest(ring: UInt64, first: UInt8, [UInt64])
    /// Answers ``requestRegistered(registrationID:ring:)`` with one hash for each of ``digestRangesCount`` ranges of slots.
    ///
    /// The list is empty if the sender uses another ring or is not active yet. The receiver registers the ranges that differ.
    case registered(registrationID: UInt64, [UInt64])
    /// Answers ``watch(_:)``.
    case watched([Watched])
    /// Sends a user's subscription list, or a change of it; also the user's open sessions, or these alone.
    case listUpdate(ListUpdate)
    /// Ends the stream of this session.
    case end(SessionID, user: UserID, reason: String)
    /// Moves the end of this session to that of a newer token. The client of the session is alive.
    case renew(SessionID, user: UserID, until: Milliseconds)
    /// Answers ``request(_:)``.
    case answer(id: UInt64, Answer)
    /// Rejects these users: the sender does not own their slots, or is not active in them yet. The receiver registers them by a newer ring.
    /// A request is sent back by ``Answer/sentBack``.
    ///
    /// An empty list says that the sender is now active in all slots that it owns.
    case misrouted([UserID])

    // Between the replicas of a slot.
    /// Sends rows that the receiver stores on disk. A ticket asks for ``replicated(ticket:)``; nil asks for no answer.
    case replicate(ticket: UInt64?, [Row])
    /// Confirms that the rows of the receiver's ticket are on the sender's disk.
    case replicated(ticket: UInt64)
    /// Sends one hash for each of ``digestRangesCount`` ranges of slots, over the rows of the slots that both nodes keep.
    ///
    /// The receiver answers with the ranges that differ, as ``bucketDigest(salt:_:)``.
    case digest([UInt64])
    /// Describes parts of the users that both nodes keep, at most ``bucketsMax``. Their hashes are salted.
    ///
    /// The receiver answers with the smaller parts that differ, with rows, and with requests for rows. No node keeps the state of
    /// the exchange: the next digest finds what a lost message has left.
    case bucketDigest(salt: UInt64, [HashBucket])
    /// Asks which of these users are followed by users that the receiver owns by this ring. The others may be removed
    /// (`users.forgetAfter`).
    ///
    /// A node that uses another ring, or has slots that it is still acquiring, does not answer.
    case askFollowed(id: UInt64, ring: UInt64, [UserID])
    /// Answers ``askFollowed(id:ring:_:)`` with the users that are followed.
    case areFollowed(id: UInt64, [UserID])

    // Between the owners of two users.
    /// Asks the owner of a user to apply another user's decision.
    ///
    /// The sender repeats it until ``chainApplied(_:)`` arrives. A receiver that does not own the user ignores it.
    case chainApply(ChainApply)
    /// Answers ``chainApply(_:)`` once the rows of the receiver's decision are on two disks.
    case chainApplied(ChainApplied)
    /// Asks the owner of a user whether a decision still counts whose rows the sender has; or answers, or has the receiver ask.
    ///
    /// The sender repeats the question until it is answered. A receiver that does not own the user does not answer it.
    case chainVerify(ChainVerify)

    // The handoff of slots after a change of the members.
    /// Offers the rows of slots that the receiver keeps by this ring, in pages of ``offerSlotsMax``.
    ///
    /// The sender numbers its offers: it starts another one whenever it holds more rows.
    case offer(ring: UInt64, offerSequence: UInt64, [SlotHash], isFirst: Bool, isLast: Bool)
    /// Asks for a new offer. Earlier offers do not count any more.
    case requestOffer
    /// Asks for all rows of these slots.
    case fetch(ring: UInt64, [Slot])
    /// Reports that all requested rows of so many slots have been sent.
    case sent(ring: UInt64, slotsCount: Int)
    /// Reports that the sender has all rows that it keeps by this ring, from the receiver's offers up to this one; 0 for no offer.
    case transferComplete(ring: UInt64, offerSequence: UInt64)

    // Between any two nodes.
    /// Sends membership updates and probes.
    case membership(MembershipMessage)
    /// Sends the sender's clock and its system clock, which differ after a jump. With `wantsAnswer` the receiver sends its own.
    ///
    /// A node sends it while it doubts its clock, and to a node whose versions it has refused.
    case clocks(Milliseconds, system: Milliseconds, wantsAnswer: Bool)
    /// Reports that the sender's link to the receiver is up, so that the sender can answer.
    ///
    /// Earlier messages to the sender may be lost, and the receiver sends their content again.
    case requestSync
    /// Reports that every record that the sender has written up to this version of its clock has been sent before.
    case complete(upTo: Version)
}

extension Message {
    /// The number of ranges of 64 slots. A digest takes 10 KiB.
    public static let digestRangesCount = 1_024
    /// Most buckets of one ``bucketDigest(salt:_:)``: 100 KiB, for as many differing users as one page has rows.
    public static let bucketsMax = 2_048
    /// The number of ranges of 1,024 slots by which gateways and owners compare. A set of them is one integer.
    public static let viewRangesCount = 64
    /// Most slots of one ``offer(ring:offerSequence:_:isFirst:isLast:)``: a page of 45 KiB.
    public static let offerSlotsMax = 4_096
    /// The number of rows at which a ``replicate(ticket:_:)`` that repairs or hands off rows is complete. It also has the other rows of the
    /// last change.
    public static let replicateRowsMax = 200
    /// The size in bytes at which such a message is complete.
    public static let replicateBytesMax = 256 << 10
}

/// The identity and address of a node.
public struct Peer: Hashable, Sendable {
    public var id: NodeID
    /// The start time of the process in milliseconds since 1970. It is larger after each restart.
    public var generation: UInt64
    /// `host:port` of its cluster port.
    public var address: String
    /// The node's share of the ring, 1–1000.
    public var weight: UInt32

    public init(id: NodeID, generation: UInt64, address: String, weight: UInt32 = 100) {
        self.id = id
        self.generation = generation
        self.address = address
        self.weight = weight
    }
}

/// The first message of each node on a link, after the caller has proved that it knows the cluster's secret.
public struct Hello: Hashable, Sendable {
    /// The version of this protocol. Nodes with another version refuse the link.
    public static let protocolVersion: UInt64 = 27

    public var protocolVersion: UInt64
    /// The name of the cluster. Nodes of another cluster refuse the link.
    public var cluster: String
    public var sender: Peer
    /// The members that the sender knows, itself included.
    public var members: [Peer]
    /// The sender's wall clock. Nodes whose clocks are too far apart refuse the link.
    public var wall: Milliseconds
    /// The number of connections that the sender has opened; 0 in the answer to a hello.
    public var number: UInt64

    /// The connection on which the sender sends the hello.
    public var connection: ConnectionID { ConnectionID(generation: sender.generation, number: number) }

    /// Whether the receiver can read the whole hello. The fields before ``members`` are the same in all versions.
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

/// The identity of a connection from one node to another.
///
/// A later connection of the same node voids the earlier ones. Unread batches of an earlier connection must not undo what the node has sent
/// on the later one.
public struct ConnectionID: Comparable, Hashable, Sendable {
    /// The process that opened the connection (``Peer/generation``).
    public let generation: UInt64
    /// The number of connections that the process had opened, this one included.
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
    /// The part that the stream has in the status of its user.
    public enum Kind: Sendable {
        /// The user is ONLINE while it is open.
        case session
        /// It hears without being seen (`presence=none`): it is no session of the user, and changes no status.
        case listener
    }

    public var session: SessionID
    public var kind = Kind.session
    public var user: UserID
    public var platform: String
    /// The device's ID; empty if the client did not name its device.
    public var deviceID: String
    /// The custom status that the login sets (Z8); nil leaves it unchanged.
    public var customStatus: String?
    /// Whether the session is new. False when a gateway registers an open session again, with a new owner or after a broken link.
    public var isLogin: Bool
    /// Whether vendor push reaches the device. The policy may then keep the user ONLINE after the session is lost (N19).
    public var isPushReachable: Bool
    /// Whether the gateway was last sent more sessions of the user than this one (``ListUpdate/sessions``). A new owner corrects that.
    public var isOneOfSeveral = false
    /// The time of the login, by the clock of the gateway's node.
    public var openedAt: Milliseconds = 0
    /// The newest record of the user that the gateway holds. The owner may hold an older one.
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
    /// The reason why a session ended.
    public enum Cause: UInt8, Sendable {
        /// FIN, RST, or silence: the user goes OFFLINE after the grace (T3, T5, T6).
        case lost = 1
        /// A `logout`: the user goes UNLOGINED (T7).
        case loggedOut = 2
        /// The token of the session has ended: the user goes OFFLINE after the grace.
        case tokenExpired = 3
    }

    public var session: SessionID
    public var user: UserID
    public var cause: Cause
    /// The time since the last sign of life of the client. It is 0 if the client's side closed the connection, which is a sign of life
    /// itself.
    public var silence: Milliseconds

    public init(session: SessionID, user: UserID, cause: Cause, silence: Milliseconds = 0) {
        self.session = session
        self.user = user
        self.cause = cause
        self.silence = silence
    }
}

/// The reasons why an owner or a gateway ends a session, as the client receives them.
public enum SessionEnd {
    /// The user logged the session out, here or elsewhere. The client receives `onLogout`.
    public static let logout = "logout"
    /// The user was deleted (`deleteUser`).
    public static let deleted = "deleted"
    /// A newer login evicted the session (`login.multiClient`), or the user has too many sessions.
    public static let replaced = "replaced"
    /// The token of the session has ended, and the client has not renewed it. The gateway ends such a session, not the owner.
    public static let tokenExpired = "tokenExpired"
}

/// One user whose records a node requests.
public struct Watch: Hashable, Sendable {
    public var user: UserID
    /// The version that the node holds. The owner answers only with a newer one.
    public var held: Version
    /// The record that the node holds. The node sends it to a new owner, which may hold an older one.
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
    /// The newest record; nil if the watching node holds it already.
    public var record: Record?
    /// ``Record/knownSince`` of the record that the watching node holds already.
    public var knownSince: Milliseconds

    public init(user: UserID, record: Record?, knownSince: Milliseconds = 0) {
        self.user = user
        self.record = record
        self.knownSince = knownSince
    }
}

/// A user's subscription list, or a change of it.
public struct ListUpdate: Hashable, Sendable {
    /// One followed user.
    public struct Followed: Hashable, Sendable {
        public var target: UserID
        /// The record that the answer to the subscribe call has.
        public var delivered: DeliveredRecord
        /// The time at which the owner learned of the subscription, on its version clock.
        ///
        /// A client that resumes from an earlier position has not received the target.
        public var since: Milliseconds
        /// The type of the subscription (R3); ``friendType`` for a friend without one (T28).
        public var subscribeType: UInt8
        /// Whether the sessions receive the profile of the target, not its status.
        public var isOfProfile: Bool { Subscription.isOfProfile(subscribeType) }
        /// The time at which the subscription ends by itself; nil for never.
        public var expiresAt: Milliseconds?

        /// Stands for a type: the sessions receive the status and the profile of a friend without a subscription.
        public static let friendType: UInt8 = 0
        /// Whether the target is a friend without a subscription. Friends are the last of ``ListUpdate/added``.
        public var isFriend: Bool { subscribeType == Self.friendType }

        /// Makes the entry of a friend without a subscription. No answer has sent the record.
        public init(friend: UserID, since: Milliseconds) {
            self.init(target: friend, delivered: .nothing, since: since, subscribeType: Self.friendType)
        }

        public init(
            target: UserID, delivered: DeliveredRecord, since: Milliseconds, subscribeType: UInt8 = Subscription.onlineStatus,
            expiresAt: Milliseconds? = nil
        ) {
            self.target = target
            self.delivered = delivered
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
    /// The version of the newest change of the list in this message. Of a whole list that is older than the one it holds, a
    /// gateway takes the notices alone.
    public var version: Version
    /// Whether `added` is the whole list.
    public var isWhole: Bool
    public var added: [Followed]
    public var removed: [UserID]
    /// Whether a call or a new quota made the change, so that the user's other sessions receive `added` and `unfollowed` (R14).
    public var isNews = false
    /// The subscriptions that the call has ended, if `isNews`. They include those to friends, whose records the user still receives.
    public var unfollowed: [Unfollowed] = []
    /// The session that made the call. It does not receive the news.
    public var originSession = OriginSession.unknown
    /// Whether `removed` have expired, so that the user's sessions receive a notice (`subscription.notifyExpiry`).
    public var hasExpired = false
    /// Whether a whole list may lack subscriptions that only other nodes know.
    ///
    /// The gateway keeps targets that are neither in `added` nor in `removed`.
    public var mayBeIncomplete = false
    /// The hash of a whole list. It changes with each change that the owner sends (``listHash(after:)``).
    ///
    /// A gateway with the owner's hash has received every change of the list.
    public var listHash: UInt64 = 0
    /// Events of the relationship chain for the sessions. A whole list has the newest state.
    public var notices: [RelationshipNotice] = []
    /// The friends of whom the sessions are told changed profiles alone (P43): all of them in a whole list, otherwise the new ones.
    ///
    /// Friends whose statuses the sessions are told as well, and subscriptions to profiles (R3), are in `added`.
    public var profiles: [UserID] = []
    /// The users whose profiles the sessions do not follow any more, neither as friends nor by a subscription.
    public var removedProfiles: [UserID] = []
    /// The users who are not friends any more and whom the sessions do not follow any more, each with the time at which that became known.
    ///
    /// A session that was not shown all that it followed before is shown their statuses once more, as the user may see them now.
    public var formerFriends: [Followed] = []
    /// All open sessions of the user, without the names of their nodes, in the order of their logins; empty if the message does not say.
    public var sessions: [UserSession] = []

    public init(user: UserID, version: Version, isWhole: Bool, added: [Followed], removed: [UserID]) {
        self.user = user
        self.version = version
        self.isWhole = isWhole
        self.added = added
        self.removed = removed
    }
}

extension ListUpdate {
    /// The list hash after a gateway has applied this message to a list with the hash `listHash`.
    public func listHash(after hash: UInt64) -> UInt64 {
        isWhole ? listHash : StableHash.mix(hash, StableHash.mix(version.stamp, UInt64(version.node)))
    }

    /// The same message for a subscriber whom the answer to the call has not reached.
    ///
    /// A subscriber that requested no record (N8) receives none here either.
    public var withoutDelivered: ListUpdate {
        var listUpdate = self
        for index in listUpdate.added.indices where listUpdate.added[index].delivered != .laterChanges {
            listUpdate.added[index].delivered = .nothing
        }
        return listUpdate
    }
}

/// The hash of the rows that a node holds of one slot.
public struct SlotHash: Hashable, Sendable {
    public var slot: Slot
    /// The hash; equal for equal rows.
    public var hash: UInt64

    public init(slot: Slot, hash: UInt64) {
        self.slot = slot
        self.hash = hash
    }
}

/// One subscription of a user.
public struct Subscription: Hashable, Sendable {
    /// The usual type: lasts until it ends by itself or a call ends it.
    public static let onlineStatus: UInt8 = 1
    /// The type of a subscription to a friend. It ends with the friendship.
    public static let friendOnlineStatus: UInt8 = 3

    public var target: UserID
    /// Whether subscriptions of a type are to profiles. Each of them is a ``ProfileSubscription``.
    public static func isOfProfile(_ type: UInt8) -> Bool {
        type == ProfileSubscription.profile || type == ProfileSubscription.friendProfile
    }

    /// The type (R3): ``onlineStatus`` or ``friendOnlineStatus``, or one of a ``ProfileSubscription``.
    public var subscribeType: UInt8
    public var subscribedAt: Milliseconds
    /// The time at which the subscription ends by itself; nil for never.
    public var expiresAt: Milliseconds?
    public var version: Version
    /// Whether this is a tombstone: unsubscribed, evicted or expired.
    public var isRemoved: Bool
    /// The time at which this node received the subscription, if later than ``subscribedAt``. It does not travel.
    public var observedAt: Milliseconds = 0

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
