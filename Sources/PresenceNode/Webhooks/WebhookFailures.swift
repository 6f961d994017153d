import Foundation

/// The failures of webhook receivers that were logged. Each cause is logged once for each URL of an app.
struct WebhookFailures {
    /// Most causes that are logged for one URL, because the texts of errors may vary.
    private static let causesMax = 8

    /// The failures of an app's present URL since its last accepted delivery.
    private struct Failing {
        let url: String
        var causes: Set<String> = []
    }

    private var apps: [String: Failing] = [:]

    /// Notes a failure. Returns whether the log lacks it.
    mutating func failed(_ app: String, _ url: String, cause: String) -> Bool {
        if apps[app]?.url != url { apps[app] = Failing(url: url) }
        guard let count = apps[app]?.causes.count, count < Self.causesMax else { return false }
        return apps[app]?.causes.insert(cause).inserted ?? false
    }

    /// Notes an accepted delivery. Returns whether a failure was logged before.
    mutating func accepted(_ app: String) -> Bool { apps.removeValue(forKey: app) != nil }

    /// A URL without the parts that often have secrets: the query, a user name and a password.
    static func masked(_ url: String) -> String {
        guard var parts = URLComponents(string: url) else { return "?" }
        (parts.query, parts.fragment, parts.user, parts.password) = (nil, nil, nil, nil)
        return parts.string ?? "?"
    }
}
