import DequeModule
import PresenceWire

/// The unused stream tickets of the users that this node owns (<doc:HTTPAPI#Browsers>).
///
/// A browser's `EventSource` cannot send a token, and a token must not stand in a URL. It sends a ticket, which opens one stream. The owner
/// of the user keeps the tickets, so a ticket opens one stream in the whole cluster, at any node. Tickets are in memory only: when the
/// owner changes, they are void, and clients request new ones.
struct StreamTickets {
    /// How long a ticket is valid.
    static let lifetime = Duration.seconds(30)
    /// Most unused tickets of a user. A further one replaces the oldest, for the tabs of a browser request one each.
    static let perUserMax = 16
    /// Most tickets that a user may request within ``lifetime``: those of 16 tabs that lose their streams six times.
    static let requestsMax = 100
    /// Most tickets that this node issues to an app within ``lifetime``: some 20 MB. Beyond them a new ticket is refused with 50002.
    static let perAppMax = 65_536
    /// The same for all apps.
    static let countMax = 4 * perAppMax

    private struct Ticket {
        /// Nil once the ticket is used or replaced. The request still counts until the deadline.
        var text: String?
        let deadline: Instant
    }

    /// Oldest first.
    private var tickets: [UserID: [Ticket]] = [:]
    /// The deadlines of all tickets, in the order of issue, which is their order too.
    private var issued: Deque<(user: UserID, deadline: Instant)> = []
    /// The number of these tickets by app.
    private var issuedByApp: [String: Int] = [:]

    /// The outcome of a request for a ticket.
    enum OnIssue: Equatable {
        case issued
        /// The user has requested too many tickets. The next one is issued after so many seconds.
        case rateLimited(seconds: UInt64)
        case overloaded
    }

    /// Keeps a new ticket, unless the user, the app or this node has too many.
    mutating func issue(_ text: String, to user: UserID, at now: Instant) -> OnIssue {
        expire(at: now)
        var held = tickets[user] ?? []
        if held.count >= Self.requestsMax, let oldest = held.first {
            return .rateLimited(seconds: UInt64((oldest.deadline - now).wholeMilliseconds + 999) / 1_000)
        }
        let app = String(user.app)
        guard issued.count < Self.countMax, issuedByApp[app, default: 0] < Self.perAppMax else { return .overloaded }
        if held.count(where: { $0.text != nil }) >= Self.perUserMax, let oldest = held.firstIndex(where: { $0.text != nil }) {
            held[oldest].text = nil
        }
        let ticket = Ticket(text: text, deadline: now + Self.lifetime)
        tickets[user] = held + [ticket]
        issued.append((user, ticket.deadline))
        issuedByApp[app, default: 0] += 1
        return .issued
    }

    /// Uses a ticket. Returns nil, or the refusal of a ticket that is unknown, used or expired.
    mutating func redeem(_ text: String, of user: UserID, at now: Instant) -> Refusal? {
        expire(at: now)
        guard let index = tickets[user]?.firstIndex(where: { $0.text == text }) else { return .voidTicket }
        tickets[user]?[index].text = nil
        return nil
    }

    private mutating func expire(at now: Instant) {
        while let oldest = issued.first, oldest.deadline <= now {
            issued.removeFirst()
            let left = tickets[oldest.user]?.dropFirst() ?? []
            tickets[oldest.user] = left.isEmpty ? nil : Array(left)
            let app = String(oldest.user.app)
            let leftOfApp = issuedByApp[app, default: 1] - 1
            issuedByApp[app] = leftOfApp == 0 ? nil : leftOfApp
        }
    }
}

extension Refusal {
    /// 6014: a stream ticket opens no stream.
    package static let voidTicket = Refusal(
        code: 6014, detail: "ticket: is unknown, used or expired; request a new one with POST /v1/streamTicket")
}
