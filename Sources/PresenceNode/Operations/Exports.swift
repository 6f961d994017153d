import HTTP2
import NIOCore
import PresenceCore
import PresenceWire

/// The running exports of the ops port: each streams all ONLINE users of an app as NDJSON, page by page. Used on the port's loop only.
///
/// The next page is read when the client has taken the pages before. A page that cannot be read ends the stream with an error of the
/// transport, so that a client does not take a part for the whole.
struct Exports {
    /// Most exports at a time.
    static let countMax = 4

    /// One export.
    struct Export {
        let connection: HTTPServerConnection
        let stream: StreamID
        let caller: UserID
        /// The last user that was sent.
        var after: UserID?
        /// Whether the client has to take what was sent before the next page is read.
        var isFull = false
    }

    private(set) var running: [UInt32: Export] = [:]
    private var lastToken: UInt32 = 0

    init() {}

    var hasRoom: Bool { running.count < Self.countMax }

    /// Begins an export; returns the token of its stream.
    mutating func begin(on connection: HTTPServerConnection, _ stream: StreamID, of caller: UserID) -> UInt32 {
        lastToken &+= 1
        running[lastToken] = Export(connection: connection, stream: stream, caller: caller)
        return lastToken
    }

    /// Ends an export.
    @discardableResult mutating func end(_ token: UInt32) -> Export? { running.removeValue(forKey: token) }

    /// Records that a page was sent. Returns whether the next one is to be read now.
    ///
    /// - Parameter isFull: whether the client has to take it first.
    mutating func sent(_ users: [OnlineUser], to token: UInt32, isFull: Bool) -> Bool {
        guard let last = users.last else { return false }
        running[token]?.after = last.user
        running[token]?.isFull = isFull
        return !isFull
    }

    /// The lines of a page.
    static func lines(_ users: [OnlineUser]) -> ByteBuffer {
        var json = JSONWriter(reserving: 256)
        var lines = ByteBuffer()
        for user in users {
            json.clear()
            json.onlineUser(user)
            lines.writeBytes(json.bytes)
            lines.writeInteger(UInt8(ascii: "\n"))
        }
        return lines
    }

    /// Records that the client has taken what was sent. Returns whether the next page is to be read.
    mutating func drained(_ token: UInt32) -> Bool {
        guard running[token]?.isFull == true else { return false }
        running[token]?.isFull = false
        return true
    }
}
