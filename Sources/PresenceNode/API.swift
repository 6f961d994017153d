import HTTP2
import PresenceCore
import PresenceWire

/// The operations of contract §5: from a JSON body to a ``PresenceCore/Call``, and from its answer to JSON.
struct API {
    /// An operation; its name is the same word in the path, in the SDKs, and in the metrics' label.
    enum Operation: Int, CaseIterable, Sendable {
        case setSelfStatus, getUserStatus, subscribeUserStatus, unsubscribeUserStatus, getSubscribedUserStatus, logout

        var name: String { "\(self)" }
    }

    /// A call that was understood, and the users of it that were not.
    struct Parsed: Equatable {
        let call: Call
        let subject: UserID
        let errors: [UserError]
    }

    /// The operation of a path `/v1/<operation>`.
    static func operation(ofPath path: UnsafeBufferPointer<UInt8>) -> Operation? {
        for (place, known) in paths.enumerated() where path.equals(known) { return Operation(rawValue: place) }
        return nil
    }

    private static let paths = Operation.allCases.map { Array("/v1/\($0.name)".utf8) }

    /// Reads the body of a call.
    static func parse(_ operation: Operation, body: UnsafeBufferPointer<UInt8>, caller: Caller) throws(Problem) -> Parsed {
        let fields = try Fields(body)
        let subject = try subject(of: fields, caller: caller)
        switch operation {
        case .setSelfStatus: return try setSelfStatus(fields, subject)
        case .getUserStatus:
            let (users, errors) = try fields.requiredUsers("userIDs", besides: subject, countMax: Limits.queryUsersMax)
            return Parsed(call: .getUserStatus(users), subject: subject, errors: errors)
        case .subscribeUserStatus: return try subscribe(fields, subject)
        case .unsubscribeUserStatus: return try unsubscribe(fields, subject)
        case .getSubscribedUserStatus: return try getSubscribed(fields, subject)
        case .logout: return try logout(fields, subject)
        }
    }

    /// Whom the call is about: the caller, or the user that an app's back end names.
    private static func subject(of fields: Fields, caller: Caller) throws(Problem) -> UserID {
        guard let id = try fields.text("asUser", bytesMax: 1_024) else { return caller.user }
        guard caller.isAdmin else { throw .parameter("asUser: only a token with role \"admin\" may name another user") }
        guard Limits.isValidName(id) else { throw .userID("asUser") }
        return UserID(app: caller.user.appName, id: id)
    }

    private static func setSelfStatus(_ fields: Fields, _ subject: UserID) throws(Problem) -> Parsed {
        let text = try fields.text("customStatus", bytesMax: Limits.customStatusBytesMax) ?? ""
        let seconds = try fields.integer("expiry", in: Limits.customStatusSeconds)
        return Parsed(call: .setSelfStatus(customStatus: text, seconds: seconds), subject: subject, errors: [])
    }

    private static func subscribe(_ fields: Fields, _ subject: UserID) throws(Problem) -> Parsed {
        let found = try fields.requiredUsers("userIDs", besides: subject, countMax: Limits.subscribeUsersMax)
        let seconds = try fields.integer("expiry", in: Limits.subscriptionSeconds)
        let sync = try fields.bool("sync") ?? false
        let type = try fields.integer("subscribeType", in: 1...1) ?? 1
        var errors = found.errors
        let targets = found.users.filter { $0 != subject }
        if targets.count < found.users.count {
            errors.append(
                UserError(
                    userID: String(subject.id), code: 6017, reason: "userIDs: nobody subscribes to oneself; own changes arrive anyway"))
        }
        let call = Call.subscribeUserStatus(targets, seconds: seconds, sync: sync, subscribeType: UInt8(type))
        return Parsed(call: call, subject: subject, errors: errors)
    }

    private static func unsubscribe(_ fields: Fields, _ subject: UserID) throws(Problem) -> Parsed {
        if try fields.bool("all") ?? false {
            guard !fields.has("userIDs") else { throw .parameter("all: give either \"all\": true or userIDs, not both") }
            return Parsed(call: .unsubscribeUserStatus(nil), subject: subject, errors: [])
        }
        let (users, errors) = try fields.requiredUsers("userIDs", besides: subject, countMax: Limits.subscribeUsersMax)
        return Parsed(call: .unsubscribeUserStatus(users), subject: subject, errors: errors)
    }

    private static func getSubscribed(_ fields: Fields, _ subject: UserID) throws(Problem) -> Parsed {
        let found = try fields.users("userIDs", besides: subject, countMax: Limits.queryUsersMax)
        let offset = try fields.integer("offset", in: 0...Int64(Int32.max)) ?? 0
        let limit = try fields.integer("limit", in: 1...Int64(Limits.pageRowsMax)) ?? Int64(Limits.subscriptionsMax)
        let isWhole = found.map { $0.users.isEmpty && $0.errors.isEmpty } ?? true
        let call = Call.getSubscribedUserStatus(only: isWhole ? nil : found?.users, offset: Int(offset), limit: Int(limit))
        return Parsed(call: call, subject: subject, errors: [])
    }

    private static func logout(_ fields: Fields, _ subject: UserID) throws(Problem) -> Parsed {
        guard let text = try fields.text("sessionID", bytesMax: 1_024) else {
            return Parsed(call: .logout(nil), subject: subject, errors: [])
        }
        guard let session = SessionID(text) else { throw .parameter("sessionID: is not one that onConnected told") }
        return Parsed(call: .logout(session), subject: subject, errors: [])
    }

    // MARK: Answers

    /// Writes the body of the answer to a call that was carried out. Throws for one that was refused.
    static func write(
        _ answer: CallAnswer, to operation: Operation, errors: [UserError], into json: inout JSONWriter
    ) throws(Problem) {
        switch answer {
        case .refused(let refusal): throw Problem(refusal)
        case .done: json.object { json in if operation != .logout { json.member("errorUserList", errors) } }
        case .userStatus(let record):
            json.object { json in
                json.key("userStatus")
                json.userStatus(record)
            }
        case .userStatusList(let records, let users, let asOf):
            json.object { json in
                json.key("userStatusList")
                json.array { json in
                    for place in records.indices where records[place] != nil { json.userStatus(records[place].unsafelyUnwrapped) }
                }
                json.member("errorUserList", errors + unreachable(records, users))
                json.member("asOf", asOf)
            }
        case .subscribed(let evicted, let records, let users):
            json.object { json in
                json.member("errorUserList", errors)
                json.key("evicted")
                json.array { json in
                    for user in evicted { json.string(user.id) }
                }
                if let records { json.member("userStatusList", zip(records, users).map { $0 ?? Record(blank: $1) }) }
            }
        case .subscriptions(let page, let records, let total): json.subscriptions(page, records, total: total)
        }
    }

    private static func unreachable(_ records: [Record?], _ users: [UserID]) -> [UserError] {
        records.indices.lazy.filter { records[$0] == nil }.map {
            UserError(userID: String(users[$0].id), code: 50001, reason: Refusal.unavailable.detail)
        }
    }
}

extension JSONWriter {
    fileprivate mutating func subscriptions(_ page: [Subscription], _ records: [Record?], total: Int) {
        object { json in
            json.key("subscriptions")
            json.array { json in
                for (place, subscription) in page.enumerated() {
                    json.object { json in
                        json.member("userID", subscription.target.id)
                        json.member("subscribeType", Int64(subscription.subscribeType))
                        json.member("subscribedAt", subscription.subscribedAt)
                        if let expiresAt = subscription.expiresAt { json.member("expiresAt", expiresAt) }
                        json.key("userStatus")
                        json.userStatus((place < records.count ? records[place] : nil) ?? Record(blank: subscription.target))
                    }
                }
            }
            json.member("total", Int64(total))
        }
    }
}

extension UserID {
    /// The app's ID.
    var appName: String { String(app) }
}
