import PresenceWire

/// How rumours travel: with every message, by gossip while there is something to tell, and in full now and then.
extension Membership {
    /// Another node has sent this on its link.
    public mutating func receive(_ message: MembershipMessage, from sender: NodeID, at now: Now) {
        var isFromPage = false
        if case .page = message.kind { isFromPage = true }
        var outdated: [Int] = []
        for rumour in message.rumours.prefix(MembershipMessage.rumoursCountMax) {
            let hearing = hear(rumour, isFromPage: isFromPage, at: now)
            if hearing == .stale, let place = places[rumour.member.id] { outdated.append(place) }
        }
        // What was told of this node for as long as rumours are told may have been lost on every link to the one that does not know it.
        var isProbe = false
        if case .probe = message.kind { isProbe = true }
        if !isProbe, outdated.contains(Self.ownPlace) { send(.gossip, to: sender, first: [Self.ownPlace]) }
        switch message.kind {
        case .probe(let sequence):
            // Whom we doubt is told so; and an old rumour is answered with what is known instead, a death as a suspicion only (see `hear`).
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

    /// Sends with as many rumours as fit; a suspect is told first that it is one (Lifeguard's buddy system, §IV.C).
    mutating func sendToMember(_ kind: MembershipMessage.Kind, at place: Int) {
        send(kind, to: table[place].card.id, first: isDoubted(place) ? [place] : [])
    }

    /// - Parameters:
    ///   - first: the members whose news comes before all other, and does not count as told.
    ///   - isDeathCertain: whether the deaths among these are told as such, or only as suspicions.
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

    /// Tells something to some members at once.
    mutating func announce(_ place: Int, to count: Int) {
        for receiver in randomLive(count, except: place) { send(.gossip, to: table[receiver].card.id, first: [place]) }
    }

    /// Different live members in random order: `count`, or all there are.
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

    /// Everything that is known, this node first; only the last page may ask for an answer.
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

    /// Tries one of the dead, or a contact point that never answered: the other half of a split is found again this way.
    mutating func reconnect(at now: Now) {
        nextReconnectAt = now.instant + settings.reconnectInterval
        guard table[Self.ownPlace].state != .left else { return }
        let lost = table.indices.filter { !table[$0].isVacant && (table[$0].state ?? .dead) == .dead }
        guard let place = lost.randomElement(using: &random) else { return }
        effects.append(.connect(table[place].card))
        if table[place].state == .dead { send(.digest(digest), to: table[place].card.id, first: [place]) }
    }
}
