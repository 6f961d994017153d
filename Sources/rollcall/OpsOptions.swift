import ArgumentParser
import AsyncHTTPClient
import Foundation
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
        let (request, port) = try await request(operation, app: "default", body: body)
        let (status, text) = try await send(request, to: port)
        guard status == 200, let answer = try? JSONReader.read(text) else {
            throw CommandFailure(refused: Int(status), text, from: request.url, .ops)
        }
        return Answer(value: answer, text: text)
    }

    /// A request for an operation, and the URL of the port to which it goes.
    ///
    /// - Parameters:
    ///   - app: the app of a token that is signed with the development key.
    ///   - body: the body of a call; nil for a request that reads.
    private func request(
        _ operation: String, app: String, body: [UInt8]?
    ) async throws -> (request: HTTPClientRequest, port: String) {
        guard let url = URL(string: ops), let host = url.host, ["http", "https"].contains(url.scheme) else {
            throw ValidationError("--ops: \"\(ops)\" is not http://HOST:PORT or https://HOST:PORT")
        }
        var bearer = token
        if bearer == nil { bearer = try await TokenMint().token(user: "operator", app: app, isAdmin: true) }
        let port = url.port ?? (url.scheme == "https" ? 443 : 7602)
        let path = url.path.hasSuffix("/") ? String(url.path.dropLast()) : url.path
        let name = host.contains(":") ? "[\(host)]" : host
        let base = "\(url.scheme ?? "http")://\(name):\(port)"
        var request = HTTPClientRequest(url: "\(base)\(path)/admin/v1/\(operation)")
        request.method = body == nil ? .GET : .POST
        request.headers.add(name: "authorization", value: "Bearer \(bearer ?? "")")
        if let body { request.body = .bytes(ByteBuffer(bytes: body)) }
        return (request, base)
    }

    /// Reads a long answer piece by piece. Throws if it breaks off.
    ///
    /// - Parameter app: the app of a token that is signed with the development key.
    func stream(_ operation: String, app: String, onPiece: (ByteBuffer) throws -> Void) async throws {
        let (request, port) = try await request(operation, app: app, body: nil)
        // A node copies its database before it sends the first byte of a backup.
        try await withClient(port, silence: operation.hasPrefix("backup") ? .hours(1) : .seconds(30)) { client in
            let response = try await client.execute(request, deadline: .distantFuture)
            guard response.status.code == 200 else {
                let problem = try await response.body.collect(upTo: 1 << 20)
                throw CommandFailure(refused: Int(response.status.code), Array(buffer: problem), from: request.url, .ops)
            }
            for try await piece in response.body { try onPiece(piece) }
        }
    }

    /// Sends a request by HTTP/1.1 or HTTP/2, as the other side offers.
    private func send(_ request: HTTPClientRequest, to port: String) async throws -> (status: UInt, body: [UInt8]) {
        try await withClient(port) { client in
            let response = try await client.execute(request, timeout: .seconds(30))
            return (response.status.code, Array(buffer: try await response.body.collect(upTo: 64 << 20)))
        }
    }

    /// Makes requests with a client, and ends it. An error of the connection names the URL of the port.
    private func withClient<Result>(
        _ port: String, silence: TimeAmount = .seconds(30), _ body: (HTTPClient) async throws -> Result
    ) async throws -> Result {
        var configuration = HTTPClient.Configuration(tlsConfiguration: try trust.configuration())
        configuration.timeout.connect = .seconds(5)
        configuration.timeout.read = silence
        configuration.connectionPool.retryConnectionEstablishment = false
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        do {
            let result = try await body(client)
            try await client.shutdown()
            return result
        } catch {
            try await client.shutdown()
            if error is CommandFailure { throw error }
            throw CommandFailure(description: "\(port): \(Self.reason(error))", code: PresenceNode.ExitCode.unavailable)
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
        return failure?.shortDescription ?? CommandFailure.reason(error)
    }
}
