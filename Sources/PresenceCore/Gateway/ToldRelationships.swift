import PresenceWire

/// The newest versions of the relationship chains of users with sessions on a gateway, as these sessions were told them.
///
/// All sessions of a user that have their list were told the same, or will be once their queue has room.
struct ToldRelationships {
    private var states: [WatchIndex.UserIndex: RelationshipState] = [:]
    /// The events that wait until the queues of streams have room.
    var owed = OwedRelationships()

    /// The state that the user's sessions were told.
    func state(of user: WatchIndex.UserIndex) -> RelationshipState { states[user] ?? RelationshipState() }

    /// Takes the notices of an owner. Returns those that the sessions lack.
    mutating func take(_ notices: [RelationshipNotice], of user: WatchIndex.UserIndex) -> [RelationshipNotice] {
        notices.compactMap { notice in
            let known = state(of: user)
            // A whole list, which overtook the notice, has told it.
            if let list = notice.event.list, !notice.state.isNewer(than: known, in: list) { return nil }
            let state = known.after(notice)
            if state == known, notice.event == .state || notice.event == .requestsRead { return nil }
            states[user] = state
            return notice.event == .state ? RelationshipNotice(.state, state) : notice
        }
    }

    /// Ends what a stream of a user is owed. Returns the events to push, in order.
    mutating func takeOwed(by session: Gateway.SessionIndex, of user: WatchIndex.UserIndex) -> [RelationshipNotice] {
        let (notices, hasState) = owed.take(session)
        return notices + (hasState ? [RelationshipNotice(.state, state(of: user))] : [])
    }

    /// The user's sessions are told the version of the profile by an event of its own.
    mutating func note(profile version: Version, of user: WatchIndex.UserIndex) {
        var state = state(of: user)
        state.profile = max(state.profile, version)
        states[user] = state
    }

    /// The last session of the user has closed.
    mutating func remove(_ user: WatchIndex.UserIndex) { states[user] = nil }
}
