import ArgumentParser
import AsyncHTTPClient
import Foundation
import HTTP2
import NIOCore
import NIOPosix
import NIOSSL
import PresenceNode
import PresenceWire

/// The options with which the commands of operators reach a node's ops port and log in.
struct OpsOptions: ParsableArguments {
    @Option(help: "URL of a node's ops port; https:// for a proxy in front of it.") var ops = "http://127.0.0.1:7602"
    @Option(help: "Token with role admin (default: one signed with the development key).") var token: String?
    @OptionGroup var trust: TrustOptions
    @Flag(help: "Print the node's answer as JSON.") var json = false

    /// The answer to an operator's operation.
    struct Answer {
        let value: JSONValue
        fileprivate let text: [UInt8]
    }

    /// Carries out an operator's operation and returns its answer.
    func call(_ operation: String, _ body: [UInt8] = Array("{}".utf8)) async throws -> Answer {
        guard let url = URL(string: ops), let host = url.host, ["http", "https"].contains(url.scheme) else {
            throw ValidationError("--ops: \"\(ops)\" is not http://HOST:PORT or https://HOST:PORT")
        }
        var bearer = token
        if bearer == nil { bearer = try await TokenMint().token(user: "operator", isAdmin: true) }
        let port = url.port ?? (url.scheme == "https" ? 443 : 7602)
        let path = url.path.hasSuffix("/") ? String(url.path.dropLast()) : url.path
        let name = host.contains(":") ? "[\(host)]" : host
        var request = HTTPClientRequest(url: "\(url.scheme ?? "http")://\(name):\(port)\(path)/admin/v1/\(operation)")
        request.method = .POST
        request.headers.add(name: "authorization", value: "Bearer \(bearer ?? "")")
        request.body = .bytes(ByteBuffer(bytes: body))
        let (status, text) = try await send(request, address: "\(host):\(port)")
        guard status == 200 else { throw CommandFailure(refused: String(decoding: text, as: UTF8.self)) }
        guard let answer = try? JSONReader.read(text) else {
            throw CommandFailure(description: "\(host):\(port): no node's ops port: the answer is not JSON", code: 1)
        }
        return Answer(value: answer, text: text)
    }

    /// Sends a request by HTTP/1.1 or HTTP/2, as the other side offers.
    private func send(_ request: HTTPClientRequest, address: String) async throws -> (status: UInt, body: [UInt8]) {
        var configuration = HTTPClient.Configuration(tlsConfiguration: try trust.configuration())
        configuration.timeout.connect = .seconds(5)
        configuration.connectionPool.retryConnectionEstablishment = false
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        let outcome: Result<(UInt, [UInt8]), any Error>
        do {
            let response = try await client.execute(request, timeout: .seconds(30))
            outcome = .success((response.status.code, Array(buffer: try await response.body.collect(upTo: 64 << 20))))
        } catch { outcome = .failure(error) }
        try await client.shutdown()
        do { return try outcome.get() } catch {
            throw CommandFailure(description: "\(address): \(Self.reason(error))", code: PresenceNode.ExitCode.unavailable)
        }
    }

    /// Prints an answer as JSON of one line.
    func print(_ answer: Answer) {
        let text = answer.text.last == UInt8(ascii: "\n") ? answer.text.dropLast() : answer.text[...]
        Terminal.line(PrintableText.escapedJSON(Array(text)))
    }

    private static func reason(_ error: any Error) -> String {
        let failure = error as? HTTPClientError
        if failure == .connectTimeout { return "no answer within 5 s" }
        if failure == .deadlineExceeded || failure == .readTimeout { return "no answer within 30 s" }
        if failure == .remoteConnectionClosed { return "the connection was closed" }
        return ConnectionErrorText.text(error)
    }
}
