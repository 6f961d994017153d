import PresenceWire

/// The sessions that this node's gateways hold, by user: what is told to an owner again when it, or the link to it, is new (design §1.3).
struct LocalSessions {
    private struct Local {
        var attach: Attach
        let gateway: Int
        /// Its user's new owner has not answered yet.
        var isRegistering = false
        /// Its owner has ended it; its gateway has not yet.
        var isEnding = false
    }

    private var users = UserTable<[Local]>()
    private var slots = SlotIndex()
    private(set) var count = 0
    /// Sessions whose user's new owner has not answered: what they follow may have changed unheard.
    private(set) var registeringCount = 0

    mutating func open(_ attach: Attach, gateway: Int) {
        let (user, isNew) = users.index(of: attach.user, orInsert: [])
        if isNew { slots.insert(user, slot: attach.user.slot) }
        users[user].append(Local(attach: attach, gateway: gateway))
        count += 1
    }

    /// An owner has answered for `user`: its logins are done, and are not repeated when the sessions are registered again.
    mutating func confirm(_ user: UserID) {
        guard let index = users.index(of: user) else { return }
        for place in users[index].indices {
            users[index][place].attach.isLogin = false
            users[index][place].attach.customStatus = nil
            if users[index][place].isRegistering { registeringCount -= 1 }
            users[index][place].isRegistering = false
        }
    }

    mutating func close(_ session: SessionID, of user: UserID) {
        guard let index = users.index(of: user), let place = users[index].firstIndex(where: { $0.attach.session == session })
        else { return }
        if users[index].remove(at: place).isRegistering { registeringCount -= 1 }
        count -= 1
        guard users[index].isEmpty else { return }
        slots.remove(index, slot: user.slot)
        users.remove(index)
    }

    /// The owner of a session has ended it: it is not registered again while its gateway has not heard of it.
    mutating func end(_ session: SessionID, of user: UserID) {
        guard let index = users.index(of: user), let place = users[index].firstIndex(where: { $0.attach.session == session })
        else { return }
        users[index][place].isEnding = true
    }

    /// The sessions of the users of those of these slots for which `isWanted` holds, as a hash.
    func hash(of range: ClosedRange<Slot>, where isWanted: (Slot) -> Bool) -> UInt64 {
        var hash: UInt64 = 0
        slots.forEach(in: range) { slot, index in
            guard isWanted(slot) else { return }
            for local in users[index] where !local.isEnding { hash ^= ViewDigest.hash(of: local.attach.session) }
        }
        return hash
    }

    /// The gateways with sessions of `user`, as a mask.
    func gateways(of user: UserID) -> UInt64 {
        guard let index = users.index(of: user) else { return 0 }
        return users[index].reduce(0) { $0 | 1 << UInt64($1.gateway) }
    }

    /// The sessions of `user` that may be asking something: none when another node holds them.
    func askers(_ user: UserID) -> [SessionID] { users.index(of: user).map { users[$0].map(\.attach.session) } ?? [] }

    /// The sessions of `user`.
    func sessions(of user: UserID) -> [Attach] {
        users.index(of: user).map { users[$0].filter { !$0.isEnding }.map(\.attach) } ?? []
    }

    /// The users with sessions for whom `isWanted` holds, in a fixed order; their sessions are about to be registered again.
    mutating func reregister(where isWanted: (UserID) -> Bool) -> [UserID] {
        var found: [UserID] = []
        for index in users.places where users.isLive(index) && isWanted(users.user(at: index)) {
            reregister(index)
            found.append(users.user(at: index))
        }
        return found
    }

    /// The same for one user. Returns whether the user has sessions.
    mutating func reregister(_ user: UserID) -> Bool {
        guard let index = users.index(of: user) else { return false }
        reregister(index)
        return true
    }

    private mutating func reregister(_ index: UserTable<[Local]>.Index) {
        for place in users[index].indices where !users[index][place].isRegistering {
            users[index][place].isRegistering = true
            registeringCount += 1
        }
    }
}
