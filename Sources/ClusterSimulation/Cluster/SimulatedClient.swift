import PresenceCore
import PresenceWire

/// One device of a user: the statuses that it has received, and its behavior when its stream ends.
struct SimulatedClient: CustomStringConvertible {
    static let devicesPerUser = 2
    static let platforms = ["ios", "web"]
    /// Events that a client reads and that change nothing here.
    static let ignoredEvents: [String] =
        [
            "onConnected", "onKickedOffline", "onLogout", "onSubscriptionChangedOnOtherDevices", "onSubscriptionExpired",
            "onUserProfileChanged", "onTokenExpiring",
        ]
        + RelationshipNotice.Event.allCases.map { "\($0.name)" }

    /// The open stream.
    struct Stream {
        let node: Int
        let run: Int
        let gateway: Int
        let index: Gateway.SessionIndex
        let session: SessionID
        let openedAt: Nanoseconds
    }

    let user: Int
    let device: Int
    var description: String { "user-\(user) device \(device)" }
    var isWanted = false
    /// Whether its logins report that vendor push reaches the device.
    var isPushReachable = false
    /// The true time at which its token was issued.
    var tokenIssuedAt: Milliseconds = 0
    /// The end of its token; `.max` for never.
    var tokenExpiresAt: Milliseconds = .max
    var stream: Stream?
    /// The number of its streams. An event of an earlier stream is ignored.
    var attempt = 0
    /// The newest status that it has received of each user.
    var view: [Int: ReceivedStatus] = [:]
    /// The newest version that the current stream has sent of each user.
    var streamed: [Int: String] = [:]
    /// The users of whom the current stream has said that their records are unsure, and not yet that they are sure.
    var unsure: Set<Int> = []
    /// The relationship chain of its user as the stream has told it.
    var relationship = ToldRelationship()
    /// The versions of profiles that it was told.
    var profiles = ToldProfiles()
    /// The sessions of its user that the stream has told it last; empty for none.
    var toldSessions: [String] = []
    var isSynced = false
    var syncedAt: Nanoseconds = 0
    var lastEventID: Milliseconds?

    /// The time from which the client may be shown a change: the position from which it resumes, or the change if that is earlier.
    func sight(of time: Nanoseconds) -> Nanoseconds {
        min(time, lastEventID.map { .milliseconds(Int($0 - SimulatedCluster.epoch)) } ?? time)
    }

    var pipe = Pipe()
    var stalledUntil: Nanoseconds = 0

    /// The pushes of a stream that the client has not read yet.
    struct Pipe {
        /// The number of unread bytes at which a stream is full.
        static let bytesMax = 2_000

        var pushes: [[UInt8]] = []
        var bytesCount = 0
        /// Whether the client will read at a planned time.
        var isReading = false
        /// Whether the stream is full, so that its gateway pushes nothing.
        var isBlocked = false

        mutating func takeAll() -> [[UInt8]] {
            defer { (pushes, bytesCount, isReading) = ([], 0, false) }
            return pushes
        }
    }

    /// The process that sent something to a client.
    struct Source: Equatable {
        let node: Int
        let run: Int
        /// The time by ``SimulatedNode/worked(at:)``.
        let at: Nanoseconds
        /// Whether the process sent it while its disk was full, so that it may never have been written.
        let hasFullDisk: Bool
        /// Whether its disk is slow, so that it is written later.
        let hasSlowDisk: Bool
    }

    /// The status of a user as a client shows it.
    struct ReceivedStatus: Equatable, CustomStringConvertible {
        let version: String
        let status: JSONValue
        /// The process that sent it, and the time.
        var source: Source?

        var lastUpdateTime: Milliseconds { if case .integer(let time) = status["lastUpdateTime"] { time } else { 0 } }
        var statusType: String { if case .string(let name) = status["statusType"] { name } else { "" } }
        var description: String { "\(statusType) \"\(customStatus)\" \(version)" }
        var customStatus: String { if case .string(let text) = status["customStatus"] { text } else { "" } }
    }

    init(user: Int, device: Int) {
        self.user = user
        self.device = device
    }

    /// Whether an attempt to open a stream is still wanted.
    func isComingBack(by attempt: Int) -> Bool { self.attempt == attempt && isWanted && stream == nil }

    /// Whether it still reads a stream.
    func reads(_ stream: Stream) -> Bool { self.stream?.session == stream.session }

    /// Begins to read a stream.
    ///
    /// - Parameter now: the clock of its node.
    mutating func begin(_ stream: Stream, at now: Milliseconds) {
        self.stream = stream
        attempt += 1
        isSynced = false
        streamed = [:]
        unsure = []
        toldSessions = []
        pipe = Pipe()
        profiles.begin(from: lastEventID, at: now)
    }

    /// One event as it is in the stream.
    struct Event {
        let name: Substring
        let id: Milliseconds
        let data: JSONValue

        /// Reads an event; nil if the bytes are not an event.
        init?(_ bytes: [UInt8]) {
            var rest = bytes[...]
            func line(after name: StaticString) -> ArraySlice<UInt8>? {
                guard let end = rest.firstIndex(of: UInt8(ascii: "\n")), end - rest.startIndex >= name.utf8CodeUnitCount else { return nil }
                let line = rest[..<end]
                rest = rest[(end + 1)...]
                return name.withUTF8Buffer { line.starts(with: $0) } ? line.dropFirst(name.utf8CodeUnitCount) : nil
            }
            guard let name = line(after: "event: "), let id = line(after: "id: "), let data = line(after: "data: "),
                rest.count == 1, let id = Milliseconds(String(decoding: id, as: UTF8.self)), let data = try? JSONReader.read(Array(data))
            else { return nil }
            self.name = Substring(decoding: name, as: UTF8.self)
            self.id = id
            self.data = data
        }
    }
}

extension JSONValue {
    /// The elements of an array; empty for any other value.
    var elements: [JSONValue] { if case .array(let elements) = self { elements } else { [] } }
    var text: String? { if case .string(let text) = self { text } else { nil } }
}
