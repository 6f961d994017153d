import PresenceWire

/// The sessions of this node's gateways, by user. The node registers them again after a new owner or a new link.
struct LocalSessions {
    /// The part of an ``PresenceWire/Attach`` that describes a session, without the record. Every session keeps one.
    private struct Local {
        let session: SessionID
        let kind: Attach.Kind
        let gateway: UInt8
        let isPushReachable: Bool
        /// The login that the user's owner has not answered yet; nil once it has.
        var login: Login?
        /// Whether the user's new owner has not answered yet.
        var isRegistering = false
        let openedAt: Milliseconds
        let platform: String
        let deviceID: String
        /// The hash of the user's subscription list, if every change of the list has arrived (``PresenceWire/ListUpdate/listHash``).
        var listHash: UInt64?
        /// The number of sessions of the user that the gateways were last sent (``PresenceWire/ListUpdate/sessions``).
        var toldCount: UInt8 = 0
        /// Whether the owner has ended the session and its gateway has not yet.
        var isEnding = false

        /// The part of a login that the session does not keep afterwards.
        struct Login { let customStatus: String? }

        init(_ attach: Attach, gateway: Int) {
            (session, kind) = (attach.session, attach.kind)
            self.gateway = UInt8(gateway)
            isPushReachable = attach.isPushReachable
            login = attach.isLogin ? Login(customStatus: attach.customStatus) : nil
            openedAt = attach.openedAt
            platform = attach.platform
            deviceID = attach.deviceID
        }

        func attach(of user: UserID) -> Attach {
            var attach = Attach(
                session: session, user: user, platform: platform, deviceID: deviceID, customStatus: login?.customStatus,
                isLogin: login != nil,
                isPushReachable: isPushReachable)
            attach.openedAt = openedAt
            (attach.kind, attach.isOneOfSeveral) = (kind, toldCount > 1)
            return attach
        }
    }

    private var users = UserTable<[Local]>()
    private var slots = SlotIndex()
    /// The number of open streams, those of listeners included.
    private(set) var count = 0
    /// The number of streams that hear without being seen (`presence=none`).
    private(set) var listenersCount = 0
    /// The number of sessions whose user's new owner has not answered. Changes of their subscription lists may be missing.
    private(set) var registeringCount = 0

    mutating func open(_ attach: Attach, gateway: Int) {
        let (user, isNew) = users.index(of: attach.user, orInsert: [])
        if isNew { slots.insert(user, slot: attach.user.slot) }
        users[user].append(Local(attach, gateway: gateway))
        count += 1
        if attach.kind == .listener { listenersCount += 1 }
    }

    /// Records that an owner has answered for `user`: its logins are done, and are not repeated at the next registration.
    mutating func confirm(_ user: UserID) {
        guard let index = users.index(of: user) else { return }
        for position in users[index].indices {
            users[index][position].login = nil
            if users[index][position].isRegistering { registeringCount -= 1 }
            users[index][position].isRegistering = false
        }
    }

    /// Records a change of a subscription list that goes to the gateways next.
    mutating func note(_ listUpdate: ListUpdate) {
        guard let index = users.index(of: listUpdate.user) else { return }
        for position in users[index].indices {
            if !listUpdate.sessions.isEmpty { users[index][position].toldCount = UInt8(clamping: listUpdate.sessions.count) }
            guard listUpdate.isWhole || users[index][position].listHash != nil else { continue }
            users[index][position].listHash = listUpdate.listHash(after: users[index][position].listHash ?? 0)
        }
        if listUpdate.isWhole { confirm(listUpdate.user) }
    }

    /// Records that the owner knows the sessions of the slots for which `isEqual` holds, and that every change of their lists has arrived.
    mutating func confirm(slots isEqual: (Slot) -> Bool) {
        guard registeringCount > 0 else { return }
        for index in slots.users(where: isEqual) {
            for position in users[index].indices where users[index][position].isRegistering {
                users[index][position].isRegistering = false
                registeringCount -= 1
            }
        }
    }

    mutating func close(_ session: SessionID, of user: UserID) {
        guard let index = users.index(of: user), let position = users[index].firstIndex(where: { $0.session == session })
        else { return }
        let closed = users[index].remove(at: position)
        if closed.isRegistering { registeringCount -= 1 }
        if closed.kind == .listener { listenersCount -= 1 }
        count -= 1
        guard users[index].isEmpty else { return }
        slots.remove(index, slot: user.slot)
        users.remove(index)
    }

    /// Records that a session's owner has ended it. The session is not registered again before its gateway has ended it.
    ///
    /// - Returns: whether the user has such a session here.
    mutating func end(_ session: SessionID, of user: UserID) -> Bool {
        guard let index = users.index(of: user), let position = users[index].firstIndex(where: { $0.session == session })
        else { return false }
        users[index][position].isEnding = true
        return true
    }

    /// A hash of the sessions of the users of these slots for which `isWanted` holds.
    func hash(of range: ClosedRange<Slot>, where isWanted: (Slot) -> Bool) -> UInt64 {
        slots.hash(of: range, where: isWanted) { hash(of: users[$0]) { ViewDigest.hash(of: $0.session) } }
    }

    /// The hash with the lists of the users, as nodes compare it after a new link.
    func fullHash(of range: ClosedRange<Slot>, where isWanted: (Slot) -> Bool) -> UInt64 {
        slots.hash(of: range, where: isWanted) { index in
            hash(of: users[index]) { ViewDigest.gatewayHash(of: $0.session, listHash: $0.listHash) }
        }
    }

    private func hash(of sessions: [Local], by hash: (Local) -> UInt64) -> UInt64 {
        sessions.reduce(0) { $1.isEnding ? $0 : $0 ^ hash($1) }
    }

    /// The gateways with sessions of `user`, as a mask.
    func gateways(of user: UserID) -> UInt64 {
        guard let index = users.index(of: user) else { return 0 }
        return users[index].reduce(0) { $0 | 1 << UInt64($1.gateway) }
    }

    /// The sessions of `user` on this node, one of which may be making the call; none if another node holds them.
    func originSessions(_ user: UserID) -> [OriginSession] {
        users.index(of: user).map { users[$0].map { .session($0.session) } } ?? []
    }

    /// The sessions of `user`.
    func sessions(of user: UserID) -> [Attach] {
        users.index(of: user).map { users[$0].filter { !$0.isEnding }.map { $0.attach(of: user) } } ?? []
    }

    /// Marks the users for which `isWanted` holds as not registered. Returns those with sessions, in a fixed order.
    mutating func reregister(where isWanted: (UserID) -> Bool) -> [UserID] {
        users.allIndices.filter { users.isLive($0) && isWanted(users.user(at: $0)) }.map { reregister($0) }
    }

    /// Marks all users of the slots for which `isWanted` holds as not registered. Returns those with sessions.
    @discardableResult mutating func reregister(slots isWanted: (Slot) -> Bool) -> [UserID] {
        slots.users(where: isWanted).map { reregister($0) }
    }

    private mutating func reregister(_ index: UserTable<[Local]>.Index) -> UserID {
        for position in users[index].indices where !users[index][position].isRegistering {
            users[index][position].isRegistering = true
            registeringCount += 1
        }
        return users.user(at: index)
    }

    /// Marks one user as not registered. Returns whether the user has sessions.
    mutating func reregister(_ user: UserID) -> Bool {
        guard let index = users.index(of: user) else { return false }
        _ = reregister(index)
        return true
    }
}
