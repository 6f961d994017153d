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
        case .request(let request):
            tag(MessageTag.request)
            self.request(request)
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
        case .requestSync: tag(MessageTag.requestSync)
        case .replicate, .replicated, .digest, .askFollowed, .areFollowed: keeping(message)
        }
    }

    /// Writes a message between the replicas of a slot.
    private mutating func keeping(_ message: Message) {
        switch message {
        case .replicate(let ticket, let rows):
            tag(MessageTag.replicate)
            unsigned(ticket)
            list(rows) { $0.row($1) }
        case .replicated(let ticket):
            tag(MessageTag.replicated)
            unsigned(ticket)
        case .digest(let hashes, let wantsAnswer):
            tag(MessageTag.digest)
            list(hashes) { $0.unsigned($1) }
            tag(wantsAnswer ? 1 : 0)
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
        tag((attach.isLogin ? 1 : 0) | (attach.isPushReachable ? 2 : 0))
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
        list(listUpdate.added) { writer, followed in
            writer.user(followed.target)
            writer.optional(followed.told) { $0.version($1) }
            writer.signed(followed.since)
            writer.tag(followed.subscribeType)
            writer.optional(followed.expiresAt) { $0.signed($1) }
        }
        users(listUpdate.removed)
        list(listUpdate.unfollowed) { writer, unfollowed in
            writer.user(unfollowed.target)
            writer.tag(unfollowed.subscribeType)
        }
        tag((listUpdate.isNews ? 1 : 0) | (listUpdate.hasExpired ? 2 : 0) | (listUpdate.mayBeIncomplete ? 4 : 0))
        optional(listUpdate.originSession) { $0.session($1) }
        unsigned(listUpdate.listHash)
    }

    private mutating func subscription(_ subscription: Subscription) {
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
        tag((request.isRepeated ? 1 : 0) | (request.isLimited ? 2 : 0))
        switch request.operation {
        case .setSelfStatus(let customStatus, let seconds):
            tag(OperationTag.setSelfStatus)
            text(customStatus)
            optional(seconds) { $0.signed($1) }
        case .subscribe(let targets, let seconds, let subscribeType, let session, let isCounted):
            tag(OperationTag.subscribe)
            list(targets) { writer, target in
                writer.user(target.user)
                writer.optional(target.told) { $0.version($1) }
            }
            optional(seconds) { $0.signed($1) }
            tag(subscribeType)
            optional(session) { $0.session($1) }
            tag(isCounted ? 1 : 0)
        case .followers(let targets):
            tag(OperationTag.followers)
            users(targets)
        case .unsubscribe(let targets, let type, let session):
            tag(OperationTag.unsubscribe)
            optional(targets) { $0.users($1) }
            optional(type) { $0.tag($1) }
            optional(session) { $0.session($1) }
        case .subscriptions(let only, let offset, let limit, let type):
            tag(OperationTag.subscriptions)
            optional(only) { $0.users($1) }
            unsigned(UInt64(offset))
            unsigned(UInt64(limit))
            optional(type) { $0.tag($1) }
        case .records(let users, let viewer):
            tag(OperationTag.records)
            self.users(users)
            optional(viewer) { $0.user($1) }
        case .setVisibility(let change):
            tag(OperationTag.setVisibility)
            visibility(change)
        case .visibility: tag(OperationTag.visibility)
        case .countQuery(let isMade):
            tag(OperationTag.countQuery)
            tag(isMade ? 1 : 0)
        case .logout(let session):
            tag(OperationTag.logout)
            optional(session) { $0.session($1) }
        case .publishEvent(let value, let ext, let seconds, let isForOnlineOnly, let isSynced, let session):
            tag(OperationTag.publishEvent)
            signed(value)
            text(ext)
            signed(seconds)
            tag((isForOnlineOnly ? 1 : 0) | (isSynced ? 2 : 0))
            optional(session) { $0.session($1) }
        case .explain(let other, let part):
            tag(OperationTag.explain)
            user(other)
            tag(part.rawValue)
        case .register: tag(OperationTag.register)
        case .kick(let reason):
            tag(OperationTag.kick)
            text(reason)
        case .setPolicy(let change):
            tag(OperationTag.setPolicy)
            text(String(decoding: change, as: UTF8.self))
        }
    }

    private mutating func answer(_ answer: Answer) {
        switch answer {
        case .record(let record):
            tag(AnswerTag.record)
            self.record(record)
        case .subscribed(let evicted, let refused, let nonFriends):
            tag(AnswerTag.subscribed)
            for list in [evicted, refused, nonFriends] { users(list) }
        case .followerLimitReached(let targets):
            tag(AnswerTag.followerLimitReached)
            users(targets)
        case .followers(let counts):
            tag(AnswerTag.followers)
            list(counts) { $0.unsigned($1) }
        case .done: tag(AnswerTag.done)
        case .subscriptions(let page, let total):
            tag(AnswerTag.subscriptions)
            list(page) { $0.subscription($1) }
            unsigned(UInt64(total))
        case .records(let records):
            tag(AnswerTag.records)
            list(records) { $0.record($1) }
        case .explained(let part, let json):
            tag(AnswerTag.explained)
            tag(part.rawValue)
            text(String(decoding: json, as: UTF8.self))
        case .visibility(let privacy):
            tag(AnswerTag.visibility)
            self.privacy(privacy)
        case .refused(let refusal):
            tag(AnswerTag.refused)
            unsigned(UInt64(refusal.code))
            text(refusal.detail)
            tag(refusal.mayTakeEffect ? 1 : 0)
        case .rateLimited(let retryAfter):
            tag(AnswerTag.rateLimited)
            unsigned(retryAfter)
        }
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
        case .request: return .request(try request())
        case .delta: return .delta(try record())
        case .watched: return .watched(try list { reader throws(DecodeError) in try reader.watched() })
        case .listUpdate: return .listUpdate(try listUpdate())
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
        case .requestSync: return .requestSync
        case .replicate: return .replicate(ticket: try unsigned(), try list { reader throws(DecodeError) in try reader.row() })
        case .replicated: return .replicated(ticket: try unsigned())
        case .digest:
            return .digest(try list { reader throws(DecodeError) in try reader.unsigned() }, wantsAnswer: try flag())
        case .askFollowed: return .askFollowed(id: try unsigned(), ring: try unsigned(), try users())
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
        guard flags < 4 else { throw .unknownTag(flags) }
        (attach.isLogin, attach.isPushReachable) = (flags & 1 != 0, flags & 2 != 0)
        attach.openedAt = try time()
        attach.record = try optional { reader throws(DecodeError) in try reader.record() }
        return attach
    }

    private mutating func detach() throws(DecodeError) -> Detach {
        let session = try session()
        let user = try user()
        let code = try tag()
        guard let cause = Detach.Cause(rawValue: code) else { throw .unknownTag(code) }
        return Detach(session: session, user: user, cause: cause, silence: try time())
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

    private mutating func listUpdate() throws(DecodeError) -> ListUpdate {
        let user = try user()
        let version = try version()
        let isWhole = try flag()
        let added = try list { reader throws(DecodeError) in
            ListUpdate.Followed(
                target: try reader.user(), told: try reader.optionalVersion(), since: try reader.signed(), subscribeType: try reader.tag(),
                expiresAt: try reader.optional { reader throws(DecodeError) in try reader.time() })
        }
        var listUpdate = ListUpdate(user: user, version: version, isWhole: isWhole, added: added, removed: try users())
        listUpdate.unfollowed = try list { reader throws(DecodeError) in
            ListUpdate.Unfollowed(target: try reader.user(), subscribeType: try reader.tag())
        }
        let flags = try tag()
        guard flags < 8 else { throw .unknownTag(flags) }
        (listUpdate.isNews, listUpdate.hasExpired, listUpdate.mayBeIncomplete) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0)
        listUpdate.originSession = try optional { reader throws(DecodeError) in try reader.session() }
        listUpdate.listHash = try unsigned()
        return listUpdate
    }

    private mutating func ranges() throws(DecodeError) -> SlotRanges {
        var ranges = SlotRanges()
        for place in ranges.words.indices { ranges.words[place] = try unsigned() }
        return ranges
    }

    private mutating func slot() throws(DecodeError) -> Slot { Slot(try number(max: UInt64(Slot.max))) }

    private mutating func slotHash() throws(DecodeError) -> SlotHash { SlotHash(slot: try slot(), hash: try unsigned()) }

    private mutating func number(max: UInt64) throws(DecodeError) -> UInt64 {
        let number = try unsigned()
        guard number <= max else { throw .tooLong(count: Int(clamping: number), limit: Int(max)) }
        return number
    }

    private mutating func subscription() throws(DecodeError) -> Subscription {
        let target = try user()
        let type = try tag()
        let subscribedAt = try time()
        let expiresAt = try optional { reader throws(DecodeError) in try reader.time() }
        let version = try version()
        return Subscription(
            target: target, subscribeType: type, subscribedAt: subscribedAt, expiresAt: expiresAt, version: version,
            isRemoved: try flag())
    }

    /// Reads a validity, at most the longest that a call may request.
    private mutating func seconds() throws(DecodeError) -> Int64 {
        let value = try signed()
        guard (0...Limits.subscriptionSeconds.upperBound).contains(value) else { throw .outOfRange(value) }
        return value
    }

    private mutating func optionalSeconds() throws(DecodeError) -> Int64? {
        try optional { reader throws(DecodeError) in try reader.seconds() }
    }

    private mutating func userList() throws(DecodeError) -> [UserID]? {
        try optional { reader throws(DecodeError) in try reader.users() }
    }

    private mutating func request() throws(DecodeError) -> Request {
        let id = try unsigned()
        let user = try user()
        let begunAt = try version()
        let flags = try tag()
        guard flags < 4 else { throw .unknownTag(flags) }
        return Request(
            id: id, user: user, operation: try operation(), begunAt: begunAt, isRepeated: flags & 1 != 0, isLimited: flags & 2 != 0)
    }

    private mutating func operation() throws(DecodeError) -> OwnerOperation {
        switch try tag(as: OperationTag.self) {
        case .setSelfStatus:
            return .setSelfStatus(customStatus: try text(bytesMax: Limits.customStatusBytesMax), seconds: try optionalSeconds())
        case .subscribe:
            let targets = try list { reader throws(DecodeError) in
                OwnerOperation.Target(user: try reader.user(), told: try reader.optionalVersion())
            }
            return .subscribe(
                targets, seconds: try optionalSeconds(), subscribeType: try tag(),
                session: try optional { reader throws(DecodeError) in try reader.session() }, isCounted: try flag())
        case .followers: return .followers(try users())
        case .unsubscribe:
            return .unsubscribe(
                try userList(), subscribeType: try optional { reader throws(DecodeError) in try reader.tag() },
                session: try optional { reader throws(DecodeError) in try reader.session() })
        case .subscriptions:
            return .subscriptions(
                only: try userList(), offset: Int(clamping: try unsigned()), limit: Int(clamping: try unsigned()),
                subscribeType: try optional { reader throws(DecodeError) in try reader.tag() })
        case .records: return .records(try users(), for: try optional { reader throws(DecodeError) in try reader.user() })
        case .setVisibility: return .setVisibility(try visibilityChange())
        case .visibility: return .visibility
        case .countQuery: return .countQuery(isMade: try flag())
        case .logout: return .logout(try optional { reader throws(DecodeError) in try reader.session() })
        case .publishEvent:
            let (value, ext, seconds, flags) = (try signed(), try text(bytesMax: Limits.eventBytesMax), try seconds(), try tag())
            guard flags < 4 else { throw .unknownTag(flags) }
            return .publishEvent(
                value: value, ext: ext, seconds: seconds, isForOnlineOnly: flags & 1 != 0, isSynced: flags & 2 != 0,
                session: try optional { reader throws(DecodeError) in try reader.session() })
        case .explain: return .explain(try user(), try explained())
        case .register: return .register
        case .kick: return .kick(reason: try text(bytesMax: Limits.nameBytesMax))
        case .setPolicy: return .setPolicy(Array(try text(bytesMax: Limits.rowBytesMax).utf8))
        }
    }

    private mutating func explained() throws(DecodeError) -> OwnerOperation.Explained {
        let code = try tag()
        guard let part = OwnerOperation.Explained(rawValue: code) else { throw .unknownTag(code) }
        return part
    }

    private mutating func answer() throws(DecodeError) -> Answer {
        switch try tag(as: AnswerTag.self) {
        case .record: return .record(try record())
        case .subscribed: return .subscribed(evicted: try users(), refused: try users(), nonFriends: try users())
        case .followerLimitReached: return .followerLimitReached(try users())
        case .followers: return .followers(try list { reader throws(DecodeError) in try reader.unsigned() })
        case .done: return .done
        case .subscriptions:
            let page = try list { reader throws(DecodeError) in try reader.subscription() }
            return .subscriptions(page, total: Int(clamping: try unsigned()))
        case .records: return .records(try list { reader throws(DecodeError) in try reader.record() })
        case .explained: return .explained(try explained(), Array(try text(bytesMax: Limits.rowBytesMax).utf8))
        case .visibility: return .visibility(try privacy())
        case .refused:
            let code = Int(clamping: try unsigned())
            var refusal = Refusal(code: code, detail: try text(bytesMax: 1024))
            refusal.mayTakeEffect = try flag()
            return .refused(refusal)
        case .rateLimited: return .rateLimited(retryAfter: try unsigned())
        }
    }
}
