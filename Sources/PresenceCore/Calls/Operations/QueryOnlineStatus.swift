import PresenceWire

/// `queryOnlineStatus`: returns the records of users, without the restrictions of the app's policy (X1).
enum QueryOnlineStatus: OperatorOperation {
    /// The records of users, and their open sessions if the call wants them.
    struct Answer: OperationAnswer {
        let list: UserStatusAnswer
        let sessions: [UserID: [UserSession]]?

        init?(_ answer: CallAnswer) {
            if case .sessions(let records, let users, let sessions, let asOf) = answer {
                (list, self.sessions) = (UserStatusAnswer(records: records, users: users, asOf: asOf), sessions)
            } else {
                guard let list = UserStatusAnswer(answer) else { return nil }
                (self.list, sessions) = (list, nil)
            }
        }
    }

    static let description = OpenAPI.Operation(
        name: "queryOnlineStatus",
        summary: "Returns the records of users without the restrictions of the app's policy and of visibility.",
        request: Schema.object([
            Schema.required("userIDs", Schema.users(max: Limits.queryUsersMax)),
            Schema.optional("withSessions", Schema.described(Schema.bool, "Whether each record names the user's open sessions.")),
        ]), isBodyRequired: true,
        answer: Schema.object([
            Schema.required(
                "userStatusList",
                Schema.list(
                    of: [
                        "allOf": [
                            Schema.reference("UserStatus"),
                            Schema.object([
                                Schema.sometimes(
                                    "sessions", Schema.described(Schema.list(of: session), "With withSessions: the open sessions."))
                            ]),
                        ]
                    ])), Schema.required("errorUserList", Schema.errors),
            Schema.required("asOf", Schema.time),
        ]))

    private static let session = Schema.object([
        Schema.required("sessionID", Schema.string), Schema.required("platform", Schema.string),
        Schema.required("deviceID", Schema.string), Schema.required("node", Schema.string), Schema.required("since", Schema.time),
    ])

    static func parse(_ fields: Fields, of body: [UInt8], by caller: UserID) throws(Problem) -> API.Parsed {
        let found = try fields.requiredUsers("userIDs", besides: caller, countMax: Limits.queryUsersMax)
        let withSessions = try fields.bool("withSessions") ?? false
        return API.Parsed(
            call: withSessions ? .querySessions(found.users) : .getUserStatus(found.users), subject: caller, errors: found.errors)
    }

    static func write(_ answer: Answer, to parsed: API.Parsed, _ owner: borrowing Owner, into json: inout JSONWriter) throws(Problem) {
        var shown = Policy()
        shown.mustBeRegistered = owner.policy(of: parsed.subject).mustBeRegistered
        let call = AskedCall(caller: parsed.subject, errors: parsed.errors, unsure: parsed.unsure)
        guard let sessions = answer.sessions else { return try GetUserStatus.write(answer.list, to: call, shown, into: &json) }
        var list = answer.list
        // A record without the sessions would look like a user who has none.
        list.records = zip(list.records, list.users).map { sessions[$1] == nil ? nil : $0 }
        try GetUserStatus.write(list, to: call, shown, into: &json) { user, json in
            json.array("sessions", sessions[user] ?? []) { $0.session($1) }
        }
    }
}

extension QueryOnlineStatus {
    /// The sessions of a user that this node owns. Those in their grace are not open.
    static func sessions(of user: UserID, _ owner: borrowing Owner, _ cluster: borrowing Cluster) -> [UserSession] {
        guard let index = owner.index(ofKnown: user) else { return [] }
        return owner.users[index].openSessions.map { session in
            UserSession(
                id: session.id, platform: session.platform, deviceID: session.deviceID,
                node: cluster.peers[session.peer].peer.id.rawValue, since: session.openedAt)
        }
    }
}

extension Calls {
    /// Gathers the records and the open sessions of users.
    mutating func querySessions(
        of users: [UserID], for call: PendingCalls.CallIndex, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster,
        at now: Now
    ) {
        askSessions(of: users, for: call, &cluster)
        gather(users, for: call, edge, owner, &cluster, at: now)
    }

    /// Asks the owners of users for their sessions.
    mutating func askSessions(of users: [UserID], for call: PendingCalls.CallIndex, _ cluster: inout Cluster) {
        for (_, group) in cluster.placement.grouped(users) {
            for start in stride(from: 0, to: group.count, by: OwnerOperation.sessionsUsersMax) {
                let part = Array(group[start..<min(start + OwnerOperation.sessionsUsersMax, group.count)])
                ask(.sessions(part), of: part[0], for: call, &cluster)
            }
        }
    }

    /// Takes the sessions of the users of a request, in its order.
    mutating func take(
        _ lists: [[UserSession]], to sent: PendingCalls.Sent, _ edge: borrowing Edge, _ owner: borrowing Owner, _ cluster: inout Cluster,
        at now: Now
    ) {
        guard case .sessions(let users) = sent.request.operation else { return }
        if case .owner = waiting[sent.call]?.call {
            let current = waiting.originSession(of: sent.call).session
            return finish(sent.call, .ownSessions(lists.first ?? [], current: current), edge, &cluster)
        }
        for (user, list) in zip(users, lists) { waiting[sent.call]?.answered.sessions[user] = list }
        advance(sent.call, edge, owner, &cluster, at: now)
    }
}
