import HTTP2
import NIOConcurrencyHelpers
import NIOCore
import PresenceCore
import PresenceWire

/// The running exports of the ops port: each streams all ONLINE users of an app, or the facts of all users, as NDJSON, page by page. Used
/// on the port's loop only.
///
/// The next page is read when the client has taken the pages before. A page that cannot be read ends the stream with an error of the
/// transport, so that a client does not take a part for the whole. A client that does not take what was sent for ``unreadMax`` is cut off
/// in the same way.
struct Exports {
    /// Most exports of an app at a time.
    static let perAppMax = 4
    /// Most exports of all apps at a time. Each may hold a page and a full queue of its stream.
    static let countMax = 64
    /// The time for which sent pages may stay unread.
    static let unreadMax = TimeAmount.minutes(1)

    /// The time after which a backup ends in any case: the copy takes room on the disk until then.
    static let backupMax = TimeAmount.hours(1)
    /// Bytes of a database that are read and sent at a time.
    static let pieceBytes = 256 << 10
    /// Most users whose facts are read at a time. Each may have a page.
    static let usersAtOnce = 8

    /// The content of an export: the parameter `kind`.
    enum Content: String {
        /// The ONLINE users.
        case online
        /// The facts of all users that an import takes.
        case all
        /// A copy of the node's database: `GET /admin/v1/backup`, of which a node makes one at a time.
        case backup

        /// Reads the parameter in a path with its query; nil for another value. Without the parameter the content is ``online``.
        init?(query target: [UInt8]) {
            let parts = String(decoding: target, as: UTF8.self).split(separator: "?", maxSplits: 1)
            let fields = parts.count < 2 ? [] : parts[1].split(separator: "&")
            guard let field = fields.first(where: { $0.hasPrefix("kind=") }) else {
                self = .online
                return
            }
            self.init(rawValue: String(field.dropFirst("kind=".count)))
            if self == .backup { return nil }
        }
    }

    /// One export.
    struct Export {
        let content: Content
        let connection: HTTPServerConnection
        let stream: StreamID
        let caller: UserID
        /// The database, for the content ``Content/backup``, once it is copied.
        fileprivate(set) var copy: StoreBackup.Copy?
        /// Whether the copy is wanted, for the same content. The store asks on a thread of its own.
        fileprivate let isWanted = NIOLockedValueBox(true)
        /// The last user that was sent.
        var after: UserID?
        fileprivate(set) var step = Step.reading
        /// The users of the last page whose facts are not sent yet.
        fileprivate(set) var users: [UserID] = []
        /// The last fact of the first of these users that was sent; nil for none.
        fileprivate(set) var position: FactPosition?
        /// Whether no users follow ``users``.
        fileprivate(set) var isLastPage = false

        /// Compresses the parts, if the client accepts that.
        fileprivate(set) var compressor: StreamCompressor?

        /// Sends a part. Returns whether the client has to take it before the next one.
        func push(_ part: ByteBuffer) -> Bool { connection.push(compressor?.compressed(part) ?? part, to: stream) }

        /// Ends the stream behind the last part.
        func finish() {
            if let compressor { _ = connection.push(compressor.end(), to: stream) }
            connection.finish(stream)
        }

        /// The users whose facts are read next. A user with many facts is read alone.
        var usersToRead: [UserID] { Array(users.prefix(position == nil ? Exports.usersAtOnce : 1)) }
    }

    /// The event for which an export waits.
    enum Step: Equatable {
        /// The core reads a page.
        case reading
        /// The client has to take what was sent before the next page is read.
        case unread(since: NIODeadline)
        /// The client has to take the rest. The last page was sent.
        case finishing(since: NIODeadline)
    }

    /// The end of an export. The raw value is the label of the metric.
    enum End: String, CaseIterable {
        /// The client has all users.
        case complete
        case clientLeft
        /// The client has not read what was sent.
        case unread
        /// A page could not be read.
        case failed
    }

    /// The counts for the metrics.
    struct Counts: Sendable {
        var running = 0
        var ended: [End: UInt64] = [:]
    }

    private(set) var running: [UInt32: Export] = [:]
    private var ended: [End: UInt64] = [:]
    private var lastToken: UInt32 = 0

    init() {}

    var counts: Counts { Counts(running: running.count, ended: ended) }

    /// Why a caller's export cannot begin now; nil if it can.
    func refusal(of caller: UserID) -> String? {
        if running.values.count(where: { $0.caller.app == caller.app }) >= Self.perAppMax {
            return "export: this node streams \(Self.perAppMax) exports of this app already; read or close one, or retry after 10 s"
        }
        return running.count < Self.countMax ? nil : "export: this node streams \(Self.countMax) exports already; retry after 10 s"
    }

    /// Begins an export; returns the token of its stream.
    mutating func begin(
        _ content: Content, on connection: HTTPServerConnection, _ stream: StreamID, of caller: UserID
    ) -> UInt32 {
        lastToken &+= 1
        running[lastToken] = Export(content: content, connection: connection, stream: stream, caller: caller)
        return lastToken
    }

    /// Records how the parts of an export are compressed; nil for not at all.
    mutating func compress(_ token: UInt32, with compressor: StreamCompressor?) { running[token]?.compressor = compressor }

    /// Ends an export, and counts its end. Returns nil if it had ended before.
    @discardableResult mutating func end(_ token: UInt32, _ end: End) -> Export? {
        guard let export = running.removeValue(forKey: token) else { return nil }
        ended[end, default: 0] += 1
        export.isWanted.withLockedValue { $0 = false }
        return export
    }

    /// Records that a page was sent. Returns whether the next one is to be read now.
    ///
    /// - Parameter isFull: whether the client has to take it first.
    mutating func sent(_ users: [OnlineUser], to token: UInt32, isFull: Bool, at now: NIODeadline) -> Bool {
        guard let last = users.last else { return false }
        running[token]?.after = last.user
        if isFull { running[token]?.step = .unread(since: now) }
        return !isFull
    }

    /// Whether the copy of a backup is still wanted, for another thread.
    func wanted(_ token: UInt32) -> @Sendable () -> Bool {
        guard let isWanted = running[token]?.isWanted else { return { false } }
        return { isWanted.withLockedValue { $0 } }
    }

    /// Takes the copy of a backup.
    mutating func took(_ copy: StoreBackup.Copy, of token: UInt32) { running[token]?.copy = copy }

    /// Records that a piece of a database was sent. Returns whether the next one is to be read now.
    mutating func sentPiece(to token: UInt32, isFull: Bool, at now: NIODeadline) -> Bool {
        if isFull { running[token]?.step = .unread(since: now) }
        return !isFull
    }

    /// Records the users of a page whose facts are to be sent.
    mutating func took(_ users: [UserID], isLast: Bool, of token: UInt32) {
        running[token]?.users = users
        running[token]?.after = users.last
        running[token]?.isLastPage = isLast
    }

    /// The step after facts were sent.
    enum OnSent {
        /// The next facts, or the next page of users, are to be read.
        case read
        /// The client has to take what was sent first.
        case wait
        /// All facts were sent.
        case finish
    }

    /// Records that facts were sent.
    ///
    /// - Parameters:
    ///   - count: the users all of whose facts were sent.
    ///   - position: the last fact of the next user that was sent; nil for none.
    mutating func sent(
        ofUsers count: Int, position: FactPosition?, to token: UInt32, isFull: Bool, at now: NIODeadline
    ) -> OnSent {
        guard var export = running[token] else { return .wait }
        export.users.removeFirst(min(count, export.users.count))
        export.position = position
        let isOver = export.users.isEmpty && export.isLastPage
        if isFull, !isOver { export.step = .unread(since: now) }
        running[token] = export
        return isOver ? .finish : isFull ? .wait : .read
    }

    /// The lines of the pages of some users, up to the first user with more facts than a page has. Nil if a page is missing.
    static func lines(_ pages: [FactExportAnswer?]) -> (buffer: ByteBuffer, usersCount: Int, position: FactPosition?)? {
        var lines = ByteBuffer()
        for (number, page) in pages.enumerated() {
            guard let page else { return nil }
            for fact in page.facts {
                lines.writeBytes(fact)
                lines.writeInteger(UInt8(ascii: "\n"))
            }
            if let next = page.next { return (lines, number, next) }
        }
        return (lines, pages.count, nil)
    }

    /// Records that the last page is being sent.
    mutating func finish(_ token: UInt32, at now: NIODeadline) { running[token]?.step = .finishing(since: now) }

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
        guard case .unread = running[token]?.step else { return false }
        running[token]?.step = .reading
        return true
    }

    /// The time at which a client must have taken what was sent. Nil once the export has ended.
    ///
    /// While the core reads a page nothing is unread, and the time is ``unreadMax`` from now.
    func readDeadline(of token: UInt32, at now: NIODeadline) -> NIODeadline? {
        switch running[token]?.step {
        case .unread(let since), .finishing(let since): since + Self.unreadMax
        case .reading: now + Self.unreadMax
        case nil: nil
        }
    }
}
