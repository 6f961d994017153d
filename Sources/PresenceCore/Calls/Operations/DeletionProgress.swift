import PresenceWire

/// The progress of one `deleteUser` call: the step whose answers it waits for, and the step that follows.
///
/// It asks the user's owner for an earlier deletion, counts the facts about the user at all nodes, has the sessions end, has the owner drop
/// the user's own facts, and has all nodes remove what they hold about the user. It sends nothing: see ``DeleteUser``.
struct DeletionProgress {
    /// A step that the call takes next.
    enum Step {
        /// Ask the user's owner.
        case ask(OwnerOperation)
        /// Ask all nodes for what they hold about the user.
        case search(MentionRequest)
        /// Answer the call.
        case finish(CallAnswer)
    }

    private enum Phase {
        /// Asks the owner for an earlier deletion.
        case finding
        /// Counts what all nodes hold about the user.
        case counting(Round)
        /// Ends the user's sessions, and voids the tokens.
        case kicking
        /// Has the owner drop the user's own facts.
        case beginning
        /// Has all nodes remove what they hold about the user.
        case removing(Round, of: Pass)
        /// Has the owner end the deletion.
        case ending
    }

    /// One question to all nodes, which search from a slot on.
    private struct Round {
        var mentions: [Mention] = []
        /// The first slot that a node has not searched; nil if every node has searched all.
        var end: Slot?

        mutating func add(_ answer: MentionAnswer) {
            mentions += answer.mentions
            if let next = answer.next { end = min(end ?? .max, next) }
        }

        /// The facts before the next round. A node that has searched further repeats its later slots.
        var counted: [Mention] { mentions.filter { mention in end.map { mention.user.slot < $0 } ?? true } }
    }

    /// One search of all slots.
    private struct Pass {
        let number: Int
        /// The ring at its begin.
        let ring: UInt64
        var hasFound = false
    }

    /// Most passes of one call. With more than that, others add the user faster than nodes remove it.
    private static let passesMax = 5

    private var phase = Phase.finding
    /// The deletion, once the owner has written it.
    private(set) var deletion: Deletion?
    /// The facts that were found, by the number of their kind.
    private var counts: [UInt8: UInt64] = [:]

    /// The answer to a call whose time is over: the receipt, if the deletion has begun and goes on without the call.
    var answerOfTimeout: CallAnswer {
        // Nobody goes on with the search that a repetition has begun after the end of the deletion.
        guard let deletion, deletion.completedAt == nil else { return .refused(.unavailable.afterPassingOn) }
        return .userDeleted(deletion)
    }

    /// Takes an answer of the user's owner.
    mutating func take(_ answer: DeletionAnswer, ring: UInt64) -> Step {
        if let deletion = answer.deletion { self.deletion = deletion }
        switch (phase, answer.deletion) {
        // Since the end of the deletion, others may have named the user again.
        case (.finding, let deletion?) where deletion.completedAt != nil: return beginPass(1, ring: ring)
        case (_, let deletion?) where deletion.completedAt != nil: return .finish(.userDeleted(deletion))
        case (.finding, nil):
            for fact in answer.facts { counts[fact.kind.rawValue, default: 0] += fact.count }
            phase = .counting(Round())
            return .search(MentionRequest(from: 0, removes: false))
        case (.finding, let deletion?) where deletion.sweptAt != nil: return end()
        case (.finding, .some), (.beginning, .some): return beginPass(1, ring: ring)
        // Events wait for the app's webhook. The owner goes on later.
        case (.ending, let deletion?): return .finish(.userDeleted(deletion))
        // The user has come back meanwhile.
        case (.beginning, nil), (.ending, nil), (.counting, _), (.kicking, _), (.removing, _):
            return .finish(.refused(.unavailable.afterPassingOn))
        }
    }

    /// The user's sessions have ended.
    ///
    /// - Parameter nodes: the nodes that were searched.
    mutating func kicked(_ nodes: [String]) -> Step {
        phase = .beginning
        let removed = Row.Kind.ofUsers.compactMap { kind in counts[kind.rawValue].map { Deletion.Removed(kind: kind, count: $0) } }
        return .ask(.deleteUser(.begin(removed: removed, nodes: nodes)))
    }

    /// Takes what one node has found.
    mutating func take(_ answer: MentionAnswer) {
        switch phase {
        case .counting(var round):
            round.add(answer)
            phase = .counting(round)
        case .removing(var round, let pass):
            round.add(answer)
            phase = .removing(round, of: pass)
        case .finding, .kicking, .beginning, .ending: break
        }
    }

    /// All nodes have answered. Returns the next step; nil if none was asked to search.
    mutating func endRound(ring: UInt64) -> Step? {
        switch phase {
        case .counting(let round):
            for mention in round.counted { counts[mention.kind.rawValue, default: 0] += 1 }
            if let next = round.end {
                phase = .counting(Round())
                return .search(MentionRequest(from: next, removes: false))
            }
            phase = .kicking
            return .ask(.kick(reason: SessionEnd.deleted))
        case .removing(let round, var pass):
            if !round.mentions.isEmpty { pass.hasFound = true }
            if let next = round.end {
                phase = .removing(Round(), of: pass)
                return .search(MentionRequest(from: next, removes: true))
            }
            // A decision that was under way may have left something behind this pass, and a user may have moved to a node that was asked
            // before.
            guard pass.hasFound || pass.ring != ring else { return end() }
            return pass.number < Self.passesMax ? beginPass(pass.number + 1, ring: ring) : .finish(answerOfTimeout)
        case .finding, .kicking, .beginning, .ending: return nil
        }
    }

    private mutating func beginPass(_ number: Int, ring: UInt64) -> Step {
        phase = .removing(Round(), of: Pass(number: number, ring: ring))
        return .search(MentionRequest(from: 0, removes: true))
    }

    private mutating func end() -> Step {
        if let deletion, deletion.completedAt != nil { return .finish(.userDeleted(deletion)) }
        phase = .ending
        return .ask(.deleteUser(.end))
    }
}
