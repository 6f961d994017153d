import PresenceCore
import PresenceWire

/// The visibility of a user as far as it is certain, and the statuses that hidden viewers have received since.
struct VisibilityOracle {
    /// The number of changes of the visibility that are under way.
    private var busyCount = 0
    /// The time of the first of those that were under way together last.
    private(set) var busySince: Nanoseconds = .min / 2
    /// The time of the last call that changes it.
    private(set) var askedAt: Nanoseconds = .min / 2
    /// Whether the user has ever hidden from another user.
    private(set) var hasHidden = false
    /// The acknowledged visibility; nil while it is uncertain.
    private(set) var rule: Visibility? = Visibility()
    /// The time of the acknowledgement.
    private(set) var since: Nanoseconds = 0
    /// The visibility before the changes under way, and the time of its acknowledgement.
    private var before: (rule: Visibility?, since: Nanoseconds) = (Visibility(), 0)
    /// The first status that each hidden viewer has received since then.
    private var shown: [Int: JSONValue] = [:]
    /// The version of that status, by viewer.
    private var versions: [Int: String] = [:]
    /// The status that each of them received before a text in it ended by itself.
    private var ended: [Int: JSONValue] = [:]
    /// The status that each viewer was shown first of those from whom the user has certainly hidden since, through all changes.
    private var still: [Int: Still] = [:]

    /// A hidden view, and the time since which calls are answered with it. An earlier call may be answered later with what it found.
    private struct Still {
        let view: JSONValue
        let since: Nanoseconds
    }

    /// Whether a change of the visibility is under way.
    var isBusy: Bool { busyCount > 0 }

    mutating func ask(at now: Nanoseconds) {
        before = busyCount == 0 ? (rule, since) : (nil, now)
        if busyCount == 0 { busySince = now }
        busyCount += 1
        (askedAt, hasHidden, rule, shown, ended) = (now, true, nil, [:], [:])
    }

    /// Ends a change: an old call has been carried out or has failed.
    mutating func end() { busyCount -= 1 }

    /// Ends a change that was refused and has changed nothing.
    mutating func refuse() {
        end()
        if !isBusy { (rule, since) = before }
    }

    /// Records an acknowledged change. A later call wins, whichever is carried out first.
    ///
    /// - Parameter until: the time until which a node may show hidden fields, by the answer.
    mutating func acknowledge(_ rule: Visibility, askedAt: Nanoseconds, at until: Nanoseconds) {
        end()
        if askedAt == self.askedAt { (self.rule, since) = (rule, until) }
    }

    /// Records that a viewer may have seen the user since the viewer was last shown a hidden view.
    mutating func forgetShown(to viewer: Int) { (shown[viewer], ended[viewer], still[viewer]) = (nil, nil, nil) }

    /// Records that the user hides from some viewers, by the blocklist.
    mutating func noteHiding() { hasHidden = true }

    /// Keeps the views of the viewers from whom the user also hides after a change, and forgets the others.
    mutating func keepStill(_ staysHidden: (Int) -> Bool) { still = still.filter { staysHidden($0.key) } }

    /// The error in showing another status to a viewer from whom the user has hidden all the time; nil for none.
    func movedView(_ status: JSONValue, shownTo viewer: Int, askedAt: Nanoseconds) -> String? {
        guard let before = still[viewer], askedAt >= before.since, before.view != status.without("version") else { return nil }
        return "since the user hides from this viewer it was \(before.view)"
    }

    /// Records the view of a viewer from whom the user certainly hides.
    mutating func noteStill(_ status: JSONValue, shownTo viewer: Int) {
        still[viewer] = Still(view: status.without("version"), since: still[viewer]?.since ?? since)
    }

    /// Records that the acknowledged visibility may be lost.
    mutating func doubt() { if hasHidden { (rule, shown, ended, still) = (nil, [:], [:], [:]) } }

    /// The error in showing a status to a hidden viewer; nil for none. `mayEnd` says that a text may end by itself.
    mutating func problem(with status: JSONValue, shownTo viewer: Int, mayEnd: Bool) -> String? {
        let seen = status.without("version")
        if case .string("ONLINE") = status["statusType"] { return "she is shown as ONLINE" }
        let version = status["version"]?.text ?? ""
        guard let before = shown[viewer], before != seen else {
            (shown[viewer], versions[viewer]) = (seen, version)
            return nil
        }
        if mayEnd, status["customStatus"]?.text == "" {
            if before["customStatus"]?.text != "" { ended[viewer] = before }
            (shown[viewer], versions[viewer]) = (seen, version)
            return nil
        }
        // Another device of the viewer is on a node with a slow link. It learns of the end later, and may be the first to receive the
        // status before it.
        let isOlder = version < versions[viewer] ?? ""
        if mayEnd, isOlder, before["customStatus"]?.text == "", ended[viewer] == nil { ended[viewer] = seen }
        if ended[viewer] == seen { return nil }
        return "before it was \(before)"
    }
}

extension SimulatedClient.ReceivedStatus {
    /// Whether a viewer sees no change, although the version is another one.
    ///
    /// - Parameter policy: the visible fields, by the viewer's app.
    func looksLike(_ record: Record, to viewer: UserID, _ policy: Policy, without hidden: [String]) -> Bool {
        let shown = record.shown(by: policy)
        let event = SimulatedClient.Event(EventText.statusChanged(CollectionOfOne(shown), to: viewer, policy, id: 1))
        let names = ["version"] + hidden
        return event?.data["userStatusList"]?.elements.first?.without(names) == status.without(names)
    }
}

extension JSONValue {
    func without(_ names: String...) -> JSONValue { without(names) }

    func without(_ names: [String]) -> JSONValue {
        guard case .object(let members) = self else { return self }
        return .object(members.filter { !names.contains($0.name) })
    }
}
