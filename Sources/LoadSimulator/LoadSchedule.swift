import Foundation

/// The phases of a simulation, and the times at which users log in and change their status.
///
/// Times are seconds since the simulation began. Changes arrive as a Poisson process. A late server does not slow them down (open loop).
struct LoadSchedule {
    /// Printed as the phase of the progress.
    enum Phase { case login, load, settle, over }

    private(set) var phase = Phase.login
    private let users: Int
    private let loginRate: Double
    private let rate: Double
    private let duration: Double
    private let settle: Double
    private var nextLogin = 0
    private var nextChange = 0.0
    private var loadEndsAt = 0.0
    private var settleBeganAt = 0.0
    /// Whether everything is right, and the simulation waits for unexpected pushes.
    private(set) var isLingering = false

    init(_ options: SimulationOptions) {
        users = options.users
        loginRate = options.scenario == .loginStorm ? max(Double(options.users) / 2, 1) : options.loginRate
        rate = options.rate
        duration = options.duration
        settle = options.settle
    }

    /// Whether every user's first login has begun.
    var hasEveryLoginBegun: Bool { nextLogin == users }

    /// Takes the users whose first login is due.
    mutating func takeLogins(at now: Double) -> Range<Int> {
        let first = nextLogin
        while nextLogin < users, Double(nextLogin) <= now * loginRate { nextLogin += 1 }
        return first..<nextLogin
    }

    /// Begins the load. Returns false when it has begun before.
    mutating func beginLoad(at now: Double) -> Bool {
        guard phase == .login else { return false }
        phase = .load
        nextChange = now
        loadEndsAt = now + duration
        return true
    }

    /// Takes the scheduled time of the next change; nil when none is due.
    mutating func takeChange(at now: Double, using random: inout some RandomNumberGenerator) -> Double? {
        guard nextChange <= now, nextChange < loadEndsAt else { return nil }
        defer { nextChange -= log(Double.random(in: Double.ulpOfOne..<1, using: &random)) / rate }
        return nextChange
    }

    /// Whether the time of the load is over.
    func isLoadOver(at now: Double) -> Bool { now >= loadEndsAt }

    /// Ends the load. Returns the seconds that it lasted.
    mutating func beginSettle(at now: Double) -> Double {
        phase = .settle
        settleBeganAt = now
        return now - (loadEndsAt - duration)
    }

    /// Whether the views had all the time to become right that they may take.
    func isSettleOver(at now: Double) -> Bool { now > settleBeganAt + settle }

    /// The seconds from the end of the load, or from the last return of a node if that was later.
    func secondsToConverge(at now: Double, lastReturnAt: Double?) -> Double { max(now - max(lastReturnAt ?? 0, settleBeganAt), 0) }

    /// Begins the wait before the end. Returns false when it had begun before.
    mutating func beginLinger() -> Bool {
        defer { isLingering = true }
        return !isLingering
    }

    /// Ends the simulation. Returns false when it was over before.
    mutating func end() -> Bool {
        defer { phase = .over }
        return phase != .over
    }
}
