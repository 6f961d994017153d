import ArgumentParser
import Foundation
import HTTP2
import NIOPosix
import NIOSSL
import PresenceWire

/// The client port of a node, as commands for people at a terminal reach it.
struct ClientPort {
    private let host: String
    private let port: Int
    /// The TLS settings; nil for plain HTTP.
    private let tls: NIOSSLContext?

    /// - Parameter target: the URL of the port.
    init(_ target: String, _ trust: TrustOptions) throws {
        guard let url = URL(string: target), let host = url.host, ["http", "https"].contains(url.scheme) else {
            throw ValidationError("--target: \"\(target)\" is not an http:// or https:// URL")
        }
        self.host = host
        guard url.scheme == "https" else {
            (port, tls) = (url.port ?? 7600, nil)
            return
        }
        var configuration = try trust.configuration()
        configuration.applicationProtocols = ["h2"]
        (port, tls) = (url.port ?? 443, try NIOSSLContext(configuration: configuration))
    }

    /// The URL of a path, for messages.
    func url(_ path: String = "") -> String {
        "\(tls == nil ? "http" : "https")://\(host.contains(":") ? "[\(host)]" : host):\(port)\(path)"
    }

    /// Makes a call. Returns the answer, whatever its status. Throws a ``CommandFailure`` without one.
    func call(_ path: String, _ authorization: String, _ body: JSONWriter) async throws -> HTTPExchange.Response {
        do {
            return try await HTTPExchange.send(
                .post, host: host, port: port, path: path, headers: [("authorization", authorization)],
                body: String(decoding: body.bytes, as: UTF8.self), tls: tls, on: MultiThreadedEventLoopGroup.singleton.next())
        } catch { throw CommandFailure(unreachable: url(), error) }
    }

    /// Opens an event stream. Throws an ``HTTPExchange/Failure`` when the stream ends with an error, or with another answer.
    func stream(_ path: String, _ authorization: String) -> AsyncThrowingStream<[UInt8], any Error> {
        HTTPExchange.stream(
            host: host, port: port, path: path, headers: [("authorization", authorization)], tls: tls,
            on: MultiThreadedEventLoopGroup.singleton.next())
    }
}
