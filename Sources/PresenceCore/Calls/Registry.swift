import PresenceWire

/// Who is a user of an app: those whom the app has imported, and those who have logged in (`users.mustBeRegistered`).
extension Node {
    /// Asks the owner of each user; who could not be registered is told by name.
    mutating func importUsers(_ users: [UserID], for call: PendingCalls.CallIndex) {
        for user in users { ask(.register, of: user, for: call) }
    }

    /// Whether a call has to know of each target whether there is such a user.
    func mustKnow(_ caller: UserID) -> Bool { owners.policies.policy(of: caller).mustBeRegistered }

    /// Leaves out those of the targets of a `subscribe` of whom nobody knows. Returns why the whole call is refused, if it is (T37).
    mutating func excludeUnknown(_ index: PendingCalls.CallIndex) -> Refusal? {
        guard let pending = calls[index], mustKnow(pending.caller) else { return nil }
        let unknown = zip(pending.users, pending.records).filter { $1?.isOfKnownUser == false }.map(\.0)
        guard !unknown.isEmpty else { return nil }
        if owners.policies.policy(of: pending.caller).errorShape == .wholeCall { return .noSuchUser(unknown) }
        let known = pending.records.indices.filter { pending.records[$0]?.isOfKnownUser != false }
        calls[index]?.users = known.map { pending.users[$0] }
        calls[index]?.records = known.map { pending.records[$0] }
        calls[index]?.excluded = unknown
        return nil
    }
}
