import Foundation
import HTTP2
import LoadSimulator
import NIOPosix
import PresenceNode
import PresenceWire

/// A few people of the demo, who come, go and change their texts, and a follower who hears of them.
///
/// They use the API as an app does: what the demo shows has been pushed to the follower's event stream.
actor DemoCast {
    /// A person with its platforms and texts.
    private struct Role: Sendable {
        let userID: String
        let platforms: [String]
        let texts: [String]
    }

    private static let roles = [
        Role(userID: "ann", platforms: ["ios", "web"], texts: ["in a meeting", "lunch 🍜", "back at 3"]),
        Role(userID: "ben", platforms: ["web"], texts: ["reviewing", "☕ coffee", ""]),
        Role(userID: "carla", platforms: ["android"], texts: ["en el tren", "trabajando", ""]),
        Role(userID: "dae", platforms: ["ios"], texts: ["회의 중", "산책", ""]),
        Role(userID: "emre", platforms: ["windows", "android"], texts: ["focus time", "on a call", ""]),
        Role(userID: "mei", platforms: ["android"], texts: ["会议中", "午饭 🥟", "稍后回来"]),
    ]
    /// The user as whom the reader of the demo may log in.
    static let guest = "you"
    private static let follower = "demo"

    private let ports: [Int]
    private let mint: TokenMint
    private let start = ContinuousClock.now
    private var people: [DemoView.Person]
    /// The time of each person's newest change.
    private var changedAt: [String: (words: String, time: ContinuousClock.Instant)] = [:]
    private var news: [String] = []
    private var newsCount = 0

    /// - Parameter ports: the client ports of the nodes on loopback.
    init(ports: [Int]) async throws {
        self.ports = ports
        mint = try await TokenMint()
        people = (Self.roles.map(\.userID) + [Self.guest]).map { DemoView.Person(userID: $0) }
    }

    /// Plays until the task is canceled.
    nonisolated func play() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.follow() }
            for role in Self.roles { group.addTask { await self.live(role) } }
        }
    }

    /// The people and the news, and the number of all news until now.
    func snapshot() -> (people: [DemoView.Person], news: [String], newsCount: Int) {
        let now = ContinuousClock.now
        let people = people.map { person in
            var person = person
            person.latest = changedAt[person.userID].map { ($0.words, Int($0.time.duration(to: now).components.seconds)) }
            return person
        }
        return (people, news, newsCount)
    }

    // MARK: The follower

    private nonisolated func follow() async {
        let names = Self.roles.map { "\"\($0.userID)\"" } + ["\"\(Self.guest)\""]
        while !Task.isCancelled {
            if await call("subscribeUserStatus", "{\"userIDs\":[\(names.joined(separator: ","))]}", as: Self.follower, at: ports[0]) {
                await listen()
            }
            await pause(1...1)
        }
    }

    private nonisolated func listen() async {
        var scanner = EventText()
        do {
            for try await piece in try await stream(of: Self.follower, platform: "demo", at: ports[0]) {
                for event in scanner.append(piece) where event.name == "onUserStatusChanged" {
                    guard let data = try? JSONReader.read(event.data) else { continue }
                    for status in data["userStatusList"]?.elements ?? [] { await hear(status) }
                }
            }
        } catch { return }  // The follower logs in again.
    }

    private func hear(_ status: JSONValue) {
        guard let index = people.firstIndex(where: { $0.userID == status["userID"]?.text }) else { return }
        let before = people[index]
        var now = before
        now.isOnline = status["statusType"]?.text == "ONLINE"
        now.platforms = (status["onlinePlatforms"]?.elements ?? []).compactMap(\.text)
        now.text = status["customStatus"]?.text ?? ""
        guard now != before else { return }
        people[index] = now
        let isLoggedOut = status["statusType"]?.text == "UNLOGINED"
        let words = Self.words(before, now, isLoggedOut: isLoggedOut)
        changedAt[now.userID] = (words.short, .now)
        let seconds = Int(start.duration(to: .now).components.seconds)
        news.append(String(format: "%d:%02d  ", seconds / 60, seconds % 60) + "\(now.userID) \(words.long)")
        newsCount += 1
        if news.count > 20 { news.removeFirst() }
    }

    private static func words(_ before: DemoView.Person, _ now: DemoView.Person, isLoggedOut: Bool) -> (short: String, long: String) {
        let platforms = now.platforms.joined(separator: ", ")
        if now.isOnline != before.isOnline {
            if now.isOnline { return ("came", "came online on \(platforms)") }
            return isLoggedOut ? ("logged out", "logged out") : ("left", "went offline")
        }
        if now.text != before.text {
            return now.text.isEmpty ? ("changed", "cleared the text") : ("changed", "changed the text: “\(now.text)”")
        }
        return ("changed", "is on \(platforms.isEmpty ? "no platform" : platforms) now")
    }

    // MARK: The people

    /// Logs a person in and out again and again, at different nodes.
    private nonisolated func live(_ role: Role) async {
        await pause(0...4)
        while !Task.isCancelled {
            let port = ports.randomElement() ?? ports[0]
            let platform = role.platforms.randomElement() ?? "web"
            let session = Task { for try await _ in try await stream(of: role.userID, platform: platform, at: port) {} }
            for _ in 0..<Int.random(in: 1...4) {
                await pause(2...9)
                let text = role.texts.randomElement() ?? ""
                await call("setSelfStatus", "{\"customStatus\":\"\(text)\"}", as: role.userID, at: port)
            }
            // Some people log out. The session of the others is lost, and they are OFFLINE when the grace is over.
            if Bool.random() { await call("logout", "{}", as: role.userID, at: port) }
            session.cancel()
            await pause(4...12)
        }
    }

    private nonisolated func stream(of user: String, platform: String, at port: Int) async throws -> AsyncThrowingStream<[UInt8], any Error>
    {
        HTTPExchange.stream(
            host: "127.0.0.1", port: port, path: "/v1/events?platform=\(platform)",
            headers: [("authorization", "Bearer \(try await mint.token(user: user))")], on: MultiThreadedEventLoopGroup.singleton.next())
    }

    /// Carries out a call. Returns false if it failed; the caller goes on, because a later call does the same.
    @discardableResult
    private nonisolated func call(_ operation: String, _ body: String, as user: String, at port: Int) async -> Bool {
        do {
            let response = try await HTTPExchange.send(
                .post, host: "127.0.0.1", port: port, path: "/v1/\(operation)",
                headers: [("authorization", "Bearer \(try await mint.token(user: user))")], body: body,
                on: MultiThreadedEventLoopGroup.singleton.next())
            return response.status == 200
        } catch { return false }
    }

    /// Waits for a random time, or until the task is canceled.
    private nonisolated func pause(_ seconds: ClosedRange<Double>) async {
        do { try await Task.sleep(for: .seconds(Double.random(in: seconds))) } catch { return }
    }
}
