import NIOCore
import PresenceWire

/// The lists and the profile of one user, as the nodes answer them.
struct AnsweredLists: Equatable {
    var friends: Set<String> = []
    var sent: Set<String> = []
    var received: Set<String> = []
    var blocked: Set<String> = []
    /// The sequences of the friend list and of the requests.
    var sequences = ListSequences()
    var profile = RelationshipLedger.Profile()

    /// Every name in one of the lists.
    var names: Set<String> { friends.union(sent).union(received).union(blocked) }
}

/// The sequences of a user's two lists; nil for one that is not known.
struct ListSequences: Equatable {
    var friends: String?
    var requests: String?
}

/// Reads the lists of many users, each in several calls and a few users at a time.
///
/// A user whose call fails begins again later.
struct ListReading {
    /// The next call of a user.
    enum Step: Equatable {
        case friends(cursor: String?)
        case requests(after: Int64)
        case blocked(cursor: String?)
        case profile

        var operation: String {
            switch self {
            case .friends: "getFriendList"
            case .requests: "getPendencyList"
            case .blocked: "getBlackList"
            case .profile: "getSelfProfile"
            }
        }

        var body: String {
            var json = JSONWriter()
            json.object { json in
                switch self {
                case .friends(let cursor?), .blocked(let cursor?): json.member("cursor", cursor)
                case .requests(let timestamp):
                    json.member("type", 3)
                    json.member("timestamp", timestamp)
                case .friends(nil), .blocked(nil), .profile: break
                }
            }
            return String(decoding: json.bytes, as: UTF8.self)
        }
    }

    /// Users that are read at the same time.
    static let usersMax = 32

    /// The error for an answer that is not as documented.
    struct UnexpectedAnswer: Error {
        /// The member that is missing, or has another type.
        let member: String
    }

    /// The users that may begin.
    private var waiting: CircularBuffer<Int> = []
    /// The users that begin later.
    private var delayed: [(user: Int, time: Double)] = []
    private var openCount = 0
    private var partial: [AnsweredLists]
    /// The lists of each user that was read completely.
    private(set) var lists: [AnsweredLists?]

    init(users: Int) {
        partial = Array(repeating: AnsweredLists(), count: users)
        lists = Array(repeating: nil, count: users)
    }

    /// Whether every user that was asked for has been read.
    var isComplete: Bool { waiting.isEmpty && delayed.isEmpty && openCount == 0 }

    /// Reads these users, at the earliest at `time`.
    mutating func read(_ users: [Int], at time: Double) { delayed += users.map { ($0, time) } }

    /// Drops the users that have not begun.
    mutating func stop() { (waiting, delayed) = ([], []) }

    /// Takes the next user to begin; nil when none is due, or enough are being read.
    mutating func next(at now: Double) -> (user: Int, step: Step)? {
        if waiting.isEmpty, !delayed.isEmpty {
            waiting.append(contentsOf: delayed.filter { $0.time <= now }.map(\.user))
            delayed.removeAll { $0.time <= now }
        }
        guard openCount < Self.usersMax, let user = waiting.popFirst() else { return nil }
        openCount += 1
        (partial[user], lists[user]) = (AnsweredLists(), nil)
        return (user, .friends(cursor: nil))
    }

    /// Records a failed call. The user begins again at `time`.
    mutating func fail(_ user: Int, retryAt time: Double) {
        openCount -= 1
        delayed.append((user, time))
    }

    /// Takes an answer. Returns the user's next call; nil when the user is complete.
    mutating func receive(_ body: [UInt8], of step: Step, user: Int) throws(UnexpectedAnswer) -> Step? {
        guard let answer = try? JSONReader.read(body) else { throw UnexpectedAnswer(member: "JSON") }
        let next = try partial[user].add(answer, of: step)
        guard next == nil else { return next }
        openCount -= 1
        lists[user] = partial[user]
        return nil
    }
}

extension AnsweredLists {
    /// Adds a page. Returns the next call; nil after the last.
    fileprivate mutating func add(
        _ answer: JSONValue, of step: ListReading.Step
    ) throws(ListReading.UnexpectedAnswer) -> ListReading.Step? {
        switch step {
        case .friends:
            for friend in try answer.list("friendList") { friends.insert(try friend.text("userID")) }
            // The sequence of the first page is that of the whole list.
            if sequences.friends == nil { sequences.friends = try answer.text("seq") }
            return answer["cursor"] == nil ? .requests(after: 0) : .friends(cursor: try answer.text("cursor"))
        case .requests:
            for item in try answer.list("pendencyList") {
                let name = try item.text("userID")
                if item["type"] == 1 { received.insert(name) } else { sent.insert(name) }
            }
            sequences.requests = try answer.text("seq")
            guard case .integer(let timestamp)? = answer["timestamp"] else { throw .init(member: "timestamp") }
            return timestamp == 0 ? .blocked(cursor: nil) : .requests(after: timestamp)
        case .blocked:
            for value in try answer.list("userIDs") {
                guard case .string(let name) = value else { throw .init(member: "userIDs") }
                blocked.insert(name)
            }
            return answer["cursor"] == nil ? .profile : .blocked(cursor: try answer.text("cursor"))
        case .profile:
            guard let fields = answer["profile"], let type = AllowType(rawValue: try fields.text("allowType")) else {
                throw .init(member: "profile")
            }
            profile = RelationshipLedger.Profile(nick: try fields.text("nick"), allowType: type)
            return nil
        }
    }
}

extension JSONValue {
    /// A member that must be a text.
    fileprivate func text(_ name: String) throws(ListReading.UnexpectedAnswer) -> String {
        guard case .string(let text)? = self[name] else { throw .init(member: name) }
        return text
    }

    /// A member that must be an array.
    fileprivate func list(_ name: String) throws(ListReading.UnexpectedAnswer) -> [JSONValue] {
        guard case .array(let elements)? = self[name] else { throw .init(member: name) }
        return elements
    }
}
