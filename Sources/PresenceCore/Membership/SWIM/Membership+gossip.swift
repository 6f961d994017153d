import PresenceWire

/// The spread of membership updates: with every message, by gossip while there are new ones, and in full from time to time.
extension Membership {
    /// Receives a message from another node's link.
    public mutating func receive(_ message: MembershipMessage, from sender: NodeID, at now: Now) {
        heardAt = now.instant
        var isFromPage = false
        if case .page = message.kind { isFromPage = true }
        var outdated: [Int] = []
        for update in message.updates.prefix(MembershipMessage.updatesCountMax) {
            let outcome = apply(update, isFromPage: isFromPage, at: now)
            if outcome == .stale, let memberIndex = memberIndices[update.member.id] { outdated.append(memberIndex) }
        }
        // This node's update may have been lost in every retransmission to the sender, which does not know it.
        var isProbe = false
        if case .probe = message.kind { isProbe = true }
        if !isProbe, outdated.contains(Self.ownIndex) { send(.gossip, to: sender, first: [Self.ownIndex]) }
        switch message.kind {
        case .probe(let sequence):
            // A suspect learns that it is one. An outdated update is answered with the newer one, a death only as a suspicion (see `hear`).
            if let memberIndex = memberIndices[sender], isSuspect(memberIndex) { outdated.insert(memberIndex, at: 0) }
            send(.ack(sequence), to: sender, first: outdated, isDeathCertain: false)
        case .ack(let sequence): receiveAck(sequence, from: sender)
        case .nack(let sequence): receiveNack(sequence, from: sender)
        case .indirectProbe(let sequence, let target): relay(sequence, target: target, for: sender, at: now)
        case .gossip: break
        case .digest(let other): if other != membershipHash { sendPages(to: sender, wantsAnswer: true) }
        case .page(let wantsAnswer): if wantsAnswer { sendPages(to: sender, wantsAnswer: false) }
        }
    }

    private func isSuspect(_ memberIndex: Int) -> Bool {
        guard settings.additions.contains(.buddySystem), let state = table[memberIndex].state else { return false }
        return state != .alive
    }

    /// Sends a message with as many updates as fit. A suspect first learns that it is one (Lifeguard's buddy system, §IV.C).
    mutating func sendToMember(_ kind: MembershipMessage.Kind, at memberIndex: Int) {
        send(kind, to: table[memberIndex].peer.id, first: isSuspect(memberIndex) ? [memberIndex] : [])
    }

    /// Sends a message with as many updates as fit.
    ///
    /// - Parameters:
    ///   - first: the members whose updates come first, without counting as a retransmission.
    ///   - isDeathCertain: whether deaths among these are sent as such, or only as suspicions.
    mutating func send(_ kind: MembershipMessage.Kind, to id: NodeID, first: [Int] = [], isDeathCertain: Bool = true) {
        var updates: [MembershipUpdate] = []
        var bytesLeft = settings.updateBytesMax
        var told: [Int] = []
        for memberIndex in first where !told.contains(memberIndex) && table[memberIndex].state != nil {
            var update = update(memberIndex)
            if update.state == .dead, !isDeathCertain { (update.state, update.suspecter) = (.suspect, nil) }
            guard update.encodedBytesMax <= bytesLeft else { break }
            bytesLeft -= update.encodedBytesMax
            updates.append(update)
            told.append(memberIndex)
        }
        let transmissionsMax = settings.retransmitMultiplier * decadesRoundedUp
        let members = table
        let taken = queue.take(transmissionsMax: transmissionsMax) { memberIndex in
            let bytes = members[memberIndex].update.encodedBytesMax
            guard bytes <= bytesLeft else { return false }
            bytesLeft -= bytes
            return true
        }
        for memberIndex in taken where !told.contains(memberIndex) { updates.append(update(memberIndex)) }
        effects.append(.send(MembershipMessage(kind, updates: updates), to: id))
    }

    // MARK: Gossip

    mutating func gossip(at now: Now) {
        nextGossipAt = now.instant + settings.gossipInterval
        guard queue.count > 0, table[Self.ownIndex].state != .left else { return }
        for memberIndex in randomLive(settings.gossipFanOut) where queue.count > 0 { sendToMember(.gossip, at: memberIndex) }
    }

    /// Sends a member's update to some members at once.
    mutating func announce(_ memberIndex: Int, to count: Int) {
        for receiver in randomLive(count, except: memberIndex) { send(.gossip, to: table[receiver].peer.id, first: [memberIndex]) }
    }

    /// Different live members in random order: `count`, or all if there are fewer.
    mutating func randomLive(_ count: Int, except: Int = -1) -> [Int] {
        var chosen: [Int] = []
        let available = live.count - (except > 0 && table[except].liveIndex >= 0 ? 1 : 0)
        if count * 2 >= available {
            chosen = live.filter { $0 != except }
            chosen.shuffle(using: &random)
            return Array(chosen.prefix(count))
        }
        while chosen.count < count {
            let memberIndex = live[Int.random(in: 0..<live.count, using: &random)]
            if memberIndex != except, !chosen.contains(memberIndex) { chosen.append(memberIndex) }
        }
        return chosen
    }

    // MARK: Full exchange

    mutating func exchangeDigests(at now: Now) {
        nextExchangeAt = now.instant + settings.fullExchangeInterval
        guard table[Self.ownIndex].state != .left, let memberIndex = randomLive(1).first else { return }
        send(.digest(membershipHash), to: table[memberIndex].peer.id)
    }

    /// Compares hashes with a member whose updates may be lost. All updates are exchanged only if the hashes differ.
    mutating func compare(with id: NodeID) { send(.digest(membershipHash), to: id) }

    /// Sends all updates, this node's first. Only the last page may ask for an answer.
    private mutating func sendPages(to id: NodeID, wantsAnswer: Bool) {
        var page: [MembershipUpdate] = []
        var bytesLeft = settings.pageBytesMax
        for memberIndex in table.indices where table[memberIndex].state != nil {
            let update = update(memberIndex)
            if update.encodedBytesMax > bytesLeft || page.count == MembershipMessage.updatesCountMax {
                effects.append(.send(MembershipMessage(.page(wantsAnswer: false), updates: page), to: id))
                page = []
                bytesLeft = settings.pageBytesMax
            }
            bytesLeft -= update.encodedBytesMax
            page.append(update)
        }
        effects.append(.send(MembershipMessage(.page(wantsAnswer: wantsAnswer), updates: page), to: id))
    }

    /// Tries to connect to one of the dead, or to a contact point that never answered. So the two sides of a split find each other again.
    mutating func reconnect(at now: Now) {
        nextReconnectAt = now.instant + settings.reconnectInterval
        guard table[Self.ownIndex].state != .left else { return }
        let lost = table.indices.filter { !table[$0].isVacant && (table[$0].state ?? .dead) == .dead }
        guard let memberIndex = lost.randomElement(using: &random) else { return }
        effects.append(.connect(table[memberIndex].peer))
        if table[memberIndex].state == .dead { send(.digest(membershipHash), to: table[memberIndex].peer.id, first: [memberIndex]) }
    }
}
