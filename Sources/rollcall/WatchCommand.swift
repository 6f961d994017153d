import ArgumentParser
import Foundation
import HTTP2
import PresenceNode
import PresenceWire

/// `rollcall watch --user U [TARGET…]`: logs in and prints every event.
struct WatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch", abstract: "Log in as a user and print every event of the session, until Ctrl-C.")

    @Option(help: "User to log in as.") var user: String
    @Argument(help: "Users to follow; the subscriptions stay after the command ends.") var targets: [String] = []
    @Option(help: "Platform of the session.") var platform = "terminal"
    @OptionGroup var client: ClientOptions

    func run() async throws {
        Self.endWithReader()
        let port = try client.port()
        let authorization = try await client.bearer(user: user)
        if !targets.isEmpty {
            var json = JSONWriter()
            json.object { json in
                json.key("userIDs")
                json.array { json in
                    for target in targets { json.string(target) }
                }
            }
            let path = "/v1/subscribeUserStatus"
            var response: HTTPExchange.Response
            repeat { response = try await port.call(path, authorization, json) } while try await Self.waited(asRequestedBy: response)
            guard response.status == 200 else {
                throw CommandFailure(refused: response.status, response.body, from: port.url(path), .client)
            }
        }
        let path = "/v1/events?platform=\(platform)"
        while true {
            do {
                try await listen(to: port.stream(path, authorization))
                return
            } catch {
                let response = (error as? HTTPExchange.Failure)?.response
                if try await Self.waited(asRequestedBy: response) { continue }
                guard let response else { throw CommandFailure(unreachable: port.url(), error) }
                throw CommandFailure(refused: response.status, response.body, from: port.url(path), .client)
            }
        }
    }

    /// Ends the process once nobody reads its output. Between two events no write would notice that.
    private static func endWithReader() {
        Thread.detachNewThread {
            var output = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
            while poll(&output, 1, -1) < 0 {
                guard errno == EINTR || errno == EAGAIN else { return }
            }
            // The write fails, and ends the process as each write to a closed pipe does.
            if output.revents & Int16(POLLERR | POLLHUP) != 0 { Terminal.write("\n") }
        }
    }

    private func listen(to pieces: AsyncThrowingStream<[UInt8], any Error>) async throws {
        var text = EventText()
        for try await piece in pieces {
            for event in text.append(piece) { show(event.name, event.data) }
        }
    }

    /// Waits for the `retryAfter` of an overloaded node and a random part of a second. Returns false when the node gave none.
    private static func waited(asRequestedBy response: HTTPExchange.Response?) async throws -> Bool {
        guard let response, [429, 503].contains(response.status), let problem = try? JSONReader.read(response.body),
            case .integer(let seconds)? = problem["retryAfter"]
        else { return false }
        Terminal.error("the node asked to retry later (HTTP \(response.status)); trying again in \(seconds) s")
        try await Task.sleep(for: .seconds(min(max(seconds, 0), 3_600)) + .milliseconds(Int.random(in: 0..<1_000)))
        return true
    }

    private func show(_ name: String, _ data: [UInt8]) {
        guard let value = try? JSONReader.read(data) else { return }
        if name == "onUserStatusChanged" {
            for status in value["userStatusList"]?.elements ?? [] { Terminal.row(StatusLine.fields(status)) }
        } else {
            Terminal.line("\(PrintableText.escaped(name)) \(PrintableText.escapedJSON(data))")
        }
    }
}
