import HTTP2
import NIOCore
import PresenceCore
import PresenceWire

extension HTTPResponse {
    /// The answer 200 with JSON. As every answer of the API it ends with a line feed, so that a terminal shows it as a line.
    init(json: [UInt8]) { self.init(status: 200, contentType: .json, body: ByteBuffer(lineOf: json)) }

    /// The answer to a rejected request.
    init(_ problem: Problem, allow: StaticString? = nil) {
        self.init(
            status: problem.status, contentType: .problem, body: ByteBuffer(lineOf: problem.json), retryAfter: problem.retryAfter,
            allow: allow)
    }
}

extension JSONWriter {
    /// Ends the text with a line feed. Nothing may be written after it.
    mutating func endLine() { bytes.append(lineFeed) }
}

extension ByteBuffer {
    /// Makes a buffer of JSON text and a line feed.
    init(lineOf json: [UInt8]) {
        self = ByteBufferAllocator().buffer(capacity: json.count + 1)
        writeBytes(json)
        writeInteger(lineFeed)
    }
}

private let lineFeed = UInt8(ascii: "\n")
