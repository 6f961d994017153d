import PresenceWire

/// `setVisibility`: sets the viewers who may see the caller's status.
enum SetVisibility: OwnerDecision {
    typealias Answer = VisibilityAnswer
    static let description = OpenAPI.Operation(
        name: "setVisibility", summary: "Sets who may see the caller's status; absent fields keep their value.",
        request: Schema.object([
            Schema.optional("visibility", Schema.visibilityMode),
            Schema.optional(
                "userIDs",
                Schema.described(
                    ["type": "array", "maxItems": .integer(Int64(Limits.visibilityUsersMax)), "items": Schema.reference("UserID")],
                    "Users who may see the caller with visibility \"list\".")),
            Schema.optional("invisible", Schema.described(Schema.bool, "True: no other user may see the caller, whatever visibility is.")),
            Schema.asUser,
        ]),
        answer: Schema.visibility, refusals: [.wrongRole, .noSuchUser, .rateLimited])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        API.Parsed(call: .setVisibility(try change(fields, subject)), subject: subject, errors: [])
    }

    private static func change(_ fields: Fields, _ subject: UserID) throws(Problem) -> Visibility.Change {
        var change = Visibility.Change(isInvisible: try fields.bool("invisible"))
        if let name = try fields.text("visibility", bytesMax: Limits.platformBytesMax) {
            guard let mode = Visibility.Mode(rawValue: name) else {
                let names = Visibility.Mode.allCases.map(\.rawValue).joined(separator: ", ")
                throw .parameter("visibility: \"\(name)\" is not one of \(names)")
            }
            change.mode = mode
        }
        if let found = try fields.users("userIDs", besides: subject, countMax: Limits.visibilityUsersMax) {
            // A list without the invalid ID would hide the caller from a user whom the call names.
            if let bad = found.errors.first { throw Problem(status: 400, code: bad.code, detail: bad.reason) }
            change.listed = found.users
        }
        return change
    }
}

/// `getVisibility`: returns the viewers who may see the caller's status.
enum GetVisibility: OwnerDecision, OwnerReading {
    typealias Request = VisibilityRequest
    typealias Answer = VisibilityAnswer
    static let description = OpenAPI.Operation(
        name: "getVisibility", summary: "Returns who may see the caller's status.", request: Schema.object([Schema.asUser]),
        answer: Schema.visibility,
        refusals: [.wrongRole, .noSuchUser])

    static func parse(_ fields: Fields, _ subject: UserID, _ policy: Policy) throws(Problem) -> API.Parsed {
        API.Parsed(call: .getVisibility, subject: subject, errors: [])
    }
}

extension VisibilityAnswer: PlainAnswer {
    func write(_ errors: [UserError], into json: inout JSONWriter) {
        let visibility = privacy.visibility
        json.object { json in
            json.member("visibility", visibility.mode.rawValue)
            json.array("userIDs", visibility.listed) { $0.string($1.id) }
            json.member("invisible", visibility.isInvisible)
            json.members(of: remnant)
        }
    }
}

extension JSONWriter {
    /// Writes until when a node may show what a call has hidden, if one may.
    mutating func members(of remnant: Remnant) {
        switch remnant {
        case .none: break
        case .until(let time): member("mayBeSeenUntil", time)
        case .whileCutOff: member("mayBeSeenUntil", json: Array("null".utf8))
        }
    }
}

extension Schema {
    fileprivate static let visibilityMode: JSONValue = [
        "type": "string", "enum": .array(Visibility.Mode.allCases.map { .string($0.rawValue) }),
        "description":
            "Viewers who may see the user. To all others the user appears OFFLINE since the time of hiding.",
    ]
    fileprivate static let visibility = object([
        required("visibility", visibilityMode), required("userIDs", list(of: reference("UserID"))),
        required("invisible", bool), mayBeSeenUntil,
    ])
    static let mayBeSeenUntil = sometimes(
        "mayBeSeenUntil",
        described(
            nullable(time),
            "Until then a node that is cut off may show hidden fields; null: as long as it is cut off. Present if a member is dead."))
}

extension GetVisibility {
    /// Reads the visibility.
    static func read(
        _ request: VisibilityRequest, of call: OwnerRequest, at owner: borrowing Owner
    ) -> OwnerReply<VisibilityAnswer> {
        .asWritten(VisibilityAnswer(of: call.id, at: owner))
    }
}

extension VisibilityAnswer {
    fileprivate init(of id: UserID, at owner: borrowing Owner) {
        self.init(privacy: owner.record(of: id).privacy?.withFriends(nil) ?? Privacy())
    }
}

extension SetVisibility {
    /// Changes the visibility, and answers with the new one.
    static func perform(
        _ change: Visibility.Change, of call: OwnerRequest, on owner: inout Owner, into outbox: inout Outbox
    ) -> OwnerReply<VisibilityAnswer> {
        guard apply(change, of: call, on: &owner, into: &outbox) else { return .refused(.unavailable) }
        return .whenStored(VisibilityAnswer(of: call.id, at: owner))
    }

    /// Changes the visibility. The answer waits until no node shows hidden fields any more: see ``Outbox/needsBarrier``.
    ///
    /// - Returns: false for a call that began before the call that wrote the rule: it comes late, and does not undo that rule. False also
    ///   for a call from a clock that is far ahead. The caller tries again.
    private static func apply(
        _ change: Visibility.Change, of call: OwnerRequest, on owner: inout Owner, into outbox: inout Outbox
    ) -> Bool {
        let (request, now) = (call.request, call.now)
        guard owner.accepts(request.begunAt, at: now) else { return false }
        let user = owner.index(of: call.id)
        let privacy = owner.users[user].record.privacy ?? Privacy()
        let new = ChainVisibility(user: user).changed(privacy.visibility, by: change, of: owner)
        // An unchanged visibility gets a new date, so that an older call that another side of a split stored does not undo it.
        if new != privacy.visibility || request.begunAt > privacy.writtenAt {
            guard request.begunAt.milliseconds >= privacy.writtenAt.milliseconds else { return false }
            let writtenAt = request.begunAt > privacy.writtenAt ? request.begunAt : owner.nextVersion(at: now)
            let change = StatusChange(visibility: StatusChange.Visibility(visibility: new, writtenAt: writtenAt))
            owner.refresh(user, change, in: &outbox[at: now])
        } else {
            let record = owner.users[user].record
            call.writeAgain(user, of: owner, into: &outbox)
            if record.version > .zero, let privacy = record.privacy { outbox.rows.append(Row(privacy, of: call.id)) }
        }
        outbox.needsBarrier = true
        return true
    }
}

extension Call {
    /// Changes the caller's visibility.
    public static func setVisibility(_ change: Visibility.Change) -> Call { .owner(.setVisibility(change)) }

    /// Reads the caller's visibility.
    public static let getVisibility = Call.owner(.visibility)
}
