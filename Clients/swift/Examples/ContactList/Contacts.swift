import Observation
import PresenceClient

/// The contacts of a user, as a list shows them.
@MainActor @Observable final class Contacts {
    /// One line of the list.
    struct Row: Identifiable, Equatable {
        let id: String
        let isOnline: Bool
        let text: String
    }

    /// Those who are online first.
    private(set) var rows: [Row] = []
    /// Whether the list may be out of date. It then has the statuses that were known last.
    private(set) var isOffline = true
    /// The reason why nobody, or not everybody, can be followed; nil for none.
    private(set) var problem: String?

    private let client: PresenceClient
    /// Requested before the login, so that no event is missed.
    private let events: Feed<PresenceEvent>
    private let userIDs: [String]
    private var statuses: [String: UserStatus] = [:]

    init(_ configuration: ClientConfiguration, contacts userIDs: [String]) throws {
        var configuration = configuration
        // An app that starts without a network goes on trying.
        configuration.loginAttemptsMax = .max
        client = try PresenceClient(configuration)
        events = client.events
        self.userIDs = userIDs
    }

    /// Keeps the list current. Returns when the task is cancelled.
    func follow() async {
        for await event in events {
            switch event {
            case .userStatusChanged(let changed):
                for status in changed { statuses[status.userID] = status }
                rows = sortedRows
            case .connectionStateChanged(let change):
                isOffline = change.state != .connected
            default: break
            }
        }
    }

    /// Opens the session: the user is ONLINE, and everybody's status arrives.
    func enterForeground() async {
        do {
            try await client.login()
            let answer = try await client.subscribeUserStatus(userIDs, sync: true)
            problem = answer.errorUserList.first.map { "\($0.userID): \($0.reason)" }
        } catch {
            // The app went to the background meanwhile.
            if error.code == .closed || error.code == .cancelled { return }
            problem = error.detail
        }
    }

    /// Drops the session: the user goes OFFLINE after the policy's `offlineGrace`. The list stays.
    func enterBackground() async { await client.disconnect() }

    private var sortedRows: [Row] {
        let known = userIDs.compactMap { statuses[$0] }.map { status in
            let isOnline = status.statusType == .online
            let text = status.customStatus.isEmpty ? (isOnline ? "online" : "offline") : status.customStatus
            return Row(id: status.userID, isOnline: isOnline, text: text)
        }
        return known.filter(\.isOnline) + known.filter { !$0.isOnline }
    }
}
