import PresenceWire

/// The profiles that sessions follow: those of the user itself, of friends (P43), and of subscriptions (R3).
///
/// A session is told the version of a profile alone. The client fetches the profile if it needs it.
extension Gateway {
    /// Applies the part of a list that is about profiles.
    mutating func applyProfiles(of list: ListUpdate, to session: SessionIndex) {
        var subscribed: [UserID] = []
        var followed: [UserIndex] = []
        for target in list.added.filter({ $0.isOfProfile || $0.isFriend }).map(\.target) + list.profiles {
            let user = watches.insert(target)
            if list.isWhole { followed.append(user) }
            guard case .followed(let isFirst) = watches.followProfile(of: user, by: session) else { continue }
            if isFirst { subscribed.append(target) }
            tellMissedProfile(of: user, to: session)
        }
        if !subscribed.isEmpty { output.toNode.append(.subscribe(subscribed)) }
        var removed = list.removedProfiles.compactMap { watches.index(of: $0) }
        if list.isWhole, !list.mayBeIncomplete {
            followed.sort()
            removed = watches.profiles.targets(of: session).filter { !followed.containsSorted($0) }
        }
        for user in removed { unfollowProfile(of: user, by: session) }
        release(removed)
    }

    mutating func unfollowProfile(of user: UserIndex, by session: SessionIndex) {
        guard watches.unfollowProfile(of: user, by: session), sessions[session].backlog.takeProfile(of: user) else { return }
        sessions[session].releasePosition()
    }

    /// Tells a client the version of a profile that it begins to follow, if the profile may have changed since the client last knew it.
    ///
    /// Waits for the first record of the user, which may be newer than the answer to the call that made the client follow the profile.
    private mutating func tellMissedProfile(of user: UserIndex, to session: SessionIndex) {
        guard let record = watches.record(of: user), !sessions[session].isBlocked else {
            sessions[session].backlog.postponeProfile(of: user)
            hold(session)
            return
        }
        if mayHaveMissedProfile(of: record, session) { pushProfile(of: record, to: session) }
    }

    /// Whether the client may know an older profile than the one of this record.
    ///
    /// A new client fetches the profiles that it needs after it has opened its session.
    private func mayHaveMissedProfile(of record: Record, _ session: SessionIndex) -> Bool {
        Delivery.isProfileDue(record, to: viewer(of: session), resumingFrom: sessions[session].resume.profileFloor)
    }

    /// Pushes the version of a changed profile to the sessions of the user, and to those that follow the profile (P43).
    ///
    /// A follower for whom the news wait is told once the wait has ended.
    mutating func pushProfile(_ record: Record, after old: Record, of user: UserIndex) {
        let differsByViewer = record.hasPrivacy || old.hasPrivacy
        let changesNews = differsByViewer && record.privacy?.news != old.privacy?.news
        guard changesNews || record.profileVersion != old.profileVersion else { return }
        guard policies.policy(of: record.user).chain.isEnabled else { return }
        let own = record.profileVersion != old.profileVersion ? openSessions(of: user) : []
        // A list that is older than the record may follow it.
        if !own.isEmpty { relationships.note(profile: record.profileVersion, of: user) }
        var followers = watches.profiles.watchers(of: user)
        if differsByViewer { followers.removeAll { !Delivery.hasProfileNews(record, after: old, for: viewer(of: $0)) } }
        pushProfile(record, of: user, to: own + followers)
    }

    private func viewer(of session: SessionIndex) -> UserID { watches.user(at: sessions[session].user) }

    /// Pushes the version of the own profile by the first record of the user, if the sessions of the user were told an older one.
    mutating func pushFirstProfile(_ record: Record, of user: UserIndex) {
        guard policies.policy(of: record.user).chain.isEnabled else { return }
        let own = openSessions(of: user)
        guard !own.isEmpty, record.profileVersion > relationships.state(of: user).profile else { return }
        relationships.note(profile: record.profileVersion, of: user)
        pushProfile(record, of: user, to: own.filter { !sessions[$0].isBlocked })
        // The client may resume from a later position than that of the profile.
        for session in own where sessions[session].isBlocked && sessions[session].hasList { relationships.owed.addState(to: session) }
    }

    private mutating func pushProfile(_ record: Record, of user: UserIndex, to followers: [SessionIndex]) {
        var payload: Int32?
        for session in followers {
            // A session without its list is told the version of the own profile with the list.
            guard sessions[session].hasList || sessions[session].user != user else { continue }
            if sessions[session].isBlocked {
                sessions[session].backlog.postponeProfile(of: user)
            } else if sessions[session].takesSharedEvents, isNewest(record, for: session) {
                let shared = payload ?? output.add(EventText.profileChanged(of: record.user, to: record.profileVersion, id: sharedID))
                payload = shared
                pushShared(shared, to: session)
            } else {
                pushProfile(of: record, to: session)
            }
        }
    }

    /// Pushes the version of a profile that has waited, unless the client knows it.
    mutating func pushPostponedProfile(of user: UserIndex, to session: SessionIndex) {
        guard sessions[session].backlog.takeProfile(of: user), let record = watches.record(of: user) else { return }
        if mayHaveMissedProfile(of: record, session) { pushProfile(of: record, to: session) }
    }

    /// True if a session may be told the newest version of a profile.
    private func isNewest(_ record: Record, for session: SessionIndex) -> Bool {
        !record.hasPrivacy || record.profileNews(for: viewer(of: session)).version == record.profileVersion
    }

    private mutating func pushProfile(of record: Record, to session: SessionIndex) {
        let version = record.profileNews(for: viewer(of: session)).version
        push(EventText.profileChanged(of: record.user, to: version, id: position(of: session)), to: session)
    }
}
