import CAssets
import Crypto
import HTTP2
import NIOCore
import PresenceCore

/// The files that are inside the binary: the JavaScript client, the console and the OpenAPI document.
enum Assets {
    /// All files by name, as `Console/console.js`.
    static let all: [String: RepeatedText] = {
        var all: [String: RepeatedText] = [:]
        for index in 0..<rollcall_assets_count {
            let asset = rollcall_asset_at(index)!.pointee
            let bytes = ByteBuffer(bytes: UnsafeBufferPointer(start: asset.bytes, count: asset.count))
            all[String(cString: asset.name)] = RepeatedText(bytes, isLasting: true)
        }
        return all
    }()

    /// The JavaScript client. Its path names its content, so browsers may keep it for good.
    static let client: (path: String, text: RepeatedText) = {
        guard let text = all["WebClient/client.js"] else { preconditionFailure("the binary has no client.js") }
        let hash = SHA256.hash(data: Array(text.bytes.readableBytesView)).prefix(8).map { byte in
            (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
        return ("/client.\(hash).js", text)
    }()

    /// Makes the texts that are made once. They take some five milliseconds, in which the first client's loop would serve no other client.
    static func makeTexts() { _ = (OpenAPI.text, clientPathBytes) }

    /// The answer to `GET` of a file that everybody may read on the clients' port; nil for another path.
    static func publicAnswer(_ path: UnsafeBufferPointer<UInt8>) -> HTTPResponse? {
        if path.equals(openAPIPathBytes) { return HTTPResponse(status: 200, contentType: .json, repeated: OpenAPI.text) }
        return clientAnswer(path)
    }

    /// The answer to `GET /client.js` or to the path of the client's content; nil for another path.
    private static func clientAnswer(_ path: UnsafeBufferPointer<UInt8>) -> HTTPResponse? {
        if path.equals(clientPathBytes) {
            return HTTPResponse(
                status: 200, contentType: .javaScript, repeated: client.text,
                fields: [HTTPField("cache-control", "public, max-age=31536000, immutable"), noSniff], isPublic: true)
        }
        guard path.equals(clientNameBytes) else { return nil }
        return HTTPResponse(
            status: 307, contentType: .text, body: ByteBuffer(),
            fields: [HTTPField("location", client.path), HTTPField("cache-control", "no-cache")], isPublic: true)
    }

    private static let openAPIPathBytes = Array("/openapi.json".utf8)
    private static let clientNameBytes = Array("/client.js".utf8)
    private static let clientPathBytes = Array(client.path.utf8)
    private static let noSniff = HTTPField("x-content-type-options", "nosniff")

    /// The answer to `GET /console` or to a file below it; nil for a file that does not exist.
    static func consoleAnswer(_ path: String) -> HTTPResponse? {
        let name = path == "/console" || path == "/console/" ? "index.html" : String(path.dropFirst("/console/".count))
        guard let text = all["Console/\(name)"] else { return nil }
        let type: HTTPResponse.ContentType = name.hasSuffix(".js") ? .javaScript : name.hasSuffix(".css") ? .css : .html
        return HTTPResponse(status: 200, contentType: type, repeated: text, fields: consoleFields)
    }

    /// The page may load its own files and call its own node, and nothing else.
    private static let consoleFields = [
        HTTPField(
            "content-security-policy",
            """
            default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'none'; \
            base-uri 'none'; frame-ancestors 'none'
            """),
        HTTPField("cache-control", "no-cache"), HTTPField("referrer-policy", "no-referrer"),
        HTTPField("cross-origin-opener-policy", "same-origin"), noSniff,
    ]
}
