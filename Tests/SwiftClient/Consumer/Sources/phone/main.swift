import Foundation
import PresenceClient

// An app in a process of its own, which a story drives by lines:
//
//     phone ADDRESS,… PLATFORM DEVICE
//
// A line of the input is an operation and its argument: `login at home`, `setSelfStatus at my desk`, `addBlackList bob,carl`, `logout`.
// A line of the output is an `Output` in JSON. Operations do not wait for each other. The story is the back end as well: it answers
// each `tokenWanted` with a line `token eyJ…`. `Tests/Journeys/phone.mjs` is the other side.

/// An event of the client, or the answer to the line of the input with this number. A field without a value is absent.
struct Output: Encodable, Sendable {
    var answerTo: Int?
    var event: String?
    var state: String?
    var session: Session?
    var statuses: [UserStatus]?
    var friends: [String]?
    var blocked: [String]?
    var results: [FriendResult]?
    var code: Int?
    var detail: String?

    func write() throws { FileHandle.standardOutput.write(try JSONEncoder().encode(self) + Data("\n".utf8)) }
}

/// Makes a client ask the first address first, like the clients in JavaScript of the stories.
struct FirstAddress: RandomNumberGenerator, Sendable {
    private var isDrawn = false

    mutating func next() -> UInt64 {
        defer { isDrawn = true }
        return isDrawn ? .random(in: .min ... .max) : 1 << 32
    }
}

func perform(_ operation: String, _ argument: String, by client: PresenceClient) async throws -> Output {
    let users = argument.split(separator: ",").map(String.init)
    switch operation {
    case "login": return Output(session: try await client.login(customStatus: argument))
    case "logout": try await client.logout()
    // For an hour, so that the text stays while the user is OFFLINE.
    case "setSelfStatus": return Output(statuses: [try await client.setSelfStatus(argument, expiry: .seconds(3_600))])
    case "getUserStatus": return Output(statuses: try await client.getUserStatus(users).userStatusList)
    case "subscribeUserStatus": try await client.subscribeUserStatus(users, sync: true)
    case "setVisibility": try await client.setVisibility(Visibility.Mode(rawValue: argument))
    case "addFriend": return Output(results: [try await client.friendship.addFriend(argument)])
    case "deleteFriends": return Output(results: try await client.friendship.deleteFriends(users, isTwoWay: true))
    case "addBlackList": return Output(results: try await client.friendship.addBlackList(users))
    default: throw PresenceError(code: .badParameter, title: "no such operation", detail: operation)
    }
    return Output()
}

func tell(_ event: PresenceEvent, of client: PresenceClient) throws {
    switch event {
    case .connectionStateChanged(let change): try Output(event: "state", state: "\(change.state)", detail: "\(change.reason)").write()
    case .connected(let session): try Output(event: "connected", session: session).write()
    case .userStatusChanged(let statuses): try Output(event: "statuses", statuses: statuses).write()
    case .relationshipChanged:
        let lists = client.friendship.relationships
        try Output(event: "lists", friends: lists.friends.map(\.userID), blocked: lists.blocked).write()
    default: try Output(event: "other", detail: "\(event)").write()
    }
}

let (tokens, backEnd) = AsyncStream<String>.makeStream()
let arguments = CommandLine.arguments
var configuration = ClientConfiguration(addresses: arguments[1].split(separator: ",").map(String.init)) {
    try Output(event: "tokenWanted").write()
    for await token in tokens { return token }
    throw CancellationError()
}
(configuration.platform, configuration.deviceID) = (arguments[2], arguments[3])
configuration.keepsRelationships = true
configuration.backoff = Backoff(initial: .milliseconds(50), max: .milliseconds(500))
configuration.random = FirstAddress()
let client = try PresenceClient(configuration)
let events = client.events
Task.detached { for await event in events { try tell(event, of: client) } }

let input = AsyncStream<String> { lines in
    Thread.detachNewThread {
        while let line = readLine() { lines.yield(line) }
        exit(0)
    }
}
var linesCount = 0
for await line in input {
    linesCount += 1
    let (number, words) = (linesCount, line.split(separator: " ", maxSplits: 1).map(String.init))
    let (operation, argument) = (words[0], words.count > 1 ? words[1] : "")
    if operation == "token" {
        backEnd.yield(argument)
        continue
    }
    Task.detached {
        var output: Output
        do { output = try await perform(operation, argument, by: client) } catch let error as PresenceError {
            output = Output(code: error.code.rawValue, detail: "\(error)")
        }
        output.answerTo = number
        try output.write()
    }
}
