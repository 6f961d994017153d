import PresenceWire

/// The random streams that determine the kind of a history, and then its details.
///
/// A group of kinds has a stream of its own. A new group that is drawn last leaves the histories of all others unchanged.
struct KindDraws {
    var machine: SplitMix64
    var inheritance: SplitMix64
    var lossy: SplitMix64
    var removal: SplitMix64
    var apart: SplitMix64
    var deaths: SplitMix64
    var owners: SplitMix64

    init(seed: UInt64) {
        func stream(_ number: UInt64) -> SplitMix64 { SplitMix64(seed: seed).split(number) }
        (machine, inheritance, lossy, removal) = (stream(350), stream(40), stream(30), stream(341))
        (apart, deaths, owners) = (stream(8), stream(10), stream(16))
    }

    /// Draws the kind of a history. The first group that is drawn decides.
    ///
    /// - Parameters:
    ///   - seed: the seed of the streams. Two kinds have streams that nothing else uses.
    ///   - nodesCount: the number of nodes before the kind changes it.
    mutating func kind(ofSeed seed: UInt64, isHarder: Bool, nodesCount: Int) -> HistoryOptions.Kind {
        if let kind = machineFault(isHarder: isHarder) { return kind }
        var lostRows = SplitMix64(seed: seed).split(360)
        if lostRows.isOnce(in: 24) { return .lostRows }
        if ChainPlan.isDrawn(seed: seed) { return .befriending }
        if CrossPlan.isDrawn(seed: seed) { return .crossing }
        if RepeatPlan.isDrawn(seed: seed) { return .repeating }
        guard isHarder else { return .random }
        return inheritanceKind() ?? lossyKind() ?? (removal.isOnce(in: 12) ? .removal : nil)
            ?? apartKind(nodesCount: nodesCount) ?? deathKind() ?? ownerKind()
    }

    /// The kinds in which one machine has a fault: one harder history of eight, and one other of sixteen.
    private mutating func machineFault(isHarder: Bool) -> HistoryOptions.Kind? {
        guard machine.isOnce(in: isHarder ? 8 : 16) else { return nil }
        let kind: HistoryOptions.Kind = [.clockJump, .fullDisk, .cutOff][machine.number(in: 0...2)]
        var later = machine.split(353)
        return later.isOnce(in: 3) ? (later.isOnce(in: 2) ? .wrongClocks : .twin) : kind
    }

    private mutating func inheritanceKind() -> HistoryOptions.Kind? {
        if inheritance.isOnce(in: 24) { return .inheritance }
        return inheritance.isOnce(in: 24) ? .rejoining : nil
    }

    private mutating func lossyKind() -> HistoryOptions.Kind? {
        switch lossy.number(in: 0...23) {
        case 2: .outdated
        case 3: .overtaken
        case 4: .stopping
        default: nil
        }
    }

    private mutating func apartKind(nodesCount: Int) -> HistoryOptions.Kind? {
        if apart.isOnce(in: 10), nodesCount > 2 { return .departure }
        if apart.isOnce(in: 10) { return .returning }
        return apart.isOnce(in: 4) ? .seeking : nil
    }

    private mutating func deathKind() -> HistoryOptions.Kind? {
        if deaths.isOnce(in: 6) { return .loss }
        if deaths.isOnce(in: 5) { return .split }
        if deaths.isOnce(in: 8) { return .shrinking }
        return deaths.isOnce(in: 5) ? .late : nil
    }

    private mutating func ownerKind() -> HistoryOptions.Kind {
        if owners.isOnce(in: 3) { return .contested }
        if owners.isOnce(in: 2) { return .halved }
        return owners.isOnce(in: 2) ? .succession : .hurry
    }
}
