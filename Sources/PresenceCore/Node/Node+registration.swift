import PresenceWire

/// What this node hosts, told to those who own it: sessions and views, when the owner or the link to it is new (design §1.3, §5).
extension Node {
    /// Tells owners of the sessions and views whose users `isMoved` holds for.
    mutating func reregister(where isMoved: (UserID) -> Bool) {
        reregister(sessionsOf: sessions.reregister(where: isMoved), viewsOf: fanOut.unconfirm(where: isMoved))
    }

    /// Tells owners of the sessions and views of these users.
    mutating func reregister(_ users: [UserID]) {
        reregister(sessionsOf: users.filter { sessions.reregister($0) }, viewsOf: users.filter { fanOut.unconfirm($0) })
    }

    private mutating func reregister(sessionsOf hosted: [UserID], viewsOf watched: [UserID]) {
        var isTouched = [Bool](repeating: false, count: peers.count)
        for user in hosted {
            let peer = owner(of: user)
            isTouched[peer] = true
            peers[peer].registrations.append(sessionsOf: user)
        }
        for user in watched {
            let peer = owner(of: user)
            isTouched[peer] = true
            peers[peer].registrations.append(viewOf: user)
        }
        for peer in peers.indices where isTouched[peer] { fill(peer) }
    }

    /// Asks `peer` what it knows that this node hosts of its users, to tell it what differs (``onRegistered(_:epoch:from:)``). What was said
    /// on the links between them may be lost: until the answer nothing that is shown of its users counts as the newest.
    mutating func resync(_ peer: PeerIndex, at now: Now) {
        send(rowsForAll, to: peer)
        peers[peer].epoch += 1
        peers[peer].registrations.compare(epoch: peers[peer].epoch, ring: placement.id)
        let isOwned = { [placement] (slot: Slot) in placement.owner(of: slot) == peer }
        sessions.reregister(slots: isOwned)
        fanOut.unconfirm(slots: isOwned)
        send(.requestRegistered(epoch: peers[peer].epoch, ring: placement.id), to: peer)
        retryRequests(at: now) { $0.peer == peer }
    }

    /// Tells `peer` all that this node hosts of its users in some ranges of slots; what is not said is over.
    mutating func resync(_ peer: PeerIndex, ranges: SlotRanges) {
        peers[peer].epoch += 1
        peers[peer].registrations.begin(epoch: peers[peer].epoch)
        send(.beginSync(epoch: peers[peer].epoch, ranges: ranges), to: peer)
        let isConcerned = { [placement] (slot: Slot) in placement.owner(of: slot) == peer && ranges.contains(slot) }
        for user in sessions.reregister(slots: isConcerned) { peers[peer].registrations.append(sessionsOf: user) }
        for user in fanOut.unconfirm(slots: isConcerned) { peers[peer].registrations.append(viewOf: user) }
        fill(peer)
    }

    /// A link whose queue was dropped because it was full is made good: both sides tell everything anew, once it can be sent.
    mutating func resyncOverflown(at now: Now) {
        for peer in peers.indices.dropFirst() where peers[peer].isLinked && peers[peer].link.hasOverflowed && peers[peer].link.hasRoom {
            peers[peer].link.clearOverflow()
            send(.requestSync, to: peer)
            send(.requestOffer, to: peer)
            resync(peer, at: now)
            renewOffers(to: peer)
        }
    }

    /// A user's owner is to tell a peer whom the user follows.
    mutating func owe(listOf user: UserID, to peer: PeerIndex) {
        if peer == 0 { return send(.interest(owners.list(of: user)), to: 0) }
        guard peers[peer].isLinked else { return }
        peers[peer].registrations.append(listOf: user)
        fill(peer)
    }

    /// Says what is owed to a peer, as long as there is room on its link.
    mutating func fill(_ peer: PeerIndex) {
        guard !peers[peer].registrations.isEmpty else { return }
        guard peers[peer].isLinked else { return peers[peer].registrations.reset() }
        var watches: [Watch] = []
        var bytesCount = 0
        let isBehind = mayKnowLess(peer)
        while peer == 0 || peers[peer].link.hasRoom, let next = peers[peer].registrations.next() {
            switch next {
            case .sessions(let user): if owner(of: user) == peer { attach(user, to: peer) }
            case .view(let user):
                guard owner(of: user) == peer, var watch = fanOut.watch(for: user, withRecord: true) else { continue }
                if isBehind, case let kept = owners.record(of: user), kept.version > watch.held { watch.record = kept }
                watches.append(watch)
                bytesCount += watch.record?.privacy?.bytesCount ?? 0
                guard watches.count == Self.watchesMax || bytesCount > Link.batchBytesTarget else { continue }
                flush(&watches, to: peer)
                bytesCount = 0
            case .list(let user): if decides(user) { send(.interest(owners.list(of: user)), to: peer) }
            case .end(let epoch):
                flush(&watches, to: peer)
                send(.endSync(epoch: epoch), to: peer)
            }
        }
        flush(&watches, to: peer)
    }

    /// Most users of one registration: some 20 KiB without records.
    static let watchesMax = 500

    private mutating func flush(_ watches: inout [Watch], to peer: PeerIndex) {
        if !watches.isEmpty { send(.watch(watches), to: peer) }
        watches.removeAll(keepingCapacity: true)
    }

    private mutating func attach(_ user: UserID, to peer: PeerIndex) {
        for var attach in sessions.sessions(of: user) {
            attach.record = fanOut.recordHeld(of: user)
            send(.attach(attach), to: peer)
        }
    }

    /// Whether a peer has not said yet that all is on its disk that this node has offered it: what this node keeps, and told when it was the
    /// owner, may be newer than what the peer would answer (seed 17019091).
    private func mayKnowLess(_ peer: PeerIndex) -> Bool { peer != 0 && !ownership.transfer.isComplete(at: peer) }

    /// Registers users that this node begins to watch with their owners, one message an owner.
    mutating func register(_ users: [UserID]) {
        for (peer, users) in placement.grouped(users) {
            if mayKnowLess(peer) {
                for user in users { peers[peer].registrations.append(viewOf: user) }
                fill(peer)
                continue
            }
            for start in stride(from: 0, to: users.count, by: Self.watchesMax) {
                let part = users[start..<min(start + Self.watchesMax, users.count)]
                send(.watch(part.compactMap { fanOut.watch(for: $0, withRecord: false) }), to: peer)
            }
        }
    }
}
