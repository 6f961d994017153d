extension Policy {
    /// What values a setting takes, for those who describe it.
    public enum SettingShape: Equatable, Sendable {
        case bool
        case integer(ClosedRange<Int64>)
        /// 0, or what is in the range.
        case integerOrZero(ClosedRange<Int64>)
        /// ``Policy/Rate``, or false for none.
        case rate
        case word([String])
        /// Seconds by platform.
        case platforms
    }

    /// All settings by name, in the order in which they are told.
    public static let settingShapes: [(name: String, shape: SettingShape)] = settings.map { setting in
        switch setting.kind {
        case .bool: (setting.name, .bool)
        case .integer(_, let range), .seconds(_, let range): (setting.name, .integer(range))
        case .integerOrZero(_, let range): (setting.name, .integerOrZero(range))
        case .rate: (setting.name, .rate)
        case .platforms: (setting.name, .platforms)
        case .word(let words, _, _): (setting.name, .word(words))
        }
    }
}

extension Policy.PlatformTimeout {
    /// How many seconds.
    public static let secondsRange: ClosedRange<Int64> = 15...3_600

    /// Reads `{"web":60}`.
    static func read(_ value: JSONValue, of name: String) throws(PolicyError) -> [Policy.PlatformTimeout] {
        let range = "\(secondsRange.lowerBound)...\(secondsRange.upperBound)"
        let problem =
            "must be an object of at most \(Policy.platformTimeoutsMax) platforms, each with an integer in \(range), as {\"web\": 60}"
        guard case .object(let members) = value, members.count <= Policy.platformTimeoutsMax else {
            throw PolicyError(setting: name, problem: problem)
        }
        var timeouts: [Policy.PlatformTimeout] = []
        for member in members.sorted(by: { $0.name < $1.name }) {
            guard Limits.isValidPlatform(member.name), case .integer(let seconds) = member.value.withWholeNumber,
                secondsRange.contains(seconds)
            else { throw PolicyError(setting: name, problem: "\"\(member.name)\": \(problem)") }
            timeouts.append(Policy.PlatformTimeout(platform: member.name, timeout: .seconds(seconds)))
        }
        return timeouts
    }
}

extension Policy.Rate {
    /// How many calls.
    public static let callsRange: ClosedRange<Int64> = 1...10_000
    /// In how many seconds.
    public static let secondsRange: ClosedRange<Int64> = 1...3_600
}
