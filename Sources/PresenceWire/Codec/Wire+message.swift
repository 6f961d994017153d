/// The first byte of a message between nodes. A number is never given to another message.
private enum MessageTag: UInt8 {
    case beginSync = 1
    case endSync = 2
    case attach = 3
    case detach = 4
    case watch = 5
    case unwatch = 6
    case request = 7
    case delta = 8
    case watched = 9
    case listUpdate = 10
    case end = 11
    case answer = 12
    case misrouted = 13
    case offer = 14
    case membership = 15
    case complete = 16
    case clocks = 33
    case requestSync = 17
    case replicate = 18
    case replicated = 19
    case digest = 20
    case requestOffer = 21
    case fetch = 23
    case sent = 24
    case transferComplete = 25
    case relay = 26
    case relayed = 27
    case viewDigest = 28
    case requestRegistered = 29
    case registered = 30
    case askFollowed = 31
    case areFollowed = 32
    case bucketDigest = 34
    case chainApply = 35
    case chainApplied = 36
    case chainVerify = 37
    case renew = 38
    case pendingEnds = 39
    case traced = 40
}

extension WireWriter {
    /// Writes one message with its tag.
    public mutating func message(_ message: Message) {
        switch message {
        case .beginSync(let registrationID, let ranges):
            tag(MessageTag.beginSync)
            unsigned(registrationID)
            for word in ranges.words { unsigned(word) }
        case .endSync(let registrationID):
            tag(MessageTag.endSync)
            unsigned(registrationID)
        case .attach(let attach):
            tag(MessageTag.attach)
            self.attach(attach)
        case .detach(let detach):
            tag(MessageTag.detach)
            self.detach(detach)
        case .watch(let watches):
            tag(MessageTag.watch)
            list(watches) { $0.watch($1) }
        case .unwatch(let users):
            tag(MessageTag.unwatch)
            self.users(users)
        case .pendingEnds(let ends):
            tag(MessageTag.pendingEnds)
            list(ends) { $1.write(into: &$0) }
        case .request(let request): tagged(request)
        case .traced(let trace, let request): tagged(request, trace)
        case .delta(let record):
            tag(MessageTag.delta)
            self.record(record)
        case .relay, .relayed, .viewDigest, .requestRegistered, .registered: view(message)
        case .watched(let watched):
            tag(MessageTag.watched)
            list(watched) { $0.watched($1) }
        case .listUpdate(let listUpdate):
            tag(MessageTag.listUpdate)
            self.listUpdate(listUpdate)
        case .end(let session, let user, let reason):
            tag(MessageTag.end)
            self.session(session)
            self.user(user)
            text(reason)
        case .renew(let session, let user, let expiresAt):
            tag(MessageTag.renew)
            self.session(session)
            self.user(user)
            signed(expiresAt)
        case .answer(let id, let answer):
            tag(MessageTag.answer)
            unsigned(id)
            self.answer(answer)
        case .misrouted(let users):
            tag(MessageTag.misrouted)
            self.users(users)
        case .offer, .fetch, .sent, .transferComplete, .requestOffer: handoff(message)
        case .membership(let message):
            tag(MessageTag.membership)
            membership(message)
        case .complete(let version):
            tag(MessageTag.complete)
            self.version(version)
        case .clocks(let clock, let system, let wantsAnswer):
            tag(MessageTag.clocks)
            signed(clock)
            signed(system)
            tag(wantsAnswer ? 1 : 0)
        case .requestSync: tag(MessageTag.requestSync)
        case .replicate, .replicated, .digest, .bucketDigest, .askFollowed, .areFollowed: keeping(message)
        case .chainApply, .chainApplied, .chainVerify: chain(message)
        }
    }

    /// Writes a request, behind the trace that it belongs to.
    private mutating func tagged(_ request: Request, _ trace: TraceContext? = nil) {
        tag(trace == nil ? MessageTag.request : .traced)
        trace?.write(into: &self)
        self.request(request)
    }

    /// Writes a message between the owners of two users.
    private mutating func chain(_ message: Message) {
        switch message {
        case .chainApply(let apply):
            tag(MessageTag.chainApply)
            apply.write(into: &self)
        case .chainApplied(let applied):
            tag(MessageTag.chainApplied)
            applied.write(into: &self)
        case .chainVerify(let verify):
            tag(MessageTag.chainVerify)
            verify.write(into: &self)
        default: preconditionFailure("\(message) is not between two owners")
        }
    }

    /// Writes a message between the replicas of a slot.
    private mutating func keeping(_ message: Message) {
        switch message {
        case .replicate(let ticket, let rows):
            tag(MessageTag.replicate)
            unsigned(ticket ?? 0)
            list(rows) { $0.row($1) }
        case .replicated(let ticket):
            tag(MessageTag.replicated)
            unsigned(ticket)
        case .digest(let hashes):
            tag(MessageTag.digest)
            list(hashes) { $0.unsigned($1) }
        case .bucketDigest(let salt, let buckets):
            tag(MessageTag.bucketDigest)
            unsigned(salt)
            list(buckets) { $0.bucket($1) }
        case .askFollowed(let id, let ring, let users):
            tag(MessageTag.askFollowed)
            unsigned(id)
            unsigned(ring)
            self.users(users)
        case .areFollowed(let id, let users):
            tag(MessageTag.areFollowed)
            unsigned(id)
            self.users(users)
        default: preconditionFailure("not about what is kept: \(message)")
        }
    }

    /// Writes a message of the handoff of slots.
    private mutating func handoff(_ message: Message) {
        switch message {
        case .offer(let ring, let offerSequence, let slots, let isFirst, let isLast):
            tag(MessageTag.offer)
            unsigned(ring)
            unsigned(offerSequence)
            list(slots) { $0.slotHash($1) }
            tag(isFirst ? 1 : 0)
            tag(isLast ? 1 : 0)
        case .requestOffer: tag(MessageTag.requestOffer)
        case .fetch(let ring, let slots):
            tag(MessageTag.fetch)
            unsigned(ring)
            list(slots) { $0.unsigned(UInt64($1)) }
        case .sent(let ring, let slotsCount):
            tag(MessageTag.sent)
            unsigned(ring)
            unsigned(UInt64(slotsCount))
        case .transferComplete(let ring, let offerSequence):
            tag(MessageTag.transferComplete)
            unsigned(ring)
            unsigned(offerSequence)
        default: preconditionFailure("not about slots: \(message)")
        }
    }

    /// Writes a message that relays or compares views.
    private mutating func view(_ message: Message) {
        switch message {
        case .relay(let record, let targets):
            tag(MessageTag.relay)
            self.record(record)
            list(targets) { $0.unsigned(UInt64($1)) }
        case .relayed(let slots):
            tag(MessageTag.relayed)
            list(slots) { $0.slotHash($1) }
        case .viewDigest(let ring, let first, let hashes):
            tag(MessageTag.viewDigest)
            unsigned(ring)
            tag(first)
            list(hashes) { $0.unsigned($1) }
        case .requestRegistered(let registrationID, let ring):
            tag(MessageTag.requestRegistered)
            unsigned(registrationID)
            unsigned(ring)
        case .registered(let registrationID, let hashes):
            tag(MessageTag.registered)
            unsigned(registrationID)
            list(hashes) { $0.unsigned($1) }
        default: preconditionFailure("not about views: \(message)")
        }
    }

    private mutating func slotHash(_ slot: SlotHash) {
        unsigned(UInt64(slot.slot))
        unsigned(slot.hash)
    }

    /// Writes a list of users.
    public mutating func users(_ users: [UserID]) { list(users) { $0.user($1) } }

    /// Writes the first message of a node on a link.
    public mutating func hello(_ hello: Hello) {
        unsigned(hello.protocolVersion)
        text(hello.cluster)
        peer(hello.sender)
        list(hello.members) { $0.peer($1) }
        signed(hello.wall)
        unsigned(hello.number)
    }

    mutating func peer(_ peer: Peer) {
        text(peer.id.rawValue)
        unsigned(peer.generation)
        text(peer.address)
        unsigned(UInt64(peer.weight))
    }

    private mutating func attach(_ attach: Attach) {
        session(attach.session)
        user(attach.user)
        text(attach.platform)
        text(attach.deviceID)
        optional(attach.customStatus) { $0.text($1) }
        tag(
            (attach.isLogin ? 1 : 0) | (attach.isPushReachable ? 2 : 0) | (attach.isOneOfSeveral ? 4 : 0)
                | (attach.kind == .listener ? 8 : 0))
        signed(attach.openedAt)
        optional(attach.record) { $0.record($1) }
    }

    private mutating func detach(_ detach: Detach) {
        session(detach.session)
        user(detach.user)
        tag(detach.cause.rawValue)
        signed(detach.silence)
    }

    private mutating func watch(_ watch: Watch) {
        user(watch.user)
        version(watch.held)
        optional(watch.record) { $0.record($1) }
    }

    private mutating func watched(_ watched: Watched) {
        user(watched.user)
        optional(watched.record) { $0.record($1) }
        signed(watched.knownSince)
    }

    private mutating func listUpdate(_ listUpdate: ListUpdate) {
        user(listUpdate.user)
        version(listUpdate.version)
        tag(listUpdate.isWhole ? 1 : 0)
        listUpdate.writeAdded(into: &self)
        users(listUpdate.removed)
        list(listUpdate.unfollowed) { writer, unfollowed in
            writer.user(unfollowed.target)
            writer.tag(unfollowed.subscribeType)
        }
        tag((listUpdate.isNews ? 1 : 0) | (listUpdate.hasExpired ? 2 : 0) | (listUpdate.mayBeIncomplete ? 4 : 0))
        optional(listUpdate.originSession.wire) { $0.session($1) }
        unsigned(listUpdate.listHash)
        list(listUpdate.notices) { writer, notice in notice.write(into: &writer) }
        listUpdate.writeProfiles(into: &self)
        list(listUpdate.sessions) { writer, session in session.write(into: &writer) }
    }

    mutating func subscription(_ subscription: Subscription) {
        user(subscription.target)
        tag(subscription.subscribeType)
        signed(subscription.subscribedAt)
        optional(subscription.expiresAt) { $0.signed($1) }
        version(subscription.version)
        tag(subscription.isRemoved ? 1 : 0)
    }

    private mutating func request(_ request: Request) {
        unsigned(request.id)
        user(request.user)
        version(request.begunAt)
        tag((request.isRepeated ? 1 : 0) | (request.isLimited ? 2 : 0) | (request.key == nil ? 0 : 4))
        operation(request.operation)
        request.key?.write(into: &self)
    }
}

extension WireReader {
    /// See ``WireWriter/message(_:)``.
    public mutating func message() throws(DecodeError) -> Message {
        switch try tag(as: MessageTag.self) {
        case .beginSync: return .beginSync(registrationID: try unsigned(), ranges: try ranges())
        case .endSync: return .endSync(registrationID: try unsigned())
        case .attach: return .attach(try attach())
        case .detach: return .detach(try detach())
        case .watch: return .watch(try list { reader throws(DecodeError) in try reader.watch() })
        case .unwatch: return .unwatch(try users())
        case .pendingEnds: return .pendingEnds(try list { reader throws(DecodeError) in try PendingEnds(from: &reader) })
        case .request: return .request(try request())
        case .traced: return .traced(try TraceContext(from: &self), try request())
        case .delta: return .delta(try record())
        case .watched: return .watched(try list { reader throws(DecodeError) in try reader.watched() })
        case .listUpdate: return .listUpdate(try listUpdate())
        case .renew: return .renew(try session(), user: try user(), until: try signed())
        case .end: return .end(try session(), user: try user(), reason: try text(bytesMax: Limits.nameBytesMax))
        case .answer: return .answer(id: try unsigned(), try answer())
        case .misrouted: return .misrouted(try users())
        case .offer:
            return .offer(
                ring: try unsigned(), offerSequence: try unsigned(), try list { reader throws(DecodeError) in try reader.slotHash() },
                isFirst: try flag(), isLast: try flag())
        case .requestOffer: return .requestOffer
        case .fetch: return .fetch(ring: try unsigned(), try list { reader throws(DecodeError) in try reader.slot() })
        case .sent: return .sent(ring: try unsigned(), slotsCount: Int(try number(max: UInt64(Slot.max))))
        case .transferComplete: return .transferComplete(ring: try unsigned(), offerSequence: try unsigned())
        case .relay:
            let record = try record()
            return .relay(record, targets: try list { reader throws(DecodeError) in UInt32(try reader.number(max: UInt64(UInt32.max))) })
        case .relayed: return .relayed(try list { reader throws(DecodeError) in try reader.slotHash() })
        case .viewDigest:
            return .viewDigest(ring: try unsigned(), first: try tag(), try list { reader throws(DecodeError) in try reader.unsigned() })
        case .requestRegistered: return .requestRegistered(registrationID: try unsigned(), ring: try unsigned())
        case .registered:
            return .registered(registrationID: try unsigned(), try list { reader throws(DecodeError) in try reader.unsigned() })
        case .membership: return .membership(try membership())
        case .complete: return .complete(upTo: try version())
        case .clocks: return .clocks(try time(), system: try time(), wantsAnswer: try flag())
        case .requestSync: return .requestSync
        case .replicate:
            let ticket = try unsigned()
            return .replicate(ticket: ticket == 0 ? nil : ticket, try list { reader throws(DecodeError) in try reader.row() })
        case .replicated: return .replicated(ticket: try unsigned())
        case .digest: return .digest(try list { reader throws(DecodeError) in try reader.unsigned() })
        case .bucketDigest:
            let salt = try unsigned()
            return .bucketDigest(
                salt: salt, try list(countMax: Message.bucketsMax) { reader throws(DecodeError) in try reader.bucket() })
        case .askFollowed: return .askFollowed(id: try unsigned(), ring: try unsigned(), try users())
        case .chainApply: return .chainApply(try ChainApply(from: &self))
        case .chainApplied: return .chainApplied(try ChainApplied(from: &self))
        case .chainVerify: return .chainVerify(try ChainVerify(from: &self))
        case .areFollowed: return .areFollowed(id: try unsigned(), try users())
        }
    }

    /// Reads a list of users.
    public mutating func users() throws(DecodeError) -> [UserID] {
        try list { reader throws(DecodeError) in try reader.user() }
    }

    /// Reads a hello; see ``WireWriter/hello(_:)``.
    ///
    /// Of another version of the protocol it reads only the fields that all versions share: the sender and its cluster.
    public mutating func hello() throws(DecodeError) -> Hello {
        let version = try unsigned()
        let cluster = try text(bytesMax: Limits.nameBytesMax)
        let sender = try peer()
        guard version == Hello.protocolVersion else {
            return Hello(cluster: cluster, sender: sender, members: [], wall: 0, protocolVersion: version)
        }
        let members = try list { reader throws(DecodeError) in try reader.peer() }
        return Hello(
            cluster: cluster, sender: sender, members: members, wall: try signed(), number: try unsigned(), protocolVersion: version)
    }

    mutating func peer() throws(DecodeError) -> Peer {
        let id = try text(bytesMax: Limits.nameBytesMax)
        let generation = try unsigned()
        let address = try text(bytesMax: 300)
        return Peer(id: NodeID(id), generation: generation, address: address, weight: UInt32(clamping: try unsigned()))
    }

    mutating func flag() throws(DecodeError) -> Bool {
        switch try tag() {
        case 0: return false
        case 1: return true
        case let other: throw .unknownTag(other)
        }
    }

    private mutating func attach() throws(DecodeError) -> Attach {
        var attach = Attach(
            session: try session(), user: try user(), platform: try text(bytesMax: Limits.platformBytesMax),
            deviceID: try text(bytesMax: Limits.deviceBytesMax),
            customStatus: try optional { reader throws(DecodeError) in try reader.text(bytesMax: Limits.customStatusBytesMax) })
        let flags = try tag()
        guard flags < 16 else { throw .unknownTag(flags) }
        (attach.isLogin, attach.isPushReachable, attach.isOneOfSeveral) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0)
        if flags & 8 != 0 { attach.kind = .listener }
        attach.openedAt = try time()
        attach.record = try optional { reader throws(DecodeError) in try reader.record() }
        return attach
    }

    private mutating func detach() throws(DecodeError) -> Detach {
        Detach(session: try session(), user: try user(), cause: try tag(as: Detach.Cause.self), silence: try time())
    }

    private mutating func watch() throws(DecodeError) -> Watch {
        Watch(user: try user(), held: try version(), record: try optional { reader throws(DecodeError) in try reader.record() })
    }

    private mutating func watched() throws(DecodeError) -> Watched {
        Watched(
            user: try user(), record: try optional { reader throws(DecodeError) in try reader.record() }, knownSince: try signed())
    }

    private mutating func optionalVersion() throws(DecodeError) -> Version? {
        try optional { reader throws(DecodeError) in try reader.version() }
    }

    mutating func originSession() throws(DecodeError) -> OriginSession {
        OriginSession(try optional { reader throws(DecodeError) in try reader.session() })
    }

    mutating func delivered() throws(DecodeError) -> DeliveredRecord { DeliveredRecord(wire: try optionalVersion()) }

    private mutating func listUpdate() throws(DecodeError) -> ListUpdate {
        let user = try user()
        let version = try version()
        let isWhole = try flag()
        var listUpdate = ListUpdate(user: user, version: version, isWhole: isWhole, added: [], removed: [])
        try listUpdate.readAdded(from: &self)
        listUpdate.removed = try users()
        listUpdate.unfollowed = try list { reader throws(DecodeError) in
            ListUpdate.Unfollowed(target: try reader.user(), subscribeType: try reader.tag())
        }
        let flags = try tag()
        guard flags < 8 else { throw .unknownTag(flags) }
        (listUpdate.isNews, listUpdate.hasExpired, listUpdate.mayBeIncomplete) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0)
        listUpdate.originSession = try originSession()
        listUpdate.listHash = try unsigned()
        listUpdate.notices = try list { reader throws(DecodeError) in try RelationshipNotice(from: &reader) }
        try listUpdate.readProfiles(from: &self)
        listUpdate.sessions = try UserSession.list(from: &self)
        return listUpdate
    }

    private mutating func ranges() throws(DecodeError) -> SlotRanges {
        var ranges = SlotRanges()
        for index in ranges.words.indices { ranges.words[index] = try unsigned() }
        return ranges
    }

    private mutating func slot() throws(DecodeError) -> Slot { Slot(try number(max: UInt64(Slot.max))) }

    private mutating func slotHash() throws(DecodeError) -> SlotHash { SlotHash(slot: try slot(), hash: try unsigned()) }

    private mutating func number(max: UInt64) throws(DecodeError) -> UInt64 {
        let number = try unsigned()
        guard number <= max else { throw .tooLong(count: Int(clamping: number), limit: Int(max)) }
        return number
    }

    /// Reads a validity, at most the longest that a call may request.
    mutating func validity() throws(DecodeError) -> Int64 {
        let value = try signed()
        guard (0...Limits.subscriptionSeconds.upperBound).contains(value) else { throw .outOfRange(value) }
        return value
    }

    mutating func optionalSeconds() throws(DecodeError) -> Int64? {
        try optional { reader throws(DecodeError) in try reader.validity() }
    }

    mutating func userList() throws(DecodeError) -> [UserID]? {
        try optional { reader throws(DecodeError) in try reader.users() }
    }

    private mutating func request() throws(DecodeError) -> Request {
        let (id, user, begunAt) = (try unsigned(), try user(), try version())
        let flags = try tag()
        guard flags < 8 else { throw .unknownTag(flags) }
        return Request(
            id: id, user: user, operation: try operation(), begunAt: begunAt, isRepeated: flags & 1 != 0, isLimited: flags & 2 != 0,
            key: flags & 4 == 0 ? nil : try CallKey(from: &self))
    }
}
