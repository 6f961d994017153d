import ArgumentParser
import PresenceNode
import PresenceWire

/// `rollcall status U…`: prints the status of users.
struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "status", abstract: "Show the status of users.")

    @Argument(help: "User IDs.") var users: [String]
    @OptionGroup var client: ClientOptions

    func run() async throws {
        var json = JSONWriter()
        json.object { json in
            json.key("userIDs")
            json.array { json in
                for user in users { json.string(user) }
            }
        }
        let port = try client.port()
        let path = "/v1/getUserStatus"
        let response = try await port.call(path, try await client.bearer(user: "rollcall-status"), json)
        guard response.status == 200, let answer = try? JSONReader.read(response.body), let statuses = answer["userStatusList"] else {
            throw CommandFailure(refused: response.status, response.body, from: port.url(path), .client)
        }
        for status in statuses.elements { Terminal.row(StatusLine.fields(status)) }
        let errors = answer["errorUserList"]?.elements ?? []
        for error in errors {
            Terminal.warning("\(error["userID"]?.text ?? "?"): \(error["reason"]?.text ?? "?")")
        }
        if !errors.isEmpty {
            throw CommandFailure(description: "\(errors.count) of \(users.count) users have no answer; the lines above say why", code: 1)
        }
    }
}

/// A `UserStatus` as the fields of a line.
enum StatusLine {
    static func fields(_ status: JSONValue) -> [String] {
        let platforms = (status["onlinePlatforms"]?.elements ?? []).compactMap(\.text).joined(separator: ",")
        let custom = status["customStatus"]?.text ?? ""
        var fields = [status["userID"]?.text ?? "?", status["statusType"]?.text ?? "?"]
        if !platforms.isEmpty { fields.append("[\(platforms)]") }
        if !custom.isEmpty { fields.append("“\(custom)”") }
        return fields
    }
}

extension JSONValue {
    var elements: [JSONValue] { if case .array(let elements) = self { elements } else { [] } }
    var text: String? { if case .string(let text) = self { text } else { nil } }
}
