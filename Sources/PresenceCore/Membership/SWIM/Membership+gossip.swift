import PresenceWire

/// The spread of membership updates: with every message, by gossip while there are new ones, and in full from time to time.
extension Membership {
    /// Receives a message from another node's link.
    public mutating func receive(_ message: MembershipMessage, from sender: NodeID, at now: Now) {
        var isFromPage = false
        if case .page = message.kind { isFromPage = true }
        var outdated: [Int] = []
        for rumour in message.rumours.prefix(MembershipMessage.rumoursCountMax) {
            let hearing = hear(rumour, isFromPage: isFromPage, at: now)
            if hearing == .stale, let place = places[rumour.member.id] { outdated.append(place) }
        }
        // This node's update may have been lost in every retransmission to the sender, which does not know it.
        var isProbe = false
        if case .probe = message.kind { isProbe = true }
        if !isProbe, outdated.contains(Self.ownPlace) { send(.gossip, to: sender, first: [Self.ownPlace]) }
        switch message.kind {
        case .probe(let sequence):
            // A suspect learns that it is one. An outdated update is answered with the newer one, a death only as a suspicion (see `hear`).
            if let place = places[sender], isDoubted(place) { outdated.insert(place, at: 0) }
            send(.ack(sequence), to: sender, first: outdated, isDeathCertain: false)
        case .ack(let sequence): receiveAck(sequence, from: sender)
        case .nack(let sequence): receiveNack(sequence, from: sender)
        case .indirectProbe(let sequence, let target): relay(sequence, target: target, for: sender, at: now)
        case .gossip: break
        case .digest(let other): if other != digest { sendPages(to: sender, wantsAnswer: true) }
        case .page(let wantsAnswer): if wantsAnswer { sendPages(to: sender, wantsAnswer: false) }
        }
    }

    private func isDoubted(_ place: Int) -> Bool {
        guard settings.isBuddySystemOn, let state = table[place].state else { return false }
        return state != .alive
    }

    /// Sends a message with as many updates as fit. A suspect first learns that it is one (Lifeguard's buddy system, §IV.C).
    mutating func sendToMember(_ kind: MembershipMessage.Kind, at place: Int) {
        send(kind, to: table[place].card.id, first: isDoubted(place) ? [place] : [])
    }

    /// Sends a message with as many updates as fit.
    ///
    /// - Parameters:
    ///   - first: the members whose updates come first, without counting as a retransmission.
    ///   - isDeathCertain: whether deaths among these are sent as such, or only as suspicions.
    mutating func send(_ kind: MembershipMessage.Kind, to id: NodeID, first: [Int] = [], isDeathCertain: Bool = true) {
        var rumours: [Rumour] = []
        var bytesLeft = settings.rumourBytesMax
        var told: [Int] = []
        for place in first where !told.contains(place) && table[place].state != nil {
            var rumour = rumour(place)
            if rumour.state == .dead, !isDeathCertain { (rumour.state, rumour.accuser) = (.suspect, nil) }
            guard rumour.encodedBytesMax <= bytesLeft else { break }
            bytesLeft -= rumour.encodedBytesMax
            rumours.append(rumour)
            told.append(place)
        }
        let tellingsMax = settings.retransmitMultiplier * decadesRoundedUp
        let members = table
        let taken = queue.take(tellingsMax: tellingsMax) { place in
            let bytes = members[place].rumour.encodedBytesMax
            guard bytes <= bytesLeft else { return false }
            bytesLeft -= bytes
            return true
        }
        for place in taken where !told.contains(place) { rumours.append(rumour(place)) }
        effects.append(.send(MembershipMessage(kind, rumours: rumours), to: id))
    }

    // MARK: Gossip

    mutating func gossip(at now: Now) {
        nextGossipAt = now.instant + settings.gossipInterval
        guard queue.count > 0, table[Self.ownPlace].state != .left else { return }
        for place in randomLive(settings.gossipFanOut) where queue.count > 0 { sendToMember(.gossip, at: place) }
    }

    /// Sends a member's update to some members at once.
    mutating func announce(_ place: Int, to count: Int) {
        for receiver in randomLive(count, except: place) { send(.gossip, to: table[receiver].card.id, first: [place]) }
    }

    /// Different live members in random order: `count`, or all if there are fewer.
    mutating func randomLive(_ count: Int, except: Int = -1) -> [Int] {
        var chosen: [Int] = []
        let available = live.count - (except > 0 && table[except].livePlace >= 0 ? 1 : 0)
        if count * 2 >= available {
            chosen = live.filter { $0 != except }
            chosen.shuffle(using: &random)
            return Array(chosen.prefix(count))
        }
        while chosen.count < count {
            let place = live[Int.random(in: 0..<live.count, using: &random)]
            if place != except, !chosen.contains(place) { chosen.append(place) }
        }
        return chosen
    }

    // MARK: Full exchange

    mutating func exchangeDigests(at now: Now) {
        nextExchangeAt = now.instant + settings.fullExchangeInterval
        guard table[Self.ownPlace].state != .left, let place = randomLive(1).first else { return }
        send(.digest(digest), to: table[place].card.id)
    }

    /// Sends all updates, this node's first. Only the last page may ask for an answer.
    private mutating func sendPages(to id: NodeID, wantsAnswer: Bool) {
        var page: [Rumour] = []
        var bytesLeft = settings.pageBytesMax
        for place in table.indices where table[place].state != nil {
            let rumour = rumour(place)
            if rumour.encodedBytesMax > bytesLeft || page.count == MembershipMessage.rumoursCountMax {
                effects.append(.send(MembershipMessage(.page(wantsAnswer: false), rumours: page), to: id))
                page = []
                bytesLeft = settings.pageBytesMax
            }
            bytesLeft -= rumour.encodedBytesMax
            page.append(rumour)
        }
        effects.append(.send(MembershipMessage(.page(wantsAnswer: wantsAnswer), rumours: page), to: id))
    }

    /// Tries to connect to one of the dead, or to a contact point that never answered. So the two sides of a split find each other again.
    mutating func reconnect(at now: Now) {
        nextReconnectAt = now.instant + settings.reconnectInterval
        guard table[Self.ownPlace].state != .left else { return }
        let lost = table.indices.filter { !table[$0].isVacant && (table[$0].state ?? .dead) == .dead }
        guard let place = lost.randomElement(using: &random) else { return }
        effects.append(.connect(table[place].card))
        if table[place].state == .dead { send(.digest(digest), to: table[place].card.id, first: [place]) }
    }
}
