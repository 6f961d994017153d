import Foundation
import NodeFixture
import Synchronization

@testable import PresenceClient

/// Keeps all events.
final class RecordingListener: PresenceListener {
    private let told = Mutex<[PresenceEvent]>([])

    var events: [PresenceEvent] { told.withLock { $0 } }
    /// Every received status, in order.
    var statuses: [UserStatus] {
        events.flatMap { event -> [UserStatus] in if case .userStatusChanged(let statuses) = event { statuses } else { [] } }
    }
    /// The last of each user.
    var newest: [String: UserStatus] { Dictionary(statuses.map { ($0.userID, $0) }) { $1 } }

    func onConnected(_ session: Session) { add(.connected(session)) }
    func onUserStatusChanged(_ userStatusList: [UserStatus]) { add(.userStatusChanged(userStatusList)) }
    func onSubscriptionSyncCompleted(_ type: SubscribeType) { add(.subscriptionSyncCompleted(type)) }
    func onSessionsChanged(_ sessions: [DeviceSession]) { add(.sessionsChanged(sessions)) }
    func onSubscriptionChangedOnOtherDevices(_ change: SubscriptionChange) { add(.subscriptionChangedOnOtherDevices(change)) }
    func onKickedOffline(reason: String) { add(.kickedOffline(reason: reason)) }
    func onLogout() { add(.loggedOut) }
    func onConnectionStateChanged(_ change: ConnectionChange) { add(.connectionStateChanged(change)) }

    private func add(_ event: PresenceEvent) { told.withLock { $0.append(event) } }
}

/// Counts calls.
final class Counter: Sendable {
    private let value = Mutex(0)

    var count: Int { value.withLock { $0 } }

    /// 1, 2, 3 …
    func next() -> Int {
        value.withLock { value in
            value += 1
            return value
        }
    }
}

/// Draws the least: the first of the addresses, the shortest of the waits. Not 0, of which the standard library would draw again.
struct Least: RandomNumberGenerator, Sendable {
    mutating func next() -> UInt64 { 1 << 32 }
}

/// A port that no other run of these tests takes, for a node that comes back with its address.
let portOfThisRun = 20_000 + Int(ProcessInfo.processInfo.processIdentifier) % 4_000 * 3

/// A certificate for 127.0.0.1 that is its own authority.
struct SelfSignedCertificate {
    let path: String
    let keyPath: String
    let pem: String

    init(in folder: TemporaryFolder) async throws {
        path = "\(folder.path)/node.pem"
        keyPath = "\(folder.path)/node.key"
        let made = try await run(
            "openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                "/CN=localhost",
                "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-keyout", keyPath, "-out", path,
            ])
        guard made.status == 0 else { throw TestFailure(made.output) }
        pem = try String(contentsOfFile: path, encoding: .utf8)
    }
}
