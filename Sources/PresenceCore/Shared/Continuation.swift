import PresenceWire

/// An action that waits for the rows of a change: a node carries it out once two disks have them.
///
/// A node that dies may lose a row that no second disk has. Nobody may have been told of it before.
enum Continuation {
    /// Send a change of a subscription list to a gateway, before the answers. If the write fails, it goes without the versions of the
    /// answers.
    case listUpdate(ListUpdate, to: PeerIndex)
    /// Answer a request about a user.
    case answer(id: UInt64, of: UserID, Answer, to: PeerIndex)
    /// Take a step of the relationship chain, after the answers.
    case step(ChainStep)
    /// Acknowledge rows that this node keeps for another one. It waits for the disk of this node alone.
    case acknowledgement(ticket: UInt64, to: PeerIndex)

    /// Whether it waits for a second disk.
    var waitsForReplicas: Bool {
        switch self {
        case .listUpdate, .answer, .step: true
        case .acknowledgement: false
        }
    }
}

/// The parts of a list of continuations, each in order.
extension [Continuation] {
    /// Whether one of them waits for a second disk.
    var waitForReplicas: Bool { contains { $0.waitsForReplicas } }

    /// The changes of subscription lists, each with its receiver.
    var listUpdates: [(peer: PeerIndex, listUpdate: ListUpdate)] {
        compactMap { if case .listUpdate(let listUpdate, let peer) = $0 { (peer, listUpdate) } else { nil } }
    }

    /// The answers, each with its receiver, and with the user of its request.
    var answers: [(peer: PeerIndex, id: UInt64, user: UserID, answer: Answer)] {
        compactMap { if case .answer(let id, let user, let answer, let peer) = $0 { (peer, id, user, answer) } else { nil } }
    }

    /// The steps of the relationship chain.
    var steps: [ChainStep] { compactMap { if case .step(let step) = $0 { step } else { nil } } }

    /// Removes and returns the acknowledgements.
    mutating func takeAcknowledgements() -> [(peer: PeerIndex, ticket: UInt64)] {
        let taken: [(peer: PeerIndex, ticket: UInt64)] = compactMap {
            if case .acknowledgement(let ticket, let peer) = $0 { (peer, ticket) } else { nil }
        }
        if !taken.isEmpty { removeAll { if case .acknowledgement = $0 { true } else { false } } }
        return taken
    }

    /// Changes the last answer, if it is the one to a request. Returns the changed answer; nil if it is another one.
    mutating func changeLastAnswer(to request: UInt64, for receiver: PeerIndex, _ change: (Answer) -> Answer) -> Answer? {
        let last = lastIndex { if case .answer = $0 { true } else { false } }
        guard let last, case .answer(id: request, let user, let answer, to: receiver) = self[last] else { return nil }
        let changed = change(answer)
        self[last] = .answer(id: request, of: user, changed, to: receiver)
        return changed
    }
}

/// An answer or a step that changes nothing, but says what rows of `users` say. It leaves when those rows are on two disks.
struct DeferredContinuation {
    /// An action that may rest on earlier rows.
    enum Action {
        case answer(id: UInt64, of: UserID, Answer, to: PeerIndex)
        case step(ChainStep)

        /// The action as one that waits with the rows of a write.
        var continuation: Continuation {
            switch self {
            case .answer(let id, let user, let answer, let peer): .answer(id: id, of: user, answer, to: peer)
            case .step(let step): .step(step)
            }
        }
    }

    let users: [UserID]
    let action: Action
}
