import CommsEaseStatus
import Foundation
import GRDB
import Logging
import Observation
import PresenceClient
import RongCloudStatus
import TencentFriendship
import TencentStatus
import ZIMStatus

// An app with a database and a log that adds the SDK. `Tests/SwiftClient/run` builds it, copies Contacts.swift of the example beside this
// file, and restarts the node when this program asks for it.

/// Waits until a claim about observable values holds.
@MainActor func until(_ claim: @escaping @MainActor () -> Bool) async {
    let (changes, changed) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    var iterator = changes.makeAsyncIterator()
    while !withObservationTracking(claim, onChange: { changed.yield() }) { _ = await iterator.next() }
}

/// The first received status for which `claim` holds.
func first(of feed: Feed<[UserStatus]>, _ claim: @Sendable (UserStatus) -> Bool) async -> UserStatus? {
    for await statuses in feed {
        for status in statuses where claim(status) { return status }
    }
    return nil
}

/// Says something to the script, and waits for its answer.
@MainActor func ask(_ question: String) {
    print(question)
    fflush(nil)
    _ = readLine()
}

func configuration(_ address: String, _ token: String, _ device: String) -> ClientConfiguration {
    var configuration = ClientConfiguration(addresses: [address]) { token }
    configuration.platform = device
    configuration.backoff = Backoff(initial: .milliseconds(50), max: .milliseconds(500))
    return configuration
}

struct Failure: Error, CustomStringConvertible { let description: String }

@MainActor func run() async throws {
    let variables = ProcessInfo.processInfo.environment
    guard let address = variables["ADDRESS"], let annsToken = variables["ANN"], let bobsToken = variables["BOB"] else {
        throw Failure(description: "ADDRESS, ANN and BOB are missing")
    }
    let log = Logger(label: "contacts")
    let database = try DatabaseQueue()
    try await database.write { try $0.execute(sql: "CREATE TABLE row (id TEXT PRIMARY KEY, text TEXT NOT NULL)") }

    let contacts = try Contacts(configuration(address, annsToken, "ios"), contacts: ["bob", "carl"])
    let following = Task { await contacts.follow() }
    await contacts.enterForeground()
    await until { contacts.rows.count == 2 && !contacts.isOffline }
    log.info("everybody's status is there")

    let bob = try PresenceClient(configuration(address, bobsToken, "web"))
    try await bob.login(customStatus: "in a meeting")
    await until { contacts.rows.first == Contacts.Row(id: "bob", isOnline: true, text: "in a meeting") }
    let rows = contacts.rows
    try await database.write { database in
        for row in rows { try database.execute(sql: "INSERT INTO row VALUES (?, ?)", arguments: [row.id, row.text]) }
    }
    let text = try await database.read { try String.fetchOne($0, sql: "SELECT text FROM row WHERE id = 'bob'") }
    guard text == "in a meeting" else { throw Failure(description: "the database has \(text ?? "nothing")") }

    ask("kill")
    await until { contacts.isOffline }
    guard contacts.rows.first?.text == "in a meeting" else { throw Failure(description: "the list is lost") }
    ask("start")
    await until { !contacts.isOffline }
    try await bob.setSelfStatus("back")
    await until { contacts.rows.first?.text == "back" }
    log.info("the list is current again")

    let seen = bob.onUserStatusChanged
    try await bob.subscribeUserStatus(["ann"], sync: true)
    guard await first(of: seen, { $0.userID == "ann" && $0.statusType == .online }) != nil else { return }
    await contacts.enterBackground()
    guard await first(of: seen, { $0.userID == "ann" && $0.statusType == .offline }) != nil else { return }
    try await bob.setSelfStatus("unseen")
    await contacts.enterForeground()
    await until { contacts.rows.first?.text == "unseen" && !contacts.isOffline }

    let stranger = try PresenceClient(configuration(address, "no token", "web"))
    do {
        try await stranger.login()
        throw Failure(description: "a login without a token succeeded")
    } catch let error as PresenceError {
        guard error.status == 401, error.code == .notLoggedIn else { throw error }
    }
    try await bob.logout()
    await until { contacts.rows.first?.isOnline == false }
    following.cancel()
    print("done")
}

/// The façades are linked as well.
private let facades: [Any.Type] = [V2TIMManager.self, TIMManager.self, RCCoreClient.self, NIMSDK.self, ZIM.self]

do { try await run() } catch {
    print("failed: \(error)")
    exit(1)
}
