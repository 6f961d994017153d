import Testing

@testable import ClusterSimulation

/// The table of kinds of histories.
@Suite struct HistoryKindTests {
    private static let notHarder: Set<HistoryKind> = [
        .clocksJump, .disksFill, .nodeIsCutOff, .clocksAreWrong, .twoProcessesShareID, .replicasLoseRows, .usersBefriend,
        .friendsHideAndBlock, .clientsRepeatCalls, .friendsGroupAndFollow, .backEndsBringFriends, .backEndsRepeatCalls,
        .randomSteps,
    ]

    private func kinds(isHarder: Bool) -> Set<HistoryKind> {
        Set((1...2_000).map { HistoryOptions(seed: $0, isHarder: isHarder).kind })
    }

    @Test("Each kind of history is drawn, and most of them only for harder histories") func draws() {
        #expect(kinds(isHarder: false) == Self.notHarder)
        #expect(kinds(isHarder: true) == Set(HistoryKind.allCases).subtracting([.randomSteps]))
    }

    @Test("The steps of each kind are sorted, and none comes after the faults have ended") func plans() {
        var left = Set(HistoryKind.allCases)
        for seed in 1...2_000 as ClosedRange<UInt64> {
            let options = HistoryOptions(seed: seed, isHarder: seed > 1_000)
            guard left.remove(options.kind) != nil else { continue }
            let times = Plan(options).steps.map(\.at)
            #expect(!times.isEmpty && times == times.sorted() && times.allSatisfy { $0 <= options.activeMilliseconds }, "\(options)")
        }
        #expect(left == [])
    }
}
