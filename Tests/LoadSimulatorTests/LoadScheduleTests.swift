import PresenceWire
import Testing

@testable import LoadSimulator

@Suite struct LoadScheduleTests {
    private static func schedule(_ scenario: Scenario = .mesh) -> LoadSchedule {
        var options = SimulationOptions(targets: [SimulationOptions.Target(host: "a", port: 1)])
        options.scenario = scenario
        (options.users, options.loginRate, options.rate, options.duration, options.settle) = (100, 10, 50, 20, 5)
        return LoadSchedule(options)
    }

    @Test("Users log in at the login rate, each once")
    func logins() {
        var schedule = Self.schedule()
        #expect(schedule.takeLogins(at: 0) == 0..<1)
        #expect(schedule.takeLogins(at: 0.95) == 1..<10)
        #expect(schedule.takeLogins(at: 0.95).isEmpty && !schedule.hasEveryLoginBegun)
        #expect(schedule.takeLogins(at: 1_000) == 10..<100)
        #expect(schedule.hasEveryLoginBegun)
    }

    @Test("In a login storm every user logs in within two seconds")
    func loginStorm() {
        var schedule = Self.schedule(.loginStorm)
        #expect(schedule.takeLogins(at: 1).count == 51)
        #expect(schedule.takeLogins(at: 2).upperBound == 100)
    }

    @Test("Changes come at the rate, at times before now, and none after the end of the load")
    func changes() {
        var schedule = Self.schedule()
        var random = SplitMix64(seed: 1)
        #expect(schedule.takeChange(at: 5, using: &random) == nil)
        #expect(schedule.beginLoad(at: 10) == true)
        #expect(schedule.beginLoad(at: 11) == false)
        var times: [Double] = []
        while let time = schedule.takeChange(at: 20, using: &random) { times.append(time) }
        #expect(times.first == 10 && times.allSatisfy { $0 <= 20 } && times == times.sorted())
        #expect(!schedule.isLoadOver(at: 29.9) && schedule.isLoadOver(at: 30))
        while let time = schedule.takeChange(at: 1_000, using: &random) { times.append(time) }
        #expect(times.allSatisfy { $0 < 30 })
        #expect((800...1_200).contains(times.count), "50 a second for 20 s")
    }

    @Test("The phases follow one another, and the end comes once")
    func phases() {
        var schedule = Self.schedule()
        #expect(schedule.phase == .login)
        _ = schedule.beginLoad(at: 10)
        #expect(schedule.phase == .load)
        #expect(schedule.beginSettle(at: 25) == 15, "the load was stopped early")
        #expect(schedule.phase == .settle && !schedule.beginLoad(at: 26))
        #expect(!schedule.isSettleOver(at: 30) && schedule.isSettleOver(at: 30.1))
        #expect(schedule.end() && !schedule.end())
        #expect(schedule.phase == .over)
    }

    @Test("The time to converge counts from the end of the load, or from the return of a node if that was later")
    func convergence() {
        var schedule = Self.schedule()
        _ = schedule.beginLoad(at: 0)
        _ = schedule.beginSettle(at: 20)
        #expect(schedule.secondsToConverge(at: 23, lastReturnAt: nil) == 3)
        #expect(schedule.secondsToConverge(at: 23, lastReturnAt: 15) == 3)
        #expect(schedule.secondsToConverge(at: 23, lastReturnAt: 22) == 1)
    }
}
