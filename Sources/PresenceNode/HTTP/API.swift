import HTTP2
import PresenceCore
import PresenceWire

/// The operations of <doc:HTTPAPI#Operations>: reads a ``PresenceCore/Call`` from a JSON body, and writes its answer as JSON.
struct API {
    /// An operation. Its name is the same in the path, in the SDKs, and in the label of the metrics.
    enum Operation: Int, CaseIterable, Sendable {
        case setSelfStatus, publishEvent, getUserStatus, subscribeUserStatus, unsubscribeUserStatus, getSubscribedUserStatus, logout,
            setVisibility, getVisibility

        var name: String { "\(self)" }
    }

    /// A parsed call, and the users in it that are invalid.
    struct Parsed: Equatable {
        let call: Call
        let subject: UserID
        let errors: [UserError]
        /// The calling session, if the call names it.
        var session: SessionID?
    }

    /// The operation of a path `/v1/<operation>`.
    static func operation(ofPath path: UnsafeBufferPointer<UInt8>) -> Operation? {
        for (place, known) in paths.enumerated() where path.equals(known) { return Operation(rawValue: place) }
        return nil
    }

    private static let paths = Operation.allCases.map { Array("/v1/\($0.name)".utf8) }

    /// Parses the body of a call by the rules of the app's policy.
    static func parse(
        _ operation: Operation, body: UnsafeBufferPointer<UInt8>, caller: Caller, policy: Policy
    ) throws(Problem) -> Parsed {
        let fields = try Fields(body)
        let subject = try subject(of: fields, caller: caller)
        let parsed = try parse(operation, fields, subject, policy)
        try policy.allow(parsed.call, of: subject)
        if policy.errorShape == .wholeCall, let first = parsed.errors.first {
            var problem = Problem(status: 400, code: first.code, detail: first.reason, errors: parsed.errors)
            problem.rule = first.rule
            throw problem
        }
        return parsed
    }

    private static func parse(_ operation: Operation, _ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> Parsed {
        switch operation {
        case .setSelfStatus: return try setSelfStatus(fields, subject, policy)
        case .publishEvent: return try publish(fields, subject)
        case .getUserStatus: return try query(fields, subject, policy)
        case .subscribeUserStatus: return try subscribe(fields, subject, policy)
        case .unsubscribeUserStatus: return try unsubscribe(fields, subject, policy)
        case .getSubscribedUserStatus: return try getSubscribed(fields, subject, policy)
        case .logout: return try logout(fields, subject)
        case .setVisibility: return Parsed(call: .setVisibility(try visibility(fields, subject)), subject: subject, errors: [])
        case .getVisibility: return Parsed(call: .getVisibility, subject: subject, errors: [])
        }
    }

    private static func subject(of fields: Fields, caller: Caller) throws(Problem) -> UserID {
        try subject(asUser: try fields.text("asUser", bytesMax: 1_024), caller: caller)
    }

    /// The user of a request: the caller, or the user that an app's back end names.
    static func subject(asUser: String?, caller: Caller) throws(Problem) -> UserID {
        guard let id = asUser else { return caller.user }
        guard caller.isAdmin else { throw .parameter("asUser: only a token with role \"admin\" may name another user") }
        guard Limits.isValidName(id) else { throw .userID("asUser") }
        return UserID(app: caller.user.appName, id: id)
    }

    private static func setSelfStatus(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> Parsed {
        guard fields.names("customStatus") else {
            throw .parameter("customStatus: is missing; it must be a string, or \"\" or null to clear the custom status")
        }
        let text = try fields.text("customStatus", bytesMax: Int(policy.customStatusBytesMax), by: .customStatus) ?? ""
        let standard = policy.customStatusSeconds > 0 && !text.isEmpty ? policy.customStatusSeconds : nil
        let range = Limits.customStatusSeconds.lowerBound...policy.customStatusSecondsMax
        let seconds = try fields.integer("expiry", in: range, by: .ttl) ?? standard
        return Parsed(call: .setSelfStatus(customStatus: text, seconds: seconds), subject: subject, errors: [])
    }

    private static func publish(_ fields: Fields, _ subject: UserID) throws(Problem) -> Parsed {
        guard let value = try fields.integer("value", in: Limits.eventValueMin...Int64(Int32.max)) else {
            throw .parameter("value: is missing; it must be an integer of \(Limits.eventValueMin) or more")
        }
        let call = Call.publishEvent(
            value: value, ext: try fields.text("ext", bytesMax: Limits.eventBytesMax) ?? "",
            seconds: try fields.integer("expiry", in: Limits.eventSeconds) ?? Limits.eventSeconds.upperBound,
            isForOnlineOnly: try fields.bool("sendToOnlineUsersOnly") ?? true, isSynced: try fields.bool("syncEnabled") ?? true)
        return Parsed(call: call, subject: subject, errors: [], session: try session(fields))
    }

    private static func query(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> Parsed {
        var (users, errors) = try fields.requiredUsers("userIDs", besides: subject, countMax: Int(policy.queryUsersMax))
        if !policy.canQuerySelf, users.contains(subject) {
            users.removeAll { $0 == subject }
            errors.append(
                UserError(
                    userID: String(subject.id), code: 6017,
                    reason: "userIDs: the app's policy does not allow a query of the caller's own status (query.selfAllowed)",
                    rule: .ownStatus))
        }
        return Parsed(call: .getUserStatus(users), subject: subject, errors: errors)
    }

    private static func subscribe(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> Parsed {
        let found = try fields.requiredUsers("userIDs", besides: subject, countMax: Int(policy.subscribeUsersMax))
        let range = policy.subscriptionSecondsMin...policy.subscriptionSecondsMax
        let seconds = try fields.integer("expiry", in: range, by: .ttl)
        guard seconds != nil || !policy.isSubscriptionTTLRequired else {
            throw .parameter("expiry: is missing; it must be an integer in \(range.lowerBound)...\(range.upperBound)", by: .ttl)
        }
        let sync = try fields.bool("sync") ?? false
        let type = try type(fields) ?? Subscription.onlineStatus
        var errors = found.errors
        let targets = found.users.filter { $0 != subject }
        if targets.count < found.users.count {
            errors.append(
                UserError(
                    userID: String(subject.id), code: 6017,
                    reason: "userIDs: is the caller itself; own changes arrive without a subscription"))
        }
        let call = Call.subscribeUserStatus(targets, seconds: seconds, sync: sync, subscribeType: type)
        return Parsed(call: call, subject: subject, errors: errors, session: try session(fields))
    }

    /// The subscription types of R3, without the profiles.
    static let subscribeTypes = [Subscription.onlineStatus, Subscription.friendOnlineStatus]

    private static func type(_ fields: Fields) throws(Problem) -> UInt8? {
        guard let type = try fields.integer("subscribeType", in: 1...4).map({ UInt8($0) }) else { return nil }
        guard subscribeTypes.contains(type) else {
            throw .parameter(
                "subscribeType: \(type) is a profile, which is not supported; it must be 1 (online status) or 3 (online status of a friend)"
            )
        }
        return type
    }

    private static func unsubscribe(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> Parsed {
        let type = try type(fields)
        if try fields.bool("all") ?? false {
            guard !fields.has("userIDs") else { throw .parameter("all: give either \"all\": true or userIDs, not both") }
            let call = Call.unsubscribeUserStatus(nil, subscribeType: type)
            return Parsed(call: call, subject: subject, errors: [], session: try session(fields))
        }
        let (users, errors) = try fields.requiredUsers("userIDs", besides: subject, countMax: Int(policy.unsubscribeUsersMax))
        let call = Call.unsubscribeUserStatus(users, subscribeType: type)
        return Parsed(call: call, subject: subject, errors: errors, session: try session(fields))
    }

    private static func getSubscribed(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> Parsed {
        let found = try fields.users("userIDs", besides: subject, countMax: Int(policy.queryUsersMax))
        let offset = try fields.integer("offset", in: 0...Int64(Int32.max)) ?? 0
        let limit = try fields.integer("limit", in: 1...Int64(Limits.pageRowsMax)) ?? Int64(Limits.subscriptionsMax)
        let isWhole = found.map { $0.users.isEmpty && $0.errors.isEmpty } ?? true
        guard !isWhole || policy.canListSubscriptions else {
            throw .parameter(
                "userIDs: is missing; the app's policy requires 1 to \(policy.queryUsersMax) users whose subscriptions are queried",
                by: .list)
        }
        let call = Call.getSubscribedUserStatus(
            only: isWhole ? nil : found?.users, offset: Int(offset), limit: Int(limit), subscribeType: try type(fields))
        return Parsed(call: call, subject: subject, errors: [])
    }

    private static func logout(_ fields: Fields, _ subject: UserID) throws(Problem) -> Parsed {
        Parsed(call: .logout(try session(fields)), subject: subject, errors: [])
    }

    private static func session(_ fields: Fields) throws(Problem) -> SessionID? {
        guard let text = try fields.text("sessionID", bytesMax: 1_024) else { return nil }
        guard let session = SessionID(text) else {
            throw .parameter("sessionID: \"\(text)\" is not a session ID; it must be the 24 hexadecimal digits of onConnected")
        }
        return session
    }

    private static func visibility(_ fields: Fields, _ subject: UserID) throws(Problem) -> Visibility.Change {
        var change = Visibility.Change(isInvisible: try fields.bool("invisible"))
        if let name = try fields.text("visibility", bytesMax: Limits.platformBytesMax) {
            guard let mode = Visibility.Mode(rawValue: name) else {
                let names = Visibility.Mode.allCases.map(\.rawValue).joined(separator: ", ")
                throw .parameter("visibility: \"\(name)\" is not one of \(names)")
            }
            change.mode = mode
        }
        if let found = try fields.users("userIDs", besides: subject, countMax: Limits.visibilityUsersMax) {
            // A shorter list than the caller meant would be another rule.
            if let bad = found.errors.first { throw Problem(status: 400, code: bad.code, detail: bad.reason) }
            change.listed = found.users
        }
        return change
    }

    // MARK: Answers

    /// Writes the body of the answer to a call. Throws if the call was refused.
    static func write(
        _ answer: CallAnswer, to operation: Operation, of caller: UserID, errors: [UserError], policy: Policy, into json: inout JSONWriter
    ) throws(Problem) {
        switch answer {
        case .refused(let refusal): throw Problem(refusal)
        case .explained, .imported: preconditionFailure("an administrator's call: \(answer)")
        case .rateLimited(let retryAfter): throw .rateLimited(operation.name, retryAfter: retryAfter)
        case .done: json.object { json in if operation != .logout { json.member("errorUserList", errors) } }
        case .visibility(let visibility):
            json.object { json in
                json.member("visibility", visibility.mode.rawValue)
                json.key("userIDs")
                json.array { json in for user in visibility.listed { json.string(user.id) } }
                json.member("invisible", visibility.isInvisible)
            }
        case .userStatus(let record):
            json.object { json in
                if operation == .publishEvent { json.member("eventID", (record.events.newest?.id ?? record.version).text) }
                json.key("userStatus")
                json.userStatus(record, showsPlatforms: policy.exposesPlatforms, isOwn: true)
            }
        case .userStatusList(let records, let users, let asOf):
            let isUnknown = { (record: Record, user: UserID) in
                policy.mustBeRegistered && !record.isOfKnownUser && user != caller
            }
            if policy.errorShape == .wholeCall {
                let unknown = zip(records, users).filter { record, user in record.map { isUnknown($0, user) } ?? false }
                if !unknown.isEmpty { throw Problem(.noSuchUser(unknown.map(\.1))) }
            }
            var errors = errors
            json.object { json in
                json.key("userStatusList")
                json.array { json in
                    for (place, user) in users.enumerated() {
                        guard let record = records[place] else {
                            errors.append(UserError(unreachable: user))
                            continue
                        }
                        guard !isUnknown(record, user) else {
                            errors.append(UserError(unknown: user))
                            continue
                        }
                        json.userStatus(record, showsPlatforms: policy.exposesPlatforms, isOwn: user == caller)
                    }
                }
                json.member("errorUserList", errors)
                json.member("asOf", asOf)
            }
        case .subscribed(let evicted, let refused, let followerLimitReached, let nonFriends, let unknown, let records, let users):
            json.object { json in
                let full =
                    refused.map { UserError(unfollowed: $0, policy) }
                    + followerLimitReached.map { UserError(followerLimitReached: $0, policy) }
                let others = nonFriends.map { UserError(nonFriend: $0) } + unknown.map { UserError(unknown: $0) }
                json.member("errorUserList", errors + full + others)
                json.key("evicted")
                json.array { json in
                    for user in evicted { json.string(user.id) }
                }
                if let records { json.member("userStatusList", zip(records, users).map { ($0 ?? Record(blank: $1)).shown(by: policy) }) }
            }
        case .subscriptions(let page, let records, let total):
            json.subscriptions(page, records.map { $0?.shown(by: policy) }, total: total, errors: errors)
        }
    }
}

extension JSONWriter {
    /// - Parameter records: nil for a user whose owner did not answer. The node invents no status.
    fileprivate mutating func subscriptions(_ page: [Subscription], _ records: [Record?], total: Int, errors: [UserError]) {
        object { json in
            json.key("subscriptions")
            json.array { json in
                for (subscription, record) in zip(page, records) {
                    json.object { json in
                        json.member("userID", subscription.target.id)
                        json.member("subscribeType", Int64(subscription.subscribeType))
                        json.member("subscribedAt", subscription.subscribedAt)
                        if let expiresAt = subscription.expiresAt { json.member("expiresAt", expiresAt) }
                        if let record {
                            json.key("userStatus")
                            json.userStatus(record)
                        }
                    }
                }
            }
            json.member("total", Int64(total))
            let unreachable = zip(page, records).compactMap { $1 == nil ? UserError(unreachable: $0.target) : nil }
            json.member("errorUserList", errors + unreachable)
        }
    }
}

extension Policy {
    /// Throws if the app's plan does not cover a call (T36, R1, Z1), or if a switch is off (T16, T19, R1, N25).
    ///
    /// A user may always query its own status (T15). It may set it if the plan only excludes calls about others (T13).
    fileprivate func allow(_ call: Call, of subject: UserID) throws(Problem) {
        guard !publishesOthers else { return }
        switch call {
        case .setSelfStatus, .publishEvent: guard coversOwnStatus else { throw .ownStatusNotInPlan }
        default: break
        }
        switch call {
        case .setSelfStatus, .logout, .setAppPolicy, .kick, .explain, .importUsers, .setVisibility, .getVisibility: return
        case .getUserStatus(let users) where users.allSatisfy { $0 == subject }: return
        case .publishEvent: break
        case .getUserStatus, .subscribeUserStatus, .unsubscribeUserStatus, .getSubscribedUserStatus:
            if plan == .basic {
                throw .notAllowed(7013, "the app's plan is \"basic\" and covers only the caller's own status", by: .plan)
            }
        }
        if !statusEnabled {
            throw .notAllowed(
                72001, "queries, subscriptions and events are switched off for this app (userStatus.enabled)",
                by: .off)
        }
    }
}

extension UserError {
    /// The error for an unknown user.
    init(unknown user: UserID) {
        self.init(
            userID: String(user.id), code: 70107, reason: "no such user: the user was not imported and never logged in", rule: .registered)
    }

    /// The error for a user whose owner did not answer in time.
    fileprivate init(unreachable user: UserID) {
        self.init(userID: String(user.id), code: 50001, reason: Refusal.unavailable.detail)
    }

    /// The error for a target without room in the caller's list (R7).
    fileprivate init(unfollowed user: UserID, _ policy: Policy) {
        self.init(
            userID: String(user.id), code: 6017,
            reason: "userIDs: the caller already follows \(policy.subscriptionsMax) users, the most that are allowed", rule: .quota)
    }
}

extension UserError {
    /// The error for a subscription of type 3 to a user who is not a friend (R3).
    fileprivate init(nonFriend user: UserID) {
        self.init(
            userID: String(user.id), code: 31704, reason: "subscribeType: 3 requires a friend; the user is not a friend of the caller",
            rule: .friends)
    }

    /// The error for a target that has reached the follower limit (R6).
    fileprivate init(followerLimitReached user: UserID, _ policy: Policy) {
        self.init(
            userID: String(user.id), code: 6017,
            reason: "userIDs: \(policy.followersMax) users already follow this user, the most that are allowed", rule: .followers)
    }
}

extension UserID {
    /// The app's ID.
    var appName: String { String(app) }
}
