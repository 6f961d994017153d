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
    /// Most tickets of a user. A further one replaces the oldest, for the tabs of a browser request one each.
    static let perUserMax = 16
    /// Most tickets of this node: some 20 MB. Beyond them a new ticket is refused with 50002.
    static let countMax = 65_536

    private struct Ticket {
        let text: String
        let deadline: Instant
    }

    private var tickets: [UserID: [Ticket]] = [:]
    /// The deadlines in the order of issue, which is their order too. Those of used tickets are among them.
    private var issued: Deque<(user: UserID, deadline: Instant)> = []

    /// Keeps a new ticket. Returns nil, or the refusal.
    mutating func issue(_ text: String, to user: UserID, at now: Instant) -> Refusal? {
        expire(at: now)
        guard issued.count < Self.countMax else { return .overloaded }
        let ticket = Ticket(text: text, deadline: now + Self.lifetime)
        let held = tickets[user, default: []]
        tickets[user] = held.suffix(Self.perUserMax - 1) + [ticket]
        issued.append((user, ticket.deadline))
        return nil
    }

    /// Uses a ticket. Returns nil, or the refusal of a ticket that is unknown, used or expired.
    mutating func redeem(_ text: String, of user: UserID, at now: Instant) -> Refusal? {
        expire(at: now)
        guard let index = tickets[user]?.firstIndex(where: { $0.text == text }) else { return .voidTicket }
        remove(from: user) { $0.remove(at: index) }
        return nil
    }

    private mutating func expire(at now: Instant) {
        while let oldest = issued.first, oldest.deadline <= now {
            issued.removeFirst()
            remove(from: oldest.user) { held in held.removeAll { $0.deadline <= now } }
        }
    }

    private mutating func remove(from user: UserID, _ body: (inout [Ticket]) -> Void) {
        guard var held = tickets[user] else { return }
        body(&held)
        tickets[user] = held.isEmpty ? nil : held
    }
}

extension Refusal {
    /// 6014: a stream ticket opens no stream.
    package static let voidTicket = Refusal(
        code: 6014, detail: "ticket: is unknown, used or expired; request a new one with POST /v1/streamTicket")
}
