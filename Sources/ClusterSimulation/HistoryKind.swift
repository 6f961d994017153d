import PresenceWire

/// A kind of history: a row of a table that composes workloads and faults. `cluster-simulation --kinds NAME` runs its histories.
///
/// The order of the cases is that of the draws: the first row whose draw hits has the history. A new row has a stream of its own. All
/// histories that it does not take then stay the same.
public enum HistoryKind: String, CaseIterable, Sendable {
    case clocksJump, disksFill, nodeIsCutOff, clocksAreWrong, twoProcessesShareID, replicasLoseRows
    case usersBefriend, friendsHideAndBlock, clientsRepeatCalls, friendsGroupAndFollow, backEndsBringFriends, backEndsRepeatCalls
    case randomSteps
    // Only harder histories are of the following kinds.
    case deathIsLearnedInTurn, nodeRestartsCutOff, linksBreakTwice, changeIsLostWithLink, lastNodeStops, awayUsersAreRemoved
    case oneNodeEnds, clientsReconnect, usersHideAndShow, twoNodesDie, nodeReturnsFromSplit, nodesLeaveUntilOne, lastLinkBreaks
    case visibilityIsSetTwice, clusterSplitsInHalves, registrationsWait, nodeRestartsWithSlowDisk

    /// Whether histories of this kind cross friends, blocks, visibilities, lists and sessions: see ``CrossPlan``.
    var hasCrossPlan: Bool { self == .friendsHideAndBlock || readsGroups }
    /// Whether clients read groups and blocklists in histories of this kind.
    var readsGroups: Bool { self == .friendsGroupAndFollow || self == .backEndsBringFriends }

    /// A row of the table.
    struct Row {
        typealias Script = (HistoryOptions) -> [Step]

        let draw: Draw
        /// Sets the options. The generator of the draw goes on, and draws the details.
        let setUp: (inout HistoryOptions, inout SplitMix64) -> Void
        /// The workloads and faults. Their steps of the same moment come in this order.
        let scripts: [Script]
        /// Whether faults also come at random times.
        let hasRandomFaults: Bool
        /// The least nodes of a history of this kind.
        let nodesMin: Int

        init(
            _ draw: Draw, _ setUp: @escaping (inout HistoryOptions, inout SplitMix64) -> Void, _ scripts: [Script],
            hasRandomFaults: Bool = false, nodesMin: Int = 1
        ) {
            (self.draw, self.setUp, self.scripts) = (draw, setUp, scripts)
            (self.hasRandomFaults, self.nodesMin) = (hasRandomFaults, nodesMin)
        }
    }

    /// The draw that makes a history one of a kind, unless it is one of a kind before.
    enum Draw {
        /// One history in so many. `after` draws of the stream decide about rows before, and `hit` tells apart rows that share a draw.
        case once(in: Int, of: UInt64, after: Int = 0, hit: Int = 0)
        /// One of five rows that share their draws: in one harder history of eight, and in one other of sixteen.
        case machineFault(Int)
        case unlessHarder

        /// The generator of the details if the draw hits; nil if it misses.
        func details(_ options: HistoryOptions) -> SplitMix64? {
            let seed = SplitMix64(seed: options.seed)
            switch self {
            case .once(let count, let stream, let after, let hit):
                var random = seed.split(stream)
                for _ in 0..<after { _ = random.next() }
                return random.number(in: 0...count - 1) == hit ? random : nil
            case .machineFault(let number):
                var random = seed.split(MachineFaultPlan.stream)
                guard random.isOnce(in: options.isHarder ? 8 : 16) else { return nil }
                let first = random.number(in: 0...2)
                var later = random.split(353)
                let drawn = later.isOnce(in: 3) ? (later.isOnce(in: 2) ? 3 : 4) : first
                return drawn == number ? random : nil
            case .unlessHarder: return options.isHarder ? nil : seed
            }
        }
    }

    /// The kind of a history, and the generator of its details.
    static func drawn(for options: HistoryOptions) -> (kind: HistoryKind, details: SplitMix64) {
        for kind in allCases where options.nodesCount >= kind.row.nodesMin {
            if let details = kind.row.draw.details(options) { return (kind, details) }
        }
        preconditionFailure("the last row takes every history")
    }

    /// The workloads of nearly all kinds. Links that are slow up to the end admit no reconnections: the last changes would arrive late.
    private static var usual: [Row.Script] { [VisibilityChanges.steps, Reconnections.steps] }

    /// The table. A policy that ``Publications`` sets would switch the removal of users off, and make friend lists long.
    var row: Row {
        let (usual, publications) = (Self.usual, Publications.steps)
        return switch self {
        case .clocksJump: Row(.machineFault(0), ClockJumps.setUp, usual + [publications, ClockJumps.steps])
        case .disksFill: Row(.machineFault(1), ClockJumps.setUp, usual + [publications, FullDisks.steps])
        case .nodeIsCutOff: Row(.machineFault(2), CutOffNode.setUp, usual + [publications, CutOffNode.steps])
        case .clocksAreWrong: Row(.machineFault(3), WrongClocks.setUp, usual + [publications, WrongClocks.steps])
        case .twoProcessesShareID: Row(.machineFault(4), SecondProcess.setUp, usual + [publications, SecondProcess.steps])
        case .replicasLoseRows: Row(.once(in: 24, of: 360), LostRows.setUp, usual + [publications, LostRows.steps])
        case .usersBefriend:
            Row(
                .once(in: 12, of: 370), ChainPlan.setUp, usual + [MachineFaultPlan.steps, ChainPlan.steps, ProfilePlan.steps],
                hasRandomFaults: true)
        case .friendsHideAndBlock:
            Row(.once(in: 16, of: 3_681), CrossPlan.setUp, usual + [CrossPlan.steps, HiddenProfilePlan.steps], hasRandomFaults: true)
        case .clientsRepeatCalls: Row(.once(in: 24, of: 135_873), RepeatPlan.setUp, usual + [RepeatPlan.steps])
        case .friendsGroupAndFollow:
            Row(
                .once(in: 24, of: 129_561), CrossPlan.setUp, usual + [GroupAndFollowPlan.steps, HiddenProfilePlan.steps],
                hasRandomFaults: true)
        case .backEndsBringFriends:
            Row(
                .once(in: 32, of: 12_719_094), BackEndPlan.setUp, usual + [BackEndPlan.steps, HiddenProfilePlan.steps],
                hasRandomFaults: true)
        case .backEndsRepeatCalls: Row(.once(in: 48, of: 12_777_179), RepeatPlan.setUp, usual + [RepeatPlan.steps])
        case .randomSteps: Row(.unlessHarder, { _, _ in }, usual + [publications, MachineFaultPlan.steps], hasRandomFaults: true)
        case .deathIsLearnedInTurn:
            Row(.once(in: 24, of: 40), DeathLearnedInTurn.setUp, [VisibilityChanges.steps, DeathLearnedInTurn.steps, publications])
        case .nodeRestartsCutOff:
            Row(.once(in: 24, of: 40, after: 1), RestartWhileCutOff.setUp, usual + [RestartWhileCutOff.steps, publications])
        case .linksBreakTwice:
            Row(.once(in: 24, of: 30, hit: 2), LinksBreakTwice.setUp, usual + [LinksBreakTwice.steps, publications])
        case .changeIsLostWithLink:
            Row(
                .once(in: 24, of: 30, hit: 3), ChangeLostWithLink.setUp,
                [VisibilityChanges.steps, ChangeLostWithLink.steps, publications])
        case .lastNodeStops: Row(.once(in: 24, of: 30, hit: 4), LastNodeStops.setUp, usual + [publications, LastNodeStops.steps])
        case .awayUsersAreRemoved: Row(.once(in: 12, of: 341), Removals.setUp, [VisibilityChanges.steps, Removals.steps])
        case .oneNodeEnds: Row(.once(in: 10, of: 8), NodeEnd.setUp, usual + [NodeEnd.steps, publications], nodesMin: 3)
        case .clientsReconnect:
            Row(.once(in: 10, of: 8, after: 1), Reconnections.setUp, usual + [publications], hasRandomFaults: true)
        case .usersHideAndShow:
            Row(.once(in: 4, of: 8, after: 2), HideAndShow.setUp, usual + [HideAndShow.steps, publications], hasRandomFaults: true)
        case .twoNodesDie: Row(.once(in: 6, of: 10), TwoDeaths.setUp, usual + [TwoDeaths.steps, publications])
        case .nodeReturnsFromSplit:
            Row(.once(in: 5, of: 10, after: 1), ReturnFromSplit.setUp, usual + [ReturnFromSplit.steps, publications])
        case .nodesLeaveUntilOne: Row(.once(in: 8, of: 10, after: 2), NodesLeave.setUp, usual + [NodesLeave.steps, publications])
        case .lastLinkBreaks: Row(.once(in: 5, of: 10, after: 3), LastLinkBreak.setUp, usual + [LastLinkBreak.steps, publications])
        case .visibilityIsSetTwice:
            Row(.once(in: 3, of: 16), VisibilitySetTwice.setUp, usual + [VisibilitySetTwice.steps, publications])
        case .clusterSplitsInHalves:
            Row(.once(in: 2, of: 16, after: 1), SplitInHalves.setUp, usual + [SplitInHalves.steps, publications])
        case .registrationsWait:
            Row(.once(in: 2, of: 16, after: 2), WaitingRegistrations.setUp, usual + [WaitingRegistrations.steps, publications])
        case .nodeRestartsWithSlowDisk:
            Row(.once(in: 1, of: 16, after: 2), RestartsWithSlowDisks.setUp, usual + [RestartsWithSlowDisks.steps, publications])
        }
    }
}
