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
    /// The secret that signs deliveries, ``secretBytes`` of UTF-8.
    public var secret = ""
    /// The events that are delivered, sorted by name.
    public var events = [EventType.stateChange]

    public init() {}

    /// Longest URL, in bytes.
    public static let urlBytesMax = 1_024
    /// The length of a secret, in bytes of UTF-8. A shorter one could be guessed.
    public static let secretBytes = 16...256
    /// The text that an answer shows in place of a secret.
    public static let shownSecret = "(set)"

    /// Whether a text is an absolute URL with scheme https or http and a host, without user name, password and fragment.
    ///
    /// A node checks the scheme and the address of the host when it is told the URL and when it connects.
    public static func isValid(url: String) -> Bool {
        guard url.utf8.count <= urlBytesMax, url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }) else {
            return false
        }
        guard let prefix = ["https://", "http://"].first(where: { url.hasPrefix($0) }) else { return false }
        let host = url.dropFirst(prefix.count).prefix { $0 != "/" && $0 != "?" }
        return !host.isEmpty && !host.hasPrefix(":") && !host.contains("@") && !host.contains("\\")
    }
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
