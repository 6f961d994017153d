import PresenceWire

@testable import PresenceCore

/// The back end that receives the webhooks of a ``TestCluster``.
struct WebhookReceiver {
    enum Mode {
        /// It answers 2xx.
        case accepts
        /// It answers 500.
        case fails
        /// It takes the events, and dies before it answers.
        case takesAndFails
        /// It does not answer, and the node gives up after ``patience``.
        case isSilent
    }

    struct Event: Equatable {
        let user: String
        let version: String
        let action: String
        let json: JSONValue
    }

    static let patience = Duration.seconds(10)

    var mode = Mode.accepts
    /// The attempts without an answer.
    private var open: [(node: Int, delivery: WebhookDelivery, at: Now)] = []
    /// All attempts, by the node that made them.
    private(set) var attempts: [(node: Int, delivery: WebhookDelivery, at: Now)] = []
    /// The events of accepted deliveries, and those that were taken, in order.
    private(set) var events: [Event] = []

    /// Takes a delivery. Returns whether it is accepted; nil for no answer.
    mutating func receive(_ delivery: WebhookDelivery, from node: Int, at now: Now) -> Bool? {
        attempts.append((node, delivery, now))
        if mode == .accepts || mode == .takesAndFails {
            let json = try! JSONReader.read(delivery.body)
            events += json["events"]!.elements.map { event in
                Event(
                    user: event["userID"]!.textValue, version: event["version"]!.textValue, action: event["action"]!.textValue, json: event)
            }
        }
        switch mode {
        case .accepts: return true
        case .fails, .takesAndFails: return false
        case .isSilent:
            open.append((node, delivery, now))
            return nil
        }
    }

    /// Removes and returns the attempts on which the nodes give up.
    mutating func takeOverdue(at now: Now) -> [(node: Int, delivery: WebhookDelivery, at: Now)] {
        let overdue = open.filter { $0.at.instant + Self.patience <= now.instant }
        open.removeAll { $0.at.instant + Self.patience <= now.instant }
        return overdue
    }

    /// The events of a user, each as it came for the first time.
    func first(of user: String) -> [Event] {
        var seen: Set<String> = []
        return events.filter { $0.user == user && seen.insert($0.version).inserted }
    }

    /// The actions of ``first(of:)``.
    func actions(of user: String) -> [String] { first(of: user).map(\.action) }
}
