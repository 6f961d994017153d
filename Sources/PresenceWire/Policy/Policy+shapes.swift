extension Policy {
    /// The values that a setting takes, for documents.
    public enum SettingShape: Equatable, Sendable {
        case bool
        case integer(ClosedRange<Int64>)
        /// 0, or a value of the range.
        case integerOrZero(ClosedRange<Int64>)
        /// A ``Policy/Rate``, or false for no limit.
        case rate
        case word([String])
        /// Seconds for each platform.
        case platforms
        /// A type for each name of a custom field.
        case customFields
        /// Some of these words, each once.
        case words([String])
        /// A URL, or an empty text.
        case url(bytesMax: Int)
        /// A text that answers do not show.
        case secret
    }

    /// A setting, for documents.
    public struct SettingDescription: Sendable {
        public let name: String
        public let shape: SettingShape
        /// The effect of the setting in full sentences.
        public let effect: String
    }

    /// All settings, in the order in which an answer lists them.
    public static let settingDescriptions = settings.map {
        SettingDescription(name: $0.name, shape: SettingShape($0.kind), effect: $0.effect)
    }
}

extension Policy.SettingShape {
    fileprivate init(_ kind: Policy.Setting.Kind) {
        self =
            switch kind {
            case .bool: .bool
            case .integer(_, let range), .seconds(_, let range): .integer(range)
            case .integerOrZero(_, let range): .integerOrZero(range)
            case .rate: .rate
            case .platforms: .platforms
            case .customFields: .customFields
            case .word(let words, _, _): .word(words)
            case .words: .words(WebhookPolicy.EventType.allCases.map(\.rawValue))
            case .url: .url(bytesMax: WebhookPolicy.urlBytesMax)
            case .secret: .secret
            }
    }
}

extension Policy.PlatformTimeout {
    /// The allowed seconds.
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
    /// The allowed number of calls.
    public static let callsRange: ClosedRange<Int64> = 1...10_000
    /// The allowed number of seconds.
    public static let secondsRange: ClosedRange<Int64> = 1...3_600
}
