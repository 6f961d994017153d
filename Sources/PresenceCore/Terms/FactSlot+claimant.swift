import PresenceWire

/// A node that claims a term: it asks for promises, collects what the disks hold, and installs it at the disks of the ring.
extension FactSlot {
    /// The promises of a term.
    struct Claim: Equatable {
        let term: Term
        /// The last installed replica set that this node knows. A majority of it must promise the term; nil while the node knows none.
        let base: ReplicaSet?
        /// The disks that were asked.
        fileprivate(set) var asked: [DiskID]
        /// In the order of the disks.
        fileprivate(set) var promises: [Answer] = []

        struct Answer: Equatable {
            let disk: DiskID
            let promise: Promise
        }

        var answered: [DiskID] { promises.map(\.disk) }

        /// The replica set of the largest term that a disk of the base has accepted. It may be installed already.
        ///
        /// Its disks must promise the term too, and the claimant installs this set and not the ring's: else two sets might each have a
        /// majority of their own.
        var begun: ReplicaSet? {
            let accepted = promises.filter { base?.contains($0.disk) == true }.compactMap(\.promise.accepted)
            return accepted.filter { $0.term > base?.term ?? .zero }.max { $0.term < $1.term }
        }

        /// The disks whose rows together are the content: those with the content of the largest term, each content once.
        func sources(own: DiskID) -> [DiskID] {
            guard let newest = promises.compactMap(\.promise.content).max() else { return [] }
            let holders = promises.filter { $0.promise.content == newest }
            var hashes: Set<UInt64> = []
            // The rows of this disk need no transfer.
            return (holders.filter { $0.disk == own } + holders.filter { $0.disk != own })
                .filter { hashes.insert($0.promise.hash).inserted }.map(\.disk)
        }
    }

    /// A claim with its promises, and the disks whose rows are being fetched.
    struct Collection: Equatable {
        let claim: Claim
        let sources: [DiskID]
    }

    /// The disks that have the content and the set of a new term.
    struct Installing: Equatable {
        let set: ReplicaSet
        let base: ReplicaSet
        let hash: UInt64
        fileprivate(set) var stored: [DiskID] = []
        /// Whether the disks of the base that are not in the new set were asked to accept the set. They are asked last.
        fileprivate(set) var hasAskedBase = false

        var message: TermMessage { .install(Installation(set: set, base: base, hash: hash)) }
    }

    /// A term in which this node decides.
    struct Tenure: Equatable {
        let set: ReplicaSet
        /// Disks of this set, and of the one before, that have not confirmed that the term is installed.
        fileprivate(set) var unheard: [DiskID]
    }

    // MARK: Claiming

    /// Claims the next term. It ends the present one.
    mutating func claim(_ hash: () -> UInt64, _ outputs: inout [Output]) {
        let term = nextTerm
        see(term)
        leave(&outputs)
        guard let base = record.installed else {
            enter(.claiming(Claim(term: term, base: nil, asked: informants)))
            for disk in informants { outputs.append(.send(.claim(term, base: nil), to: disk)) }
            return
        }
        promise(term, &outputs)
        let asked = (base.disks + [own]).filter { !removed.contains($0) || $0 == own }
        enter(.claiming(Claim(term: term, base: base, asked: asked)))
        saveOwnPromise(of: term, base: base, hash, &outputs)
        for disk in asked where disk != own { outputs.append(.send(.claim(term, base: base), to: disk)) }
    }

    /// Promises this node's own term. Without it a restarted node could claim the same term twice.
    private mutating func saveOwnPromise(of term: Term, base: ReplicaSet, _ hash: () -> UInt64, _ outputs: inout [Output]) {
        save(.promise(ownPromise(of: term, base: base, hash)), to: own, &outputs)
    }

    mutating func onPromise(_ promise: Promise, from disk: DiskID, _ outputs: inout [Output]) {
        guard case .claiming(var claim) = state, claim.term == promise.term, claim.base?.term == promise.base else { return }
        guard claim.asked.contains(disk), !claim.answered.contains(disk), !removed.contains(disk) else { return }
        claim.promises.append(Claim.Answer(disk: disk, promise: promise))
        claim.promises.sort { $0.disk < $1.disk }
        enter(.claiming(claim))
        advance(&outputs)
    }

    /// Goes on if enough disks have answered. Called after each answer, and after the removal of a disk.
    mutating func advance(_ outputs: inout [Output]) {
        switch state {
        case .none, .replica, .collecting: break
        case .claiming(let claim): advance(claim, &outputs)
        case .installing(let installing): advance(installing, &outputs)
        case .active(var tenure):
            tenure.unheard.removeAll { removed.contains($0) }
            enter(.active(tenure))
        }
    }

    private mutating func advance(_ claim: Claim, _ outputs: inout [Output]) {
        var claim = claim
        guard let base = claim.base, claim.answered.contains(own), base.hasMajority(of: claim.answered, without: removed) else { return }
        if let begun = claim.begun {
            let unasked = begun.disks.filter { !claim.asked.contains($0) && !removed.contains($0) }
            claim.asked += unasked
            enter(.claiming(claim))
            for disk in unasked { outputs.append(.send(.claim(claim.term, base: base), to: disk)) }
            guard begun.hasMajority(of: claim.answered, without: removed) else { return }
        }
        let sources = claim.sources(own: own)
        enter(.collecting(Collection(claim: claim, sources: sources)))
        outputs.append(.collect(claim.term, from: sources))
    }

    /// Takes back the promise of a disk whose rows cannot be fetched: another disk may hold them too.
    mutating func lose(_ disk: DiskID, _ outputs: inout [Output]) {
        var claim: Claim
        switch state {
        case .claiming(let open): claim = open
        case .collecting(let collection) where collection.sources.contains(disk): claim = collection.claim
        case .none, .replica, .collecting, .installing, .active: return
        }
        guard disk != own else { return }
        claim.promises.removeAll { $0.disk == disk }
        enter(.claiming(claim))
        advance(&outputs)
    }

    mutating func onRefusal(_ promised: Term, _ outputs: inout [Output]) {
        see(promised)
        if let ownTerm = state.ownTerm, ownTerm < promised { leave(&outputs) }
    }

    mutating func onOutdated(_ set: ReplicaSet, _ hash: () -> UInt64, _ outputs: inout [Output]) {
        see(set.term)
        learn(set, hash, &outputs)
    }

    /// Learns that a term is installed. A claim that counts on an older set starts again.
    mutating func learn(_ set: ReplicaSet, _ hash: () -> UInt64, _ outputs: inout [Output]) {
        if modify({ $0.learn(set) }) { save(nil, to: own, &outputs) }
        let base: ReplicaSet?
        switch state {
        case .claiming(let claim): base = claim.base
        case .collecting(let collection): base = collection.claim.base
        case .installing, .active:
            if let ownTerm = state.ownTerm, ownTerm < record.promised { leave(&outputs) }
            return
        case .none, .replica: return
        }
        guard let installed = record.installed, installed.term > base?.term ?? .zero || base == nil else { return }
        claim(hash, &outputs)
    }

    // MARK: Installing

    /// Installs the collected content.
    mutating func install(_ claim: Claim, _ hash: UInt64, _ outputs: inout [Output]) {
        guard let base = claim.base else { return }
        let set = ReplicaSet(term: claim.term, disks: claim.begun?.disks ?? ring)
        enter(.installing(Installing(set: set, base: base, hash: hash)))
        outputs.append(.keep(claim.term))
        let isInvolved = set.contains(own) || base.contains(own)
        modify {
            if isInvolved { $0.accepted = set }
            $0.content = set.term
        }
        for disk in set.disks where disk != own && !removed.contains(disk) {
            outputs.append(.send(.install(Installation(set: set, base: base, hash: hash)), to: disk))
        }
        save(.stored(set.term), to: own, &outputs)
    }

    mutating func onStored(_ term: Term, from disk: DiskID, _ outputs: inout [Output]) {
        guard case .installing(var installing) = state, installing.set.term == term, !installing.stored.contains(disk) else { return }
        installing.stored.append(disk)
        enter(.installing(installing))
        advance(installing, &outputs)
    }

    private mutating func advance(_ installing: Installing, _ outputs: inout [Output]) {
        var installing = installing
        let (set, base) = (installing.set, installing.base)
        guard installing.stored.contains(own), set.hasMajority(of: installing.stored, without: removed) else { return }
        if !installing.hasAskedBase {
            installing.hasAskedBase = true
            enter(.installing(installing))
            for disk in base.disks where !set.contains(disk) && disk != own && !removed.contains(disk) {
                outputs.append(.send(installing.message, to: disk))
            }
        }
        guard base.hasMajority(of: installing.stored, without: removed) else { return }
        modify { _ = $0.learn(set) }
        save(nil, to: own, &outputs)
        let unheard = Set(base.disks + set.disks).subtracting([own]).subtracting(removed).sorted()
        for disk in unheard { outputs.append(.send(.installed(set), to: disk)) }
        // The set was begun by another claimant, and the ring names other disks: the next term is installed there.
        guard set.disks == ring.sorted() else { return claim({ installing.hash }, &outputs) }
        enter(.active(Tenure(set: set, unheard: unheard)))
        outputs.append(.activate(set.term))
    }

    /// Asks the disks of an active term whether they have promised a larger one: by another ring another node may have claimed the slot.
    mutating func confirm(_ tenure: Tenure, _ outputs: inout [Output]) {
        let unheard = tenure.set.disks.filter { $0 != own && !removed.contains($0) }
        enter(.active(Tenure(set: tenure.set, unheard: unheard)))
        for disk in unheard { outputs.append(.send(.installed(tenure.set), to: disk)) }
    }

    mutating func onHeard(_ term: Term, from disk: DiskID) {
        guard case .active(var tenure) = state, tenure.set.term == term else { return }
        tenure.unheard.removeAll { $0 == disk }
        enter(.active(tenure))
    }

    // MARK: Repeating

    /// Sends again what has no answer, and claims again what another node has taken.
    mutating func tick(_ hash: () -> UInt64, _ outputs: inout [Output]) {
        switch state {
        case .none, .replica: if isOwner { claim(hash, &outputs) }
        case .claiming(let claim):
            if let base = claim.base, !claim.answered.contains(own) { saveOwnPromise(of: claim.term, base: base, hash, &outputs) }
            for disk in claim.asked where disk != own && !claim.answered.contains(disk) && !removed.contains(disk) {
                outputs.append(.send(.claim(claim.term, base: claim.base), to: disk))
            }
        case .collecting(let collection): outputs.append(.collect(collection.claim.term, from: collection.sources))
        case .installing(let installing):
            let asked = installing.set.disks + (installing.hasAskedBase ? installing.base.disks : [])
            for disk in Set(asked).subtracting(installing.stored + removed + [own]).sorted() {
                outputs.append(.send(installing.message, to: disk))
            }
            if !installing.stored.contains(own) { save(.stored(installing.set.term), to: own, &outputs) }
        case .active(let tenure):
            save(nil, to: own, &outputs)
            for disk in tenure.unheard { outputs.append(.send(.installed(tenure.set), to: disk)) }
        }
    }
}
