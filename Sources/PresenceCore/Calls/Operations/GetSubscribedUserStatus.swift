import PresenceWire

/// `getSubscribedUserStatus`: returns the caller's subscriptions.
enum GetSubscribedUserStatus: ClientOperation {
    /// A page of subscriptions, the records of the users in it, and the number of all subscriptions.
    struct Answer: OperationAnswer {
        let page: [Subscription]
        let records: [Record?]
        let total: Int

        init?(_ answer: CallAnswer) {
            guard case .subscriptions(let page, let records, let total) = answer else { return nil }
            (self.page, self.records, self.total) = (page, records, total)
        }
    }

    static let description = OpenAPI.Operation(
        name: "getSubscribedUserStatus", summary: "Returns the caller's subscriptions.",
        request: Schema.object([
            Schema.optional("userIDs", Schema.users(min: 0, max: OpenAPI.standard.queryUsersMax)),
            Schema.optional("offset", Schema.integer(0...Int64(Int32.max), "Number of subscriptions to skip.")),
            Schema.optional("limit", Schema.integer(1...Int64(Limits.pageRowsMax), "Most subscriptions to return; default: all.")),
            Schema.oneType,
            Schema.asUser,
        ]),
        answer: Schema.object([
            Schema.required("subscriptions", Schema.list(of: Schema.reference("Subscription"))),
            Schema.required("total", ["type": "integer", "minimum": 0]),
            Schema.required(
                "errorUserList",
                Schema.described(Schema.errors, "Users whose owner cannot be reached: 50001. Their subscriptions lack userStatus.")),
        ]),
        refusals: [.notAllowed, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
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
            only: isWhole ? nil : found?.users, offset: Int(offset), limit: Int(limit), subscribeType: try fields.subscribeType())
        return API.Parsed(call: call, subject: subject, errors: [])
    }

    static func scope(of call: Call, by subject: UserID) -> API.Scope { .others }

    static func write(_ answer: Answer, to call: AskedCall, _ policy: Policy, into json: inout JSONWriter) throws(Problem) {
        json.subscriptions(
            answer.page, answer.records.map { $0?.shown(by: policy) }, unsure: call.unsure, total: answer.total, errors: call.errors)
    }
}

extension JSONWriter {
    /// - Parameter records: nil for a user whose owner did not answer. The node invents no status.
    fileprivate mutating func subscriptions(
        _ page: [Subscription], _ records: [Record?], unsure: UnsureUsers, total: Int, errors: [UserError]
    ) {
        object { json in
            json.array("subscriptions", zip(page, records)) { json, row in
                let (subscription, record) = row
                json.object { json in
                    json.member("userID", subscription.target.id)
                    json.member("subscribeType", Int64(subscription.subscribeType))
                    json.member("subscribedAt", subscription.subscribedAt)
                    if let expiresAt = subscription.expiresAt { json.member("expiresAt", expiresAt) }
                    guard let record else { return }
                    if Subscription.isOfProfile(subscription.subscribeType) {
                        json.member("profileVersion", record.profileVersion)
                    } else {
                        json.key("userStatus")
                        json.userStatus(record, isUnsure: unsure.contains(record.user))
                    }
                }
            }
            json.member("total", Int64(total))
            let unreachable = zip(page, records).compactMap { $1 == nil ? UserError(unreachable: $0.target) : nil }
            json.member("errorUserList", errors + unreachable)
        }
    }
}

extension GetSubscribedUserStatus {
    /// Returns a page of the active subscriptions, or those of `only`. Subscriptions to profiles follow those to statuses.
    static func subscriptions(
        of id: UserID, at owner: borrowing Owner, only: [UserID]?, offset: Int, limit: Int, type: UInt8?
    ) -> PresenceWire.Answer {
        guard let user = owner.users.index(of: id) else { return .subscriptions([], total: 0) }
        let subscriptions = owner.subscriptions(of: user)
        let hasProfiles = (type.map(Subscription.isOfProfile) ?? true) && owner.users[user].list(.profileSubscription).liveCount > 0
        let profiles = hasProfiles ? ProfileFollows(user: user).quota.active(of: owner).entries.filter { $0.isOf(type) } : []
        if let only {
            let statuses = only.compactMap { subscriptions.subscription(to: $0) }.filter { $0.isOf(type) }
            let found = statuses + profiles.filter { only.contains($0.target) }
            return .subscriptions(found, total: found.count)
        }
        let count = type == nil ? subscriptions.liveCount : subscriptions.live.count { $0.isOf(type) }
        var page = subscriptions.page(of: type, offset: offset, limit: limit)
        page += profiles.dropFirst(max(offset - count, 0)).prefix(max(limit - page.count, 0))
        return .subscriptions(page, total: count + profiles.count)
    }
}
