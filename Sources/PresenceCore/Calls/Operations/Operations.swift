import PresenceWire

/// The table of all operations.
///
/// A new operation adds its name and its lines to the switches here, a file in this folder, and, if the owner decides it, a case of
/// ``PresenceWire/OwnerOperation``.
extension API {
    /// An operation of clients. Its name is the same in the path, in the SDKs, and in the label of the metrics.
    package enum Operation: Int, CaseIterable, Sendable {
        case setSelfStatus, publishEvent, getUserStatus, subscribeUserStatus, unsubscribeUserStatus, getSubscribedUserStatus, logout,
            setVisibility, getVisibility, addFriend, doResponse, deleteFriends, getFriendList, getPendencyList, deletePendency,
            pendencyReport, modifyFriend, createFriendGroup, deleteFriendGroup, renameFriendGroup, getFriendGroups, addFriendsToFriendGroup,
            delFriendsFromFriendGroup, addBlackList, deleteBlackList, getBlackList, checkBlackList, checkFriends, getSelfProfile,
            getUsersProfile, modifySelfProfile, importFriends, deleteAllFriends, streamTicket, renew, alive,
            getSessions, explainSelf

        package var name: String { "\(self)" }

        /// The parts of the operation that the HTTP API needs.
        package var type: any ClientOperation.Type {
            switch self {
            case .setSelfStatus: SetSelfStatus.self
            case .publishEvent: PublishEvent.self
            case .getUserStatus: GetUserStatus.self
            case .subscribeUserStatus: SubscribeUserStatus.self
            case .unsubscribeUserStatus: UnsubscribeUserStatus.self
            case .getSubscribedUserStatus: GetSubscribedUserStatus.self
            case .logout: Logout.self
            case .streamTicket: StreamTicket.self
            case .renew: Renew.self
            case .alive: Alive.self
            case .getSessions: GetSessions.self
            case .explainSelf: ExplainSelf.self
            case .setVisibility: SetVisibility.self
            case .getVisibility: GetVisibility.self
            case .addFriend: AddFriend.self
            case .doResponse: DoResponse.self
            case .deleteFriends: DeleteFriends.self
            case .importFriends: ImportFriends.self
            case .deleteAllFriends: DeleteAllFriends.self
            case .getFriendList: GetFriendList.self
            case .addBlackList: AddBlackList.self
            case .deleteBlackList: DeleteBlackList.self
            case .getBlackList: GetBlackList.self
            case .checkBlackList: CheckBlackList.self
            case .checkFriends: CheckFriends.self
            case .getSelfProfile: GetSelfProfile.self
            case .getUsersProfile: GetUsersProfile.self
            case .modifySelfProfile: ModifySelfProfile.self
            case .getPendencyList: GetPendencyList.self
            case .deletePendency: DeletePendency.self
            case .pendencyReport: PendencyReport.self
            case .modifyFriend: ModifyFriend.self
            case .createFriendGroup: CreateFriendGroup.self
            case .deleteFriendGroup: DeleteFriendGroup.self
            case .renameFriendGroup: RenameFriendGroup.self
            case .getFriendGroups: GetFriendGroups.self
            case .addFriendsToFriendGroup: AddFriendsToFriendGroup.self
            case .delFriendsFromFriendGroup: DelFriendsFromFriendGroup.self
            }
        }
    }

    /// An operation of operators that is a ``Call``. Its name is the same in the path and in the label of the metrics.
    package enum OperatorCall: CaseIterable, Sendable {
        case clusterLoad, deleteUser, explain, exportUser, importFacts, importUsers, kick, onlineUsers, queryOnlineStatus, replayWebhooks,
            setAppPolicy

        package var name: String { "\(self)" }

        /// The parts of the operation that the HTTP API needs.
        package var type: any OperatorOperation.Type {
            switch self {
            case .clusterLoad: ClusterLoad.self
            case .deleteUser: DeleteUser.self
            case .explain: Explain.self
            case .exportUser: ExportUser.self
            case .importFacts: ImportFacts.self
            case .importUsers: ImportUsers.self
            case .kick: Kick.self
            case .onlineUsers: OnlineUsers.self
            case .replayWebhooks: ReplayWebhooks.self
            case .queryOnlineStatus: QueryOnlineStatus.self
            case .setAppPolicy: SetAppPolicy.self
            }
        }
    }
}

/// An operation of a client or an operator: validated, with the user that it is about.
public enum Call: Equatable, Sendable {
    /// The caller's owner decides, and its answer is the whole answer.
    indirect case owner(OwnerOperation)
    case publishEvent(value: Int64, ext: String, seconds: Int64, isForOnlineOnly: Bool, isSynced: Bool)
    case getUserStatus([UserID])
    case subscribeUserStatus([UserID], seconds: Int64?, sync: Bool, subscribeType: UInt8)
    /// Unsubscribes from users, nil for all; of one type, or of any (R8).
    case unsubscribeUserStatus([UserID]?, subscribeType: UInt8? = nil)
    /// Reads subscriptions of one type, or of any (R9, R10).
    case getSubscribedUserStatus(only: [UserID]?, offset: Int, limit: Int, subscribeType: UInt8? = nil)
    /// Explains why the caller sees a user as it does.
    case explain(UserID)
    /// Reads the load of every live node, and how far each is with the webhook of the caller's app.
    case clusterLoad
    /// Registers users.
    case importUsers([UserID])
    /// Changes the policy of the caller's app: see ``PresenceWire/AppPolicy/changed(by:)``.
    case setAppPolicy([UInt8])
    /// Reads the caller's friend list.
    case getFriendList(FriendQuery)
    /// Reads which of these users are in a list of the caller; two-way, also which of them have the caller in theirs.
    case checkRelations([UserID], RelationCheck.List, isTwoWay: Bool)
    /// Reads the profiles of users (P3).
    case getUsersProfile([UserID])
    /// Reads the records and the open sessions of users.
    case querySessions([UserID])
    /// Reads a page of the ONLINE users of the caller's app.
    case onlineUsers(OnlineQuery)
    /// Delivers kept webhook events of the caller's app since a time once more.
    case replayWebhooks(since: Milliseconds)
    /// Reads a page of all that the cluster holds about the caller.
    case exportUser(after: UserExport.Position?)
    /// Deletes the caller.
    case deleteUser

    /// The token that makes a call (<doc:HTTPAPI#Callers-and-tokens>).
    public enum Origin: Sendable {
        /// The token of the caller.
        case caller
        /// The token of the app's back end, which has no rate limit and is the caller itself.
        case backEnd
        /// The token of the app's back end, which names the caller. That user may not exist.
        case backEndForCaller
    }
}

extension API.Operation {
    /// The effect of the operation that only an app's back end may have, in words; nil for an operation of everybody.
    var needOfAdmin: String? {
        switch self {
        case .checkBlackList: "checkBlackList: tells who has blocked a user"
        case .importFriends: "importFriends: adds friends without a request"
        case .deleteAllFriends: "deleteAllFriends: empties a friend list"
        default: nil
        }
    }

    /// The same for the fields of a call. Each operation also has `asUser`: see ``API/subject(asUser:caller:)``.
    func needOfAdmin(in fields: Fields) throws(Problem) -> String? {
        guard self == .addFriend, try fields.bool("force") == true else { return nil }
        return "force: adds a friend without an approval"
    }
}

extension Call {
    /// Whether the call concerns the caller as a user of the app, not only other users.
    var needsUser: Bool {
        switch self {
        case .owner(let operation): operation.needsUser
        case .publishEvent, .subscribeUserStatus, .unsubscribeUserStatus, .getSubscribedUserStatus, .getFriendList, .checkRelations: true
        case .getUserStatus, .explain, .clusterLoad, .importUsers, .setAppPolicy, .getUsersProfile, .querySessions, .onlineUsers,
            .replayWebhooks, .exportUser, .deleteUser:
            false
        }
    }

    /// Whether the caller's owner only counts the call, and other owners answer it.
    var gathersProfiles: Bool { if case .getUsersProfile = self { true } else { false } }
}

extension OwnerOperation {
    /// Whether a call that the caller's owner decides concerns the caller as a user of the app.
    fileprivate var needsUser: Bool {
        switch self {
        case .kick, .issueTicket, .redeemTicket, .exportFacts, .importFacts, .mentions, .deleteUser: false
        default: true
        }
    }
}

extension Calls {
    /// Sends the owners of a call their requests.
    mutating func begin(
        _ call: Call, of caller: UserID, _ index: PendingCalls.CallIndex, _ edge: borrowing Edge, _ owner: borrowing Owner,
        _ cluster: inout Cluster, at now: Now
    ) {
        switch call {
        case .owner(let operation):
            switch operation {
            case .chain, .friendCall: askAfterCheck(operation, of: caller, for: index, edge, owner, &cluster, at: now)
            default: ask(operation, of: caller, for: index, &cluster)
            }
        case .publishEvent(let value, let ext, let seconds, let isForOnlineOnly, let isSynced):
            let operation = OwnerOperation.publishEvent(
                value: value, ext: ext, seconds: seconds, isForOnlineOnly: isForOnlineOnly, isSynced: isSynced,
                session: waiting.originSession(of: index).session)
            ask(operation, of: caller, for: index, &cluster)
        case .getUserStatus(let users): gather(users, for: index, edge, owner, &cluster, at: now)
        case .subscribeUserStatus(let targets, _, let sync, _):
            beginSubscribe(index, to: targets, sync: sync, edge, owner, &cluster, at: now)
        case .getSubscribedUserStatus(let only, let offset, let limit, let type):
            ask(.subscriptions(only: only, offset: offset, limit: limit, subscribeType: type), of: caller, for: index, &cluster)
        case .unsubscribeUserStatus(let targets, let type):
            let operation = OwnerOperation.unsubscribe(targets, subscribeType: type, session: waiting.originSession(of: index))
            askAfterCheck(operation, of: caller, for: index, edge, owner, &cluster, at: now)
        case .getFriendList(let query): ask(.friends(query), of: caller, for: index, &cluster)
        case .checkRelations(let users, let list, _): checkRelations(users, in: list, of: caller, for: index, edge, &cluster)
        case .getUsersProfile(let users): ProfileGathering.begin(users, by: caller, index, &self, edge, &cluster)
        case .importUsers(let users): ImportUsers.begin(users, for: index, &self, edge, &cluster)
        case .querySessions(let users): querySessions(of: users, for: index, edge, owner, &cluster, at: now)
        case .onlineUsers(let query): askAllNodes(.onlineUsers(query), of: caller, for: index, &cluster)
        case .replayWebhooks(let since):
            askAllNodes(.replayWebhooks(app: String(caller.app), since: since), of: caller, for: index, &cluster)
        case .clusterLoad: askAllNodes(.explain(caller, .load), of: caller, for: index, &cluster)
        case .exportUser(let position): ExportUser.begin(after: position, of: caller, for: index, &self, &cluster)
        case .deleteUser: DeleteUser.begin(caller, for: index, &self, &cluster)
        case .explain(let target): Explain.ask(about: target, by: caller, for: index, &self, &cluster)
        case .setAppPolicy(let change): ask(.setPolicy(change), of: .policyUser(of: String(caller.app)), for: index, &cluster)
        }
    }
}

extension Calls {
    /// Asks the caller's owner, after a check of the users whom the call names.
    private mutating func askAfterCheck(
        _ operation: OwnerOperation, of caller: UserID, for index: PendingCalls.CallIndex, _ edge: borrowing Edge, _ owner: borrowing Owner,
        _ cluster: inout Cluster, at now: Now
    ) {
        guard let targets = waiting[index]?.beginCheck(owner.policies.policy(of: caller)) else {
            return ask(operation, of: caller, for: index, &cluster)
        }
        gather(targets, for: index, edge, owner, &cluster, at: now)
    }
}

extension OwnerRequest {
    /// Carries out the operation, and answers it.
    ///
    /// - Returns: false for an operation that no owner carries out alone: see ``Calls``.
    func perform(on owner: inout Owner, into outbox: inout Outbox) -> Bool {
        switch request.operation {
        case .setSelfStatus(let customStatus, let seconds):
            let change = CustomStatusRequest(customStatus: customStatus, seconds: seconds)
            SetSelfStatus.decide(change, of: self, on: &owner, into: &outbox)
        case .publishEvent(let value, let ext, let seconds, let isForOnlineOnly, let isSynced, let session):
            let event = PublishedEvent(
                value: value, ext: ext, expiresAt: 0, isForOnlineOnly: isForOnlineOnly, isSynced: isSynced, session: session)
            PublishEvent.decide(PublishRequest(event: event, seconds: seconds), of: self, on: &owner, into: &outbox)
        case .subscribe(let targets, let seconds, let type, let session, let isCounted):
            let asked = FollowCall.Asked(targets: targets, seconds: seconds, type: type)
            switch followCall(by: session).subscribe(asked, isCounted: isCounted, on: &owner, into: &outbox) {
            case .refused(let refusal): answer(refusal, into: &outbox)
            case .done(let done): answerWhenStored(done, into: &outbox)
            }
        case .unsubscribe(let targets, let type, let session):
            followCall(by: session).unsubscribe(targets, of: type, on: &owner, into: &outbox)
            answerWhenStored(.done, into: &outbox)
        case .logout(let session): Logout.decide(LogoutRequest(session: session), of: self, on: &owner, into: &outbox)
        case .subscriptions(let only, let offset, let limit, let type):
            let page = GetSubscribedUserStatus.subscriptions(of: id, at: owner, only: only, offset: offset, limit: limit, type: type)
            answerAsWritten(page, into: &outbox)
        case .setVisibility(let change): SetVisibility.decide(change, of: self, on: &owner, into: &outbox)
        case .visibility: GetVisibility.decide(VisibilityRequest(), of: self, on: &owner, into: &outbox)
        case .register: answerWhenStored(.record(UserCall(id: id, now: now).register(at: &owner, into: &outbox)), into: &outbox)
        case .friends(let query): GetFriendList.decide(query, of: self, on: &owner, into: &outbox)
        case .friendCall(let call): OwnLists.decide(call, of: self, on: &owner, into: &outbox)
        case .checkRelations(let check): answerAsWritten(.relationsChecked(found(check, of: owner)), into: &outbox)
        case .profiles(let users): answerAsWritten(.profiles(profiles(of: users, at: owner)), of: users, into: &outbox)
        case .records(let users, let viewer): answer(.records(users.map { owner.record(of: $0).shown(to: viewer) }), into: &outbox)
        case .exportFacts(let request): ExportUser.decide(request, of: self, on: &owner, into: &outbox)
        case .importFacts(let request): ImportFacts.decide(request, of: self, on: &owner, into: &outbox)
        case .deleteUser(let step): DeleteUser.decide(step, of: self, on: &owner, into: &outbox)
        case .setPolicy, .kick, .explain, .followers, .countQuery, .chain, .issueTicket, .redeemTicket, .onlineUsers, .sessions,
            .replayWebhooks, .renew, .mentions:
            return false
        }
        return true
    }

    private func followCall(by session: OriginSession) -> FollowCall { FollowCall(request: request, session: session, now: now) }
}

extension RateLimits.Kind {
    /// The kind by which an operation is counted at its caller's owner; nil if it has no limit or was counted before.
    init?(_ operation: OwnerOperation) {
        switch operation {
        case .setSelfStatus: self = .setStatus
        case .publishEvent: self = .publish
        case .setVisibility: self = .setVisibility
        case .subscriptions: self = .list
        case .subscribe(_, _, _, _, let isCounted):
            if isCounted { return nil }
            self = .subscribe
        case .unsubscribe: self = .unsubscribe
        case .friendCall(let call):
            if !call.isChange { return nil }
            self = .chain
        case .chain: self = .chain
        case .checkRelations(let check):
            guard case .own = check.side else { return nil }
            self = .chain
        case .followers, .records, .countQuery, .visibility, .logout, .renew, .explain, .kick, .register, .setPolicy, .friends, .profiles,
            .issueTicket, .redeemTicket, .sessions, .onlineUsers, .replayWebhooks, .exportFacts, .importFacts, .mentions,
            .deleteUser:
            return nil
        }
    }
}
