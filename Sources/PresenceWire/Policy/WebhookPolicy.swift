/// The receiver of an app's webhooks: settings `webhook.url`, `webhook.secret` and `webhook.events`.
public struct WebhookPolicy: Equatable, Sendable {
    /// The events that an app may receive.
    public enum EventType: String, CaseIterable, Sendable {
        /// Logins, logouts, disconnects, kicks and custom statuses (X2).
        case stateChange
        /// Changes of friend lists, requests, blocklists and groups.
        case friends
        /// Changes of profiles.
        case profile
    }

    /// The address that receives deliveries; empty for none. See ``isValid(url:)``.
    public var url = ""
    /// The secret that signs deliveries. See ``isValid(secret:)``.
    public var secret = ""
    /// The events that are delivered, sorted by name.
    public var events = [EventType.stateChange]

    public init() {}

    /// Longest URL, in bytes.
    public static let urlBytesMax = 1_024
    /// The length of a secret, in characters. A shorter one could be guessed.
    public static let secretLength = 16...256
    /// The rule for secrets, in words for messages and documents.
    public static let secretRule = "\(secretLength.lowerBound) to \(secretLength.upperBound) printable ASCII characters"
    /// The text that an answer shows in place of a secret.
    public static let shownSecret = "(set)"

    /// Whether a text can sign deliveries: ``secretLength`` printable ASCII characters. ``secretPattern`` says the same.
    public static func isValid(secret: String) -> Bool {
        secretLength.contains(secret.utf8.count) && secret.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F }
    }

    /// Whether a text is an absolute URL with scheme https or http and a host, without user name, password and fragment.
    ///
    /// ``urlPattern`` says the same, but for the length and the largest port.
    ///
    /// A node checks the scheme and the address of the host when it is told the URL and when it connects.
    public static func isValid(url: String) -> Bool {
        guard url.utf8.count <= urlBytesMax, url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }) else {
            return false
        }
        guard let prefix = ["https://", "http://"].first(where: { url.hasPrefix($0) }) else { return false }
        let authority = url.dropFirst(prefix.count).prefix { $0 != "/" && $0 != "?" }
        let end = authority.hasPrefix("[") ? authority.firstIndex(of: "]").map(authority.index(after:)) : authority.firstIndex(of: ":")
        let host = authority[..<(end ?? authority.endIndex)]
        return isValid(host: host) && isValid(port: authority[host.endIndex...])
    }

    /// Whether a text is an IPv6 address in brackets, or a name or an IPv4 address.
    private static func isValid(host: Substring) -> Bool {
        if host.hasPrefix("[") {
            let address = host.dropFirst().dropLast()
            return host.hasSuffix("]") && !address.isEmpty && address.allSatisfy { $0.isHexDigit || $0 == ":" || $0 == "." }
        }
        let isLetterOrDigit = { (character: Character?) in character.map { $0.isLetter || $0.isNumber } ?? false }
        return isLetterOrDigit(host.first) && isLetterOrDigit(host.last)
            && host.allSatisfy { isLetterOrDigit($0) || $0 == "." || $0 == "-" || $0 == "_" }
    }

    /// Whether a text is empty, or a colon and a port.
    private static func isValid(port: Substring) -> Bool {
        guard !port.isEmpty else { return true }
        return port.hasPrefix(":") && port.count <= 6 && port.dropFirst().allSatisfy(\.isWholeNumber)
            && (1...65_535).contains(Int(port.dropFirst()) ?? 0)
    }

    /// The regular expression (ECMA 262) of a URL, or of none.
    public static let urlPattern =
        #"^(https?://([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?][!"$-~]*)?)?$"#
    /// The regular expression (ECMA 262) of a secret.
    public static let secretPattern = "^[ -~]{\(secretLength.lowerBound),\(secretLength.upperBound)}$"
}

extension Policy {
    /// A ``WebhookPolicy`` behind one pointer, because policies are copied often and most have none.
    indirect enum WebhookBox: Equatable, Sendable {
        case standard
        case set(WebhookPolicy)
    }

    /// The receiver of the app's webhooks.
    public var webhook: WebhookPolicy {
        get { if case .set(let webhook) = webhookBox { webhook } else { WebhookPolicy() } }
        set { webhookBox = newValue == WebhookPolicy() ? .standard : .set(newValue) }
    }

    /// Whether the app's receiver is told such events.
    public func tellsWebhook(_ event: WebhookPolicy.EventType) -> Bool { hasWebhook && webhook.events.contains(event) }

    /// Whether the app has a receiver for its webhooks.
    public var hasWebhook: Bool { if case .set(let webhook) = webhookBox { !webhook.url.isEmpty } else { false } }
}
