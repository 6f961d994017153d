import HTTP2
import PresenceWire
import Testing

@testable import PresenceCore
@testable import PresenceNode

@Suite struct CallersTests {
    private var callers = Callers()
    private let connection = ConnectionDouble()
    private let now = Now(instant: Instant(nanoseconds: 0), wall: 1_000)
    private let header = Array("Bearer abc".utf8)
    private let ann = Caller(user: UserID(app: "default", id: "ann"), isAdmin: false, expiresAt: 2_000, issuedAt: 500)

    private mutating func caller(_ header: [UInt8], at wall: Milliseconds = 1_000, _ voidTokens: VoidTokens = VoidTokens()) -> Caller? {
        header.withUnsafeBufferPointer {
            callers.caller(of: $0, on: connection, at: Now(instant: Instant(nanoseconds: 0), wall: wall), voidTokens)
        }
    }

    @Test("A token that was checked is known on the connection and on the loop until 5 s after its end")
    mutating func knownToken() throws {
        expect(caller(header) == nil)
        try expect(callers.checked(header, .success(ann), with: 0, VoidTokens()) == ann)
        expect(caller(header) == ann && caller(Array("Bearer abd".utf8)) == nil)
        expect(connection.applicationState is VerifiedToken)
        expect(caller(header, at: 6_999) == ann && caller(header, at: 7_000) == nil)
    }

    @Test("A token is kept once, however the word Bearer is written, and all of them have a limit in bytes")
    mutating func tokensInBytes() throws {
        let spellings = ["Bearer abc", "bearer abc", "BEARER abc", "Bearer  abc"].map { Array($0.utf8) }
        _ = try callers.checked(spellings[0], .success(ann), with: 0, VoidTokens())
        let bytes = callers.bytes
        for spelling in spellings {
            expect(caller(spelling) == ann)
            _ = try callers.checked(spelling, .success(ann), with: 0, VoidTokens())
        }
        // The value of the field that was checked last is kept, with its blanks.
        _ = try callers.checked(spellings[0], .success(ann), with: 0, VoidTokens())
        expect(callers.bytes == bytes)
        for number in 0..<2_000 {
            _ = try callers.checked(
                spellings[0] + Array("\(number)".utf8) + [UInt8](repeating: 0x78, count: 8_000), .success(ann), with: 0, VoidTokens())
            expect(callers.bytes <= VerifiedTokens.bytesMax)
        }
    }

    @Test("A token that was issued a second before its user was kicked is refused, also if it is known")
    mutating func kickedUser() throws {
        _ = try callers.checked(header, .success(ann), with: 0, VoidTokens())
        expect(caller(header) == ann)
        var voidTokens = VoidTokens()
        voidTokens[ann.user] = 1_500
        expect(caller(header, voidTokens) == nil)
        let problem = #expect(throws: Problem.self) { try callers.checked(header, .success(ann), with: 0, voidTokens) }
        expect(problem?.status == 401 && problem?.detail.hasPrefix("iat: ") == true)
        voidTokens[ann.user] = 1_499
        expect(caller(header, voidTokens) == ann)
    }

    @Test("After a kick the refusal of a token without iat says that the token needs one")
    mutating func kickedUserWithoutTime() {
        var caller = ann
        caller.issuedAt = 0
        var voidTokens = VoidTokens()
        voidTokens[ann.user] = 1_700_000_000_000
        let problem = #expect(throws: Problem.self) { try callers.checked(header, .success(caller), with: 0, voidTokens) }
        expect(problem?.detail.contains("no iat") == true)
    }

    @Test("A token that fails its check is refused with the reason, and stays unknown")
    mutating func invalidToken() {
        let error = AuthenticationError(reason: "the token has expired")
        let problem = #expect(throws: Problem.self) { try callers.checked(header, .failure(error), with: 0, VoidTokens()) }
        expect(problem?.detail.contains(error.reason) == true)
        expect(caller(header) == nil)
    }

    @Test("Once its keys are replaced, a token that is known on the connection and on the loop is checked once more")
    mutating func replacedKeys() throws {
        _ = try callers.checked(header, .success(ann), with: 0, VoidTokens())
        expect(caller(header) == ann && callers.bytes > 0)
        callers.keysChanged(to: 2)
        expect(caller(header) == nil && callers.bytes == 0)
        // A check that began with the old keys answers its own request only.
        try expect(callers.checked(header, .success(ann), with: 1, VoidTokens()) == ann)
        expect(caller(header) == nil && callers.bytes == 0)
        _ = try callers.checked(header, .success(ann), with: 2, VoidTokens())
        expect(caller(header) == ann)
        // Announcements may arrive in another order.
        callers.keysChanged(to: 1)
        expect(caller(header) == ann)
    }

    @Test("A token whose keys cannot be fetched is answered 503 with code 50001")
    mutating func missingKeys() {
        let error = AuthenticationError(reason: "the keys of app \"a\" cannot be fetched now; retry later", isTemporary: true)
        let problem = #expect(throws: Problem.self) { try callers.checked(header, .failure(error), with: 0, VoidTokens()) }
        expect(problem?.status == 503 && problem?.code == 50001)
    }

    @Test(
        "The token follows the word Bearer, in any case, and one or more blanks",
        arguments: [
            ("Bearer abc", "abc"), ("bEARER abc", "abc"), ("Bearer  abc", "abc"), ("Bearer    abc", "abc"), ("Bearer ", nil),
            ("Bearer   ", nil), ("Bearer\tabc", nil), ("Bearerabc", nil), ("Basic abc", nil), ("", nil),
        ])
    func bearerToken(header: String, token: String?) {
        let found = try? Callers.bearerToken(in: Array(header.utf8))
        expect(found.map { String(decoding: $0, as: UTF8.self) } == token)
    }

    @Test("A refused login is refused again with the same token until the refusal ends")
    mutating func refusedLogin() throws {
        let refusal = LoginRates.Refusal(.loginsPerUser, loginsMax: 10, wait: 1_000_000_000, at: now.instant)
        callers.remember(refusal, of: ann, on: connection)
        expect(callers.loginRefusal(on: connection, at: now.instant) == nil, "the connection has no token")
        _ = try callers.checked(header, .success(ann), with: 0, VoidTokens())
        _ = caller(header)
        let bob = Caller(user: UserID(app: "default", id: "bob"), isAdmin: false, expiresAt: 2_000, issuedAt: 500)
        callers.remember(refusal, of: bob, on: connection)
        expect(callers.loginRefusal(on: connection, at: now.instant) == nil, "another user was refused")
        callers.remember(refusal, of: ann, on: connection)
        expect(callers.loginRefusal(on: connection, at: now.instant + .milliseconds(999)) === refusal)
        expect(callers.loginRefusal(on: connection, at: now.instant + .seconds(1)) == nil)
    }

    @Test("A user whom the owner has refused a ticket is refused again until the next one succeeds, and no other user is")
    mutating func refusedTicket() {
        let bob = UserID(app: "default", id: "bob")
        callers.refusedTickets.add(ann.user, for: 2, at: now.instant)
        for (milliseconds, seconds) in [(0, 2), (999, 2), (1_000, 1), (1_999, 1), (2_000, nil), (1_999, nil)] as [(Int, Int?)] {
            let delay = callers.refusedTickets.delay(of: ann.user, at: now.instant + .milliseconds(milliseconds))
            expect(delay == seconds, "after \(milliseconds) ms")
        }
        expect(callers.refusedTickets.delay(of: bob, at: now.instant) == nil)
    }

    @Test("Refused tickets are kept of a bounded number of users")
    mutating func refusedTicketsCount() {
        for number in 0...RefusedTickets.countMax {
            callers.refusedTickets.add(UserID(app: "default", id: "u\(number)"), for: 30, at: now.instant)
        }
        let kept = (0...RefusedTickets.countMax).filter { number in
            callers.refusedTickets.delay(of: UserID(app: "default", id: "u\(number)"), at: now.instant) != nil
        }
        expect(kept == [RefusedTickets.countMax])
    }
}
