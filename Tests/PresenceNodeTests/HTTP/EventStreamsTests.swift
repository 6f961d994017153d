import NIOCore
import PresenceCore
import PresenceWire
import Testing

@testable import HTTP2
@testable import PresenceNode

/// A connection that keeps what it is pushed.
final class ConnectionDouble: EventStreamConnection, TokenConnection {
    let isHTTP2: Bool
    var lastReceivedAt = NIODeadline.uptimeNanoseconds(0)
    var silenceLimits: HTTPServerConnection.SilenceLimits?
    var applicationCount = 0
    var applicationState: AnyObject?
    var unacknowledgedMax: TimeAmount?
    var pushed: [(stream: StreamID, text: String)] = []
    var isFull = false

    init(isHTTP2: Bool = true) { self.isHTTP2 = isHTTP2 }

    func push(_ payload: ByteBuffer, to stream: StreamID) -> Bool {
        pushed.append((stream, String(buffer: payload)))
        return isFull
    }

    func boundUnacknowledged(_ time: TimeAmount) { unacknowledgedMax = time }
}

@Suite struct EventStreamsTests {
    private var streams = EventStreams<ConnectionDouble>()
    private let connection = ConnectionDouble()
    private let login = RequestAdmission.Work(startedAt: Instant(nanoseconds: 0), kind: .login)

    private func stream(_ number: Int32) -> StreamID { StreamID(slot: UInt32(number), number: number) }

    private func limits(_ ping: Int64, _ end: Int64) -> HTTPServerConnection.SilenceLimits {
        HTTPServerConnection.SilenceLimits(ping: .seconds(ping), end: .seconds(end))
    }

    private mutating func open(
        _ session: Gateway.SessionIndex, on connection: ConnectionDouble, _ number: Int32, end: Int64 = 60
    ) {
        streams.open(session, .init(connection: connection, stream: stream(number)), limits: limits(end / 3, end), login: login)
    }

    @Test("An event goes to the stream of its session, and full streams are returned")
    mutating func pushes() {
        let other = ConnectionDouble()
        open(0, on: connection, 1)
        open(2, on: other, 3)
        other.isFull = true
        var gateway = Gateway(node: NodeID("n"), settings: GatewaySettings())
        let user = UserID(app: "default", id: "ann")
        for number in 0..<3 {
            _ = gateway.open(
                Attach(session: SessionID(stamp: UInt64(number), node: 1), user: user, platform: "web"), resumeFrom: nil,
                at: Now(instant: Instant(nanoseconds: 0), wall: 0))
        }
        expect(streams.push(gateway.output.pushes, gateway.output.payloads) == [2], "session 1 has no stream")
        expect(connection.pushed.map(\.stream) == [stream(1)] && other.pushed.map(\.stream) == [stream(3)])
        expect(other.pushed[0].text.hasPrefix("event: onConnected"))
    }

    @Test("A session is found on the connection of its stream until the stream is closed")
    mutating func openAndClose() {
        open(1, on: connection, 5)
        expect(streams.isOpen(1, on: connection) && !streams.isOpen(1, on: ConnectionDouble()) && !streams.isOpen(0, on: connection))
        expect(streams.slot(of: 1)?.stream == stream(5) && streams.slot(of: 9) == nil && connection.applicationCount == 1)
        expect(streams.close(1) == login)
        expect(streams.slot(of: 1) == nil && connection.applicationCount == 0 && streams.openSlots.isEmpty)
    }

    @Test("A login counts until its owner has answered, its stream is closed, or it is too old")
    mutating func logins() {
        for session in 0..<UInt32(3) { open(session, on: connection, Int32(session)) }
        expect(streams.takeLogin(of: 0) == login && streams.takeLogin(of: 0) == nil)
        let second = Instant(nanoseconds: 1_000_000_000)
        expect(streams.takeLogins(olderThan: .seconds(1), at: second).isEmpty)
        expect(streams.close(1) == login)
        expect(streams.takeLogins(olderThan: .seconds(1), at: second + .nanoseconds(1)) == [login])
        expect(streams.takeLogins(olderThan: .seconds(1), at: second + .nanoseconds(1)).isEmpty && streams.close(2) == nil)
    }

    @Test("The shortest times of its sessions are the limits of a connection, and over HTTP/1.1 those of TCP")
    mutating func limitsOfAConnection() {
        open(0, on: connection, 1, end: 60)
        open(1, on: connection, 3, end: 30)
        expect(connection.silenceLimits?.ping == .seconds(10) && connection.silenceLimits?.end == .seconds(30))
        expect(connection.unacknowledgedMax == nil)
        let old = ConnectionDouble(isHTTP2: false)
        open(2, on: old, 1, end: 30)
        expect(old.unacknowledgedMax == .seconds(19))
    }

    @Test("On a silent connection the sessions that have timed out end, and the limits of the others remain")
    mutating func silentSessions() {
        let lively = ConnectionDouble()
        let old = ConnectionDouble(isHTTP2: false)
        open(0, on: connection, 1, end: 30)
        open(1, on: connection, 3, end: 60)
        open(2, on: lively, 1, end: 30)
        open(3, on: old, 1, end: 30)
        let now = NIODeadline.uptimeNanoseconds(0) + .seconds(31)
        lively.lastReceivedAt = now
        let silent = streams.takeSilent(at: now)
        expect(silent.count == 1 && silent[0].connection === connection && silent[0].streams == [stream(1)])
        expect(connection.silenceLimits?.end == .seconds(60))
        expect(streams.takeSilent(at: now).isEmpty)
    }

    @Test("A client that has promised signs of life is silent without them, whatever its connection receives", arguments: [false, true])
    mutating func promisedSigns(isHTTP2: Bool) {
        let connection = ConnectionDouble(isHTTP2: isHTTP2)
        let opened = NIODeadline.now()
        for session in 0..<UInt32(3) {
            streams.open(
                session, .init(connection: connection, stream: stream(Int32(session))), limits: limits(10, 30), login: login,
                promisesSigns: session > 0)
        }
        connection.lastReceivedAt = opened + .seconds(29)
        streams.noteSign(of: 0, at: opened + .seconds(20))
        streams.noteSign(of: 2, at: opened + .seconds(20))
        expect(streams.overdueSigns(at: opened + .seconds(30)).isEmpty)
        let silent = streams.overdueSigns(at: opened + .seconds(32))
        expect(silent.count == 1 && silent[0].connection === connection && silent[0].streams == [stream(1)])
        expect(streams.overdueSigns(at: opened + .seconds(51)).map(\.streams) == [[stream(1), stream(2)]])
        expect(streams.silence(of: 1, at: opened + .seconds(32)) > .seconds(31))
        for session in [0, 2] as [UInt32] {
            expect(streams.silence(of: session, at: opened + .seconds(32)) == (isHTTP2 ? .seconds(3) : .zero))
        }
    }
}
