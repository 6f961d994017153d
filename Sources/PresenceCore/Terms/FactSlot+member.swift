import PresenceWire

/// A disk of a replica set: it promises terms, takes content, and learns what is installed.
extension FactSlot {
    /// Promises a term to its claimant, unless a larger one is promised or the claimant counts on an old replica set.
    mutating func onClaim(_ term: Term, _ base: ReplicaSet?, from disk: DiskID, _ hash: () -> UInt64, _ outputs: inout [Output]) {
        guard let base else {
            if let installed = record.installed { outputs.append(.send(.outdated(installed), to: disk)) }
            return
        }
        if let installed = record.installed, installed.term > base.term { return outputs.append(.send(.outdated(installed), to: disk)) }
        guard term >= record.promised else { return outputs.append(.send(.refusal(promised: record.promised), to: disk)) }
        promise(term, &outputs)
        modify { _ = $0.learn(base) }
        save(.promise(ownPromise(of: term, base: base, hash)), to: disk, &outputs)
    }

    /// The promise of a term, with the content that this disk holds.
    func ownPromise(of term: Term, base: ReplicaSet, _ hash: () -> UInt64) -> Promise {
        Promise(term: term, base: base.term, accepted: record.accepted, content: record.content, hash: hash())
    }

    /// Accepts the replica set of a term, and fetches its content if this disk is in the set and has other rows.
    mutating func onInstall(_ installation: Installation, from disk: DiskID, _ hash: () -> UInt64, _ outputs: inout [Output]) {
        let (set, base) = (installation.set, installation.base)
        guard set.term >= record.promised else { return outputs.append(.send(.refusal(promised: record.promised), to: disk)) }
        promise(set.term, &outputs)
        modify { _ = $0.learn(base) }
        // A repeated message may arrive after the term was installed.
        guard record.installed?.term != set.term else { return }
        let hasRows = record.content == set.term || !set.contains(own) || hash() == installation.hash
        guard hasRows else { return fetch(set, from: disk, then: .stored(set.term), &outputs) }
        let isMember = set.contains(own)
        modify {
            $0.accepted = set
            if isMember { $0.content = set.term }
        }
        rest()
        save(.stored(set.term), to: disk, &outputs)
    }

    /// Learns that a term is installed. A disk that is not in its set deletes its rows, and one that missed the content fetches it.
    mutating func onInstalled(_ set: ReplicaSet, from disk: DiskID, _ hash: () -> UInt64, _ outputs: inout [Output]) {
        guard set.term >= record.promised else {
            outputs.append(.send(.refusal(promised: record.promised), to: disk))
            return learn(set, hash, &outputs)
        }
        promise(set.term, &outputs)
        modify { _ = $0.learn(set) }
        if set.contains(own), record.content != set.term {
            save(nil, to: own, &outputs)
            return fetch(set, from: disk, then: .heard(set.term), &outputs)
        }
        if !set.contains(own), record.content != nil {
            modify { $0.content = nil }
            outputs.append(.deleteContent)
            rest()
        }
        save(.heard(set.term), to: disk, &outputs)
    }
}
