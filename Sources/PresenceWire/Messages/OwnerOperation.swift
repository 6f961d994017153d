/// An operation that a node requests from an owner. Each may arrive twice (a retry), with the same result.
public enum OwnerOperation: Hashable, Sendable {
    /// Sets the custom status, or clears it with an empty text. It ends after `seconds` if given.
    case setSelfStatus(customStatus: String, seconds: Int64?)
    /// Publishes a numeric status (N10) that ends after `seconds`. `session` is the caller's session, if the calling node knows it.
    case publishEvent(value: Int64, ext: String, seconds: Int64, isForOnlineOnly: Bool, isSynced: Bool, session: SessionID?)
    /// Subscribes to `targets`, each with the version that the caller receives in the answer.
    ///
    /// `session` is the caller's session, if the calling node knows only one of the user. Its stream repeats neither the content of the
    /// answer nor the call (R14).
    ///
    /// `isCounted` is true after all nodes were asked and each target has room for another follower (R6).
    case subscribe([Target], seconds: Int64?, subscribeType: UInt8, session: OriginSession, isCounted: Bool = false)
    /// Asks how many of the users that the receiver owns follow each of these. From then on the receiver must ask before it accepts a
    /// follower of them.
    case followers([UserID])
    /// Unsubscribes from these users; nil for all. With a type, only from subscriptions of this type.
    case unsubscribe([UserID]?, subscribeType: UInt8?, session: OriginSession)
    /// Reads one page of the subscription list, or the entries of `only`; with a type, only entries of this type.
    case subscriptions(only: [UserID]?, offset: Int, limit: Int, subscribeType: UInt8?)
    /// Reads these users' records as one user may see them; nil sees the whole records.
    case records([UserID], for: UserID?)
    /// Counts a query that the calling node answers itself. With `isMade` the query counts even beyond the limit.
    case countQuery(isMade: Bool)
    /// Changes the user's visibility.
    case setVisibility(Visibility.Change)
    /// Reads the user's visibility.
    case visibility
    /// Ends one session; nil ends all sessions of the user.
    case logout(SessionID?)
    /// Moves the end of a session to that of a newer token.
    case renew(SessionID, until: Milliseconds)
    /// Explains why one user sees the other as it does. The other user is named here.
    case explain(UserID, Explained)
    /// Ends all sessions of the user, and voids the existing tokens (X5).
    case kick(reason: String)
    /// Registers the user (`importUsers`).
    case register
    /// Changes the policy of the user's app. The bytes are JSON: see ``AppPolicy/changed(by:)``.
    case setPolicy([UInt8])
    /// Decides about other users in the relationship chain.
    case chain(ChainCall)
    /// Reads the user's friend list.
    case friends(FriendQuery)
    /// Reads or changes the user's own profile and lists of the relationship chain.
    case friendCall(FriendCall)
    /// Reads which users are in each other's lists.
    case checkRelations(RelationCheck)
    /// Reads these users' profiles (P3).
    case profiles([UserID])
    /// Keeps a ticket that opens one event stream of the user.
    case issueTicket(String)
    /// Uses a ticket.
    case redeemTicket(String)
    /// Reads the open sessions of these users.
    case sessions([UserID])
    /// Reads the next ONLINE users of an app that the node owns. All nodes are asked.
    case onlineUsers(OnlineQuery)
    /// Delivers webhook events of an app that the node's users have kept, since a time, once more. All nodes are asked.
    case replayWebhooks(app: String, since: Milliseconds)
    /// Reads a page of the user's facts.
    case exportFacts(FactExportRequest)
    /// Takes facts into the user's lists.
    case importFacts(FactImportRequest)
    /// Reads which users that the node owns have facts about the user, or removes these facts. All nodes are asked.
    case mentions(MentionRequest)
    /// A step of the user's deletion.
    case deleteUser(DeletionRequest)

    /// The users of one request for sessions: 50, so that the answer fits into a batch.
    public static let sessionsUsersMax = 50

    /// Whether the change must survive the loss of a node. Such a call is refused if only one disk can be reached.
    public var isDurable: Bool {
        switch self {
        case .setSelfStatus, .publishEvent, .subscribe, .unsubscribe, .setPolicy, .kick, .register, .setVisibility, .chain: true
        case .subscriptions, .records, .visibility, .logout, .renew, .explain, .followers, .countQuery, .friends, .checkRelations,
            .profiles, .issueTicket, .redeemTicket, .sessions, .onlineUsers, .replayWebhooks, .exportFacts:
            false
        case .friendCall(let call): call.isChange
        case .importFacts(let request): !request.isDryRun
        case .mentions(let request): request.removes
        case .deleteUser(let step): !step.isRead
        }
    }

    /// Whether an attempt without an answer may have changed something that a caller could read.
    public var mayTakeEffect: Bool {
        switch self {
        case .logout, .renew, .replayWebhooks: true
        default: isDurable
        }
    }

    /// Whether a repetition of the operation could be told apart, so that its owner keeps the answer under the call's key.
    ///
    /// `modifySelfProfile` says what the fields are afterwards, like `setSelfStatus`.
    public var takesKey: Bool {
        switch self {
        case .publishEvent, .chain: true
        case .friendCall(.modifyProfile): false
        case .friendCall(let call): call.isChange
        default: false
        }
    }

    /// Whether the operation changes nothing that a caller could read.
    public var isRead: Bool {
        switch self {
        case .subscriptions, .records, .visibility, .explain, .followers, .countQuery, .friends, .checkRelations, .profiles, .sessions,
            .onlineUsers, .exportFacts:
            true
        case .setSelfStatus, .publishEvent, .subscribe, .unsubscribe, .setPolicy, .kick, .register, .setVisibility, .chain, .logout, .renew,
            .issueTicket, .redeemTicket, .replayWebhooks:
            false
        case .friendCall(let call): !call.isChange
        case .importFacts(let request): request.isDryRun
        case .mentions(let request): !request.removes
        case .deleteUser(let step): step.isRead
        }
    }

    /// Whether the answer states a profile or the user's lists. Unlike a status, they do not say up to which time they are known.
    public var readsLists: Bool {
        switch self {
        case .chain, .friends, .friendCall, .checkRelations, .profiles, .exportFacts, .importFacts, .mentions, .deleteUser: true
        case .setSelfStatus, .publishEvent, .subscribe, .followers, .unsubscribe, .subscriptions, .records, .countQuery, .setVisibility,
            .visibility, .logout, .renew, .explain, .kick, .register, .setPolicy, .issueTicket, .redeemTicket, .sessions, .onlineUsers,
            .replayWebhooks:
            false
        }
    }

    /// Whether an answer belongs to the operation. Only a broken node sends another one.
    public func isAnswered(by answer: Answer) -> Bool {
        switch answer {
        case .refused, .rateLimited: return true
        default: break
        }
        return switch self {
        case .setSelfStatus(let customStatus, let seconds):
            CustomStatusRequest(customStatus: customStatus, seconds: seconds).isAnswered(by: answer)
        case .publishEvent, .register: RecordAnswer(answer) != nil
        case .renew(let session, let expiresAt): RenewRequest(session: session, expiresAt: expiresAt).isAnswered(by: answer)
        case .unsubscribe, .kick, .setPolicy, .countQuery, .issueTicket, .redeemTicket:
            DoneAnswer(answer) != nil
        case .logout(let session): LogoutRequest(session: session).isAnswered(by: answer)
        case .setVisibility(let change): change.isAnswered(by: answer)
        case .visibility: VisibilityRequest().isAnswered(by: answer)
        case .subscribe:
            switch answer {
            case .subscribed, .followerLimitReached: true
            default: false
            }
        case .followers: if case .followers = answer { true } else { false }
        case .subscriptions: if case .subscriptions = answer { true } else { false }
        case .records: if case .records = answer { true } else { false }
        case .friends(let query): query.isAnswered(by: answer)
        case .chain(let call): call.isAnswered(by: answer)
        case .friendCall(let call): call.isAnswered(by: answer)
        case .checkRelations: if case .relationsChecked = answer { true } else { false }
        case .profiles: if case .profiles = answer { true } else { false }
        case .explain: if case .explained = answer { true } else { false }
        case .sessions(let users): if case .sessions(let lists) = answer { lists.count == users.count } else { false }
        case .onlineUsers(let query): query.isAnswered(by: answer)
        case .replayWebhooks: ReplayAnswer(answer) != nil
        case .exportFacts(let request): request.isAnswered(by: answer)
        case .importFacts(let request):
            if let given = FactImportAnswer(answer) { given.outcomes.count == request.facts.count } else { false }
        case .mentions(let request): request.isAnswered(by: answer)
        case .deleteUser(let step): step.isAnswered(by: answer)
        }
    }

    /// The part of an explanation that a node contributes.
    public enum Explained: UInt8, Hashable, Sendable {
        /// The part of the owner of the user who is seen: the request's user.
        case target = 1
        /// The part of the owner of the viewer: the request's user.
        case viewer = 2
        /// The part of any node about the streams of the request's user.
        case view = 3
        /// The part of the owner of the request's user, for that user itself: nothing about others.
        case own = 4
        /// The part of any node about its load, and about the webhook of the app of the request's user.
        case load = 5
    }

    /// A user to subscribe to.
    public struct Target: Hashable, Sendable {
        public var user: UserID
        /// The record that the answer to the call has.
        public var delivered: DeliveredRecord

        public init(user: UserID, delivered: DeliveredRecord) {
            self.user = user
            self.delivered = delivered
        }
    }
}

/// The byte that names the operation of a request to an owner.
private enum OperationTag: UInt8 {
    case setSelfStatus = 1
    case subscribe = 2
    case unsubscribe = 3
    case subscriptions = 4
    case records = 5
    case logout = 6
    case setPolicy = 7
    case publishEvent = 8
    case kick = 9
    case explain = 10
    case setVisibility = 11
    case visibility = 12
    case register = 13
    case followers = 14
    case countQuery = 15
    case chain = 16
    case friends = 17
    case friendCall = 24
    case checkRelations = 25
    case profiles = 26
    case issueTicket = 27
    case redeemTicket = 28
    case sessions = 29
    case onlineUsers = 30
    case replayWebhooks = 31
    case renew = 32
    case exportFacts = 33
    case importFacts = 34
    case mentions = 35
    case deleteUser = 36
}

extension WireWriter {
    /// Writes an operation with its tag.
    mutating func operation(_ operation: OwnerOperation) {
        switch operation {
        case .setSelfStatus(let customStatus, let seconds):
            tag(OperationTag.setSelfStatus)
            text(customStatus)
            optional(seconds) { $0.signed($1) }
        case .subscribe(let targets, let seconds, let subscribeType, let session, let isCounted):
            tag(OperationTag.subscribe)
            list(targets) { writer, target in
                writer.user(target.user)
                writer.optional(target.delivered.wire) { $0.version($1) }
            }
            optional(seconds) { $0.signed($1) }
            tag(subscribeType)
            optional(session.wire) { $0.session($1) }
            tag(isCounted ? 1 : 0)
        case .followers(let targets): tagged(.followers) { $0.users(targets) }
        case .unsubscribe(let targets, let type, let session):
            tag(OperationTag.unsubscribe)
            optional(targets) { $0.users($1) }
            optional(type) { $0.tag($1) }
            optional(session.wire) { $0.session($1) }
        case .subscriptions(let only, let offset, let limit, let type):
            tag(OperationTag.subscriptions)
            optional(only) { $0.users($1) }
            unsigned(UInt64(offset))
            unsigned(UInt64(limit))
            optional(type) { $0.tag($1) }
        case .records(let users, let viewer):
            tag(OperationTag.records)
            self.users(users)
            optional(viewer) { $0.user($1) }
        case .setVisibility(let change): tagged(.setVisibility) { $0.visibility(change) }
        case .visibility: tag(OperationTag.visibility)
        case .countQuery(let isMade): tagged(.countQuery) { $0.tag(isMade ? 1 : 0) }
        case .logout(let session): tagged(.logout) { $0.optional(session) { $0.session($1) } }
        case .renew(let session, let expiresAt): tagged(.renew) { RenewRequest(session: session, expiresAt: expiresAt).write(into: &$0) }
        case .publishEvent(let value, let ext, let seconds, let isForOnlineOnly, let isSynced, let session):
            tag(OperationTag.publishEvent)
            signed(value)
            text(ext)
            signed(seconds)
            tag((isForOnlineOnly ? 1 : 0) | (isSynced ? 2 : 0))
            optional(session) { $0.session($1) }
        case .explain(let other, let part):
            tag(OperationTag.explain)
            user(other)
            tag(part.rawValue)
        case .register: tag(OperationTag.register)
        case .chain(let call): tagged(.chain) { call.write(into: &$0) }
        case .friends(let query): tagged(.friends) { query.write(into: &$0) }
        case .friendCall(let call): tagged(.friendCall) { call.write(into: &$0) }
        case .checkRelations(let check): tagged(.checkRelations) { check.write(into: &$0) }
        case .profiles(let users): tagged(.profiles) { $0.users(users) }
        case .issueTicket(let ticket): tagged(.issueTicket) { $0.text(ticket) }
        case .redeemTicket(let ticket): tagged(.redeemTicket) { $0.text(ticket) }
        case .sessions(let users): tagged(.sessions) { $0.users(users) }
        case .onlineUsers(let query): tagged(.onlineUsers) { query.write(into: &$0) }
        case .replayWebhooks(let app, let since): tagged(.replayWebhooks) { $0.replay(of: app, since: since) }
        case .exportFacts(let request): tagged(.exportFacts) { request.write(into: &$0) }
        case .importFacts(let request): tagged(.importFacts) { request.write(into: &$0) }
        case .mentions(let request): tagged(.mentions) { request.write(into: &$0) }
        case .deleteUser(let step): tagged(.deleteUser) { step.write(into: &$0) }
        case .kick(let reason): tagged(.kick) { $0.text(reason) }
        case .setPolicy(let change): tagged(.setPolicy) { $0.text(String(decoding: change, as: UTF8.self)) }
        }
    }

    private mutating func replay(of app: String, since: Milliseconds) {
        text(app)
        signed(since)
    }

    private mutating func tagged(_ name: OperationTag, _ write: (inout WireWriter) -> Void) {
        tag(name)
        write(&self)
    }
}

extension WireReader {
    /// Reads an operation; see ``WireWriter/operation(_:)``.
    mutating func operation() throws(DecodeError) -> OwnerOperation {
        switch try tag(as: OperationTag.self) {
        case .setSelfStatus:
            return .setSelfStatus(customStatus: try text(bytesMax: Limits.customStatusBytesMax), seconds: try optionalSeconds())
        case .subscribe:
            let targets = try list { reader throws(DecodeError) in try OwnerOperation.Target(from: &reader) }
            return .subscribe(
                targets, seconds: try optionalSeconds(), subscribeType: try tag(), session: try originSession(), isCounted: try flag())
        case .followers: return .followers(try users())
        case .unsubscribe:
            return .unsubscribe(
                try userList(), subscribeType: try optional { reader throws(DecodeError) in try reader.tag() },
                session: try originSession())
        case .subscriptions:
            return .subscriptions(
                only: try userList(), offset: Int(clamping: try unsigned()), limit: Int(clamping: try unsigned()),
                subscribeType: try optional { reader throws(DecodeError) in try reader.tag() })
        case .records: return .records(try users(), for: try optional { reader throws(DecodeError) in try reader.user() })
        case .setVisibility: return .setVisibility(try visibilityChange())
        case .visibility: return .visibility
        case .countQuery: return .countQuery(isMade: try flag())
        case .renew: return .renew(try session(), until: try signed())
        case .logout: return .logout(try optional { reader throws(DecodeError) in try reader.session() })
        case .publishEvent:
            let (value, ext, seconds, flags) = (try signed(), try text(bytesMax: Limits.eventBytesMax), try validity(), try tag())
            guard flags < 4 else { throw .unknownTag(flags) }
            return .publishEvent(
                value: value, ext: ext, seconds: seconds, isForOnlineOnly: flags & 1 != 0, isSynced: flags & 2 != 0,
                session: try optional { reader throws(DecodeError) in try reader.session() })
        case .explain: return .explain(try user(), try explained())
        case .register: return .register
        case .chain: return .chain(try chainCall())
        case .friends: return .friends(try friendQuery())
        case .friendCall: return .friendCall(try FriendCall(from: &self))
        case .checkRelations: return .checkRelations(try relationCheck())
        case .profiles: return .profiles(try users())
        case .issueTicket: return .issueTicket(try text(bytesMax: Limits.ticketBytesMax))
        case .redeemTicket: return .redeemTicket(try text(bytesMax: Limits.ticketBytesMax))
        case .sessions: return .sessions(try users())
        case .onlineUsers: return .onlineUsers(try OnlineQuery(from: &self))
        case .replayWebhooks: return .replayWebhooks(app: try text(bytesMax: Limits.nameBytesMax), since: try time())
        case .exportFacts: return .exportFacts(try FactExportRequest(from: &self))
        case .importFacts: return .importFacts(try FactImportRequest(from: &self))
        case .mentions: return .mentions(try MentionRequest(from: &self))
        case .deleteUser: return .deleteUser(try DeletionRequest(from: &self))
        case .kick: return .kick(reason: try text(bytesMax: Limits.nameBytesMax))
        case .setPolicy: return .setPolicy(Array(try text(bytesMax: Limits.rowBytesMax).utf8))
        }
    }

    mutating func explained() throws(DecodeError) -> OwnerOperation.Explained { try tag(as: OwnerOperation.Explained.self) }
}

extension OwnerOperation.Target {
    fileprivate init(from wire: inout WireReader) throws(DecodeError) {
        self.init(user: try wire.user(), delivered: try wire.delivered())
    }
}
