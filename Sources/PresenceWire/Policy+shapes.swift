extension Policy {
    /// What values a setting takes, for those who describe it.
    public enum SettingShape: Equatable, Sendable {
        case bool
        case integer(ClosedRange<Int64>)
        /// ``Policy/Rate``, or false for none.
        case rate
        case word([String])
    }

    /// All settings by name, in the order in which they are told.
    public static let settingShapes: [(name: String, shape: SettingShape)] = settings.map { setting in
        switch setting.kind {
        case .bool: (setting.name, .bool)
        case .integer(_, let range), .seconds(_, let range): (setting.name, .integer(range))
        case .rate: (setting.name, .rate)
        case .word(let words, _, _): (setting.name, .word(words))
        }
    }
}

extension Policy.Rate {
    /// How many calls.
    public static let callsRange: ClosedRange<Int64> = 1...10_000
    /// In how many seconds.
    public static let secondsRange: ClosedRange<Int64> = 1...3_600
}
