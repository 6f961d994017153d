import PresenceWire
import Testing

@testable import PresenceCore

/// Tickets that open one event stream: see ``PresenceCore/StreamTickets``.
@Suite struct StreamTicketsTests {
    var tickets = StreamTickets()

    private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    @Test("A ticket opens one stream of its own user") mutating func once() {
        #expect(tickets.issue("a", to: user("ann"), at: at(0)) == .issued)
        #expect(tickets.redeem("a", of: user("ben"), at: at(1)) == .voidTicket)
        #expect(tickets.redeem("b", of: user("ann"), at: at(1)) == .voidTicket)
        #expect(tickets.redeem("a", of: user("ann"), at: at(1)) == nil)
        #expect(tickets.redeem("a", of: user("ann"), at: at(1)) == .voidTicket)
    }

    @Test("A ticket is valid for 30 s") mutating func expiry() {
        for ticket in ["a", "b"] { #expect(tickets.issue(ticket, to: user("ann"), at: at(0)) == .issued) }
        #expect(tickets.redeem("a", of: user("ann"), at: at(29_999)) == nil)
        #expect(tickets.redeem("b", of: user("ann"), at: at(30_000)) == .voidTicket)
    }

    @Test("The 17th ticket of a user replaces the oldest") mutating func perUser() {
        for number in 0...16 { #expect(tickets.issue("\(number)", to: user("ann"), at: at(0)) == .issued) }
        #expect(tickets.redeem("0", of: user("ann"), at: at(1)) == .voidTicket)
        for number in 1...16 { #expect(tickets.redeem("\(number)", of: user("ann"), at: at(1)) == nil) }
    }

    @Test("A user who has requested 100 tickets within 30 s gets no more, used ones included, and others do") mutating func requests() {
        for number in 0..<StreamTickets.requestsMax {
            #expect(tickets.issue("\(number)", to: user("ann"), at: at(Int64(number))) == .issued)
            #expect(tickets.redeem("\(number)", of: user("ann"), at: at(Int64(number))) == nil)
        }
        #expect(tickets.issue("more", to: user("ann"), at: at(1_000)) == .rateLimited(seconds: 29))
        #expect(tickets.issue("more", to: user("ben"), at: at(1_000)) == .issued)
        #expect(tickets.issue("more", to: user("ann"), at: at(29_999)) == .rateLimited(seconds: 1))
        #expect(tickets.issue("more", to: user("ann"), at: at(30_000)) == .issued)
        #expect(tickets.redeem("more", of: user("ann"), at: at(30_000)) == nil)
    }

    /// Issues as many tickets as an app may have, to one user each. Returns whether all were issued.
    private mutating func fill(_ app: String, at time: Instant) -> Bool {
        (0..<StreamTickets.perAppMax).allSatisfy { tickets.issue("t", to: UserID(app: app, id: "\($0)"), at: time) == .issued }
    }

    @Test("An app with 65,536 tickets is refused the next with 50002 until the oldest expires, and other apps are not")
    mutating func full() {
        let isBusyFull = fill("busy", at: at(0))
        #expect(isBusyFull)
        #expect(tickets.issue("t", to: UserID(app: "busy", id: "ann"), at: at(29_999)) == .overloaded)
        #expect(tickets.issue("t", to: UserID(app: "calm", id: "ann"), at: at(29_999)) == .issued)
        #expect(tickets.redeem("t", of: UserID(app: "calm", id: "ann"), at: at(29_999)) == nil)
        #expect(tickets.issue("t", to: UserID(app: "busy", id: "ann"), at: at(30_000)) == .issued)
        let isCalmFull = fill("calm", at: at(60_000))
        #expect(isCalmFull, "each expired ticket makes room in its app")
    }

    @Test("A node that keeps as many tickets as four apps may have refuses every app until the oldest expires")
    mutating func fullOfApps() {
        for app in 0..<4 {
            let isFull = fill("app\(app)", at: at(Int64(app)))
            #expect(isFull)
        }
        #expect(tickets.issue("t", to: user("ann"), at: at(29_999)) == .overloaded)
        #expect(tickets.issue("t", to: user("ann"), at: at(30_000)) == .issued)
    }

    @Test("A ticket opens a stream through any node, at the owner of its user") func cluster() {
        var cluster = TestCluster(nodes: 3)
        let ann = cluster.user(ownedBy: 1)
        #expect(cluster.call(.issueTicket("a"), by: ann, on: 0) == .ticket("a"))
        #expect(cluster.call(.redeemTicket("a"), by: ann, on: 2) == .done)
        #expect(cluster.call(.redeemTicket("a"), by: ann, on: 1) == .refused(.voidTicket))
    }
}
