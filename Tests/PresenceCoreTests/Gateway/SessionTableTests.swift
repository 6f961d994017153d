import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct SessionTableTests: ~Copyable {
    var table = SessionTable()

    private func id(_ number: UInt64) -> SessionID { SessionID(stamp: number, node: 1) }

    private mutating func open(_ number: UInt64, as user: WatchIndex.UserIndex = 0) -> Gateway.SessionIndex {
        let resume = ResumePosition(resumeFrom: nil, nodePosition: 0, openedAt: 0)
        let attach = Attach(session: id(number), user: UserID(app: "default", id: "ann"), platform: "ios")
        return table.open(SessionTable.Session(attach, user: user, resume: resume))
    }

    @Test("The index of a closed session is used again, and finds the new session only")
    mutating func indices() {
        let (first, second) = (open(1), open(2))
        table.close(first)
        expect(!table.isOpen(first) && table.index(of: id(1)) == nil && table.count == 1)
        expect(open(3) == first && table.index(of: id(3)) == first && table.openIndices == [first, second])
        expect(table[first].id == id(3) && !table.isOpen(99))
        table.checkInvariants()
    }

    @Test("A login is complete once the list and all records are here and the stream is not blocked")
    mutating func login() {
        let session = open(1)
        expect(!table.isReadyToComplete(session) && !table[session].hasList)
        expect(table.receiveList(session))
        expect(!table.receiveList(session) && table.isReadyToComplete(session))
        table[session].backlog.expect(5, knowing: .nothing)
        expect(!table.isReadyToComplete(session))
        _ = table[session].backlog.takeExpected(5)
        expect(table.block(session, at: Instant(nanoseconds: 0)))
        expect(!table.isReadyToComplete(session))
        expect(table.unblock(session))
        table.completeSync(session)
        expect(table[session].isSynced && table[session].takesSharedEvents && !table.isReadyToComplete(session))
        table.checkInvariants()
    }

    @Test("A session that has ended does not complete its login and takes no shared event")
    mutating func end() {
        let session = open(1)
        _ = table.receiveList(session)
        table.end(session, isExpired: false)
        expect(table[session].hasEnded && !table[session].isSynced && !table[session].takesSharedEvents)
        expect(!table.isReadyToComplete(session) && !table.receiveList(session))
    }

    @Test("A session takes shared events only while no record is held back from it")
    mutating func heldSession() {
        let session = open(1)
        _ = table.receiveList(session)
        table.completeSync(session)
        table[session].resume.hold(at: 5, publishesOthers: true)
        _ = table[session].backlog.postpone(3)
        table[session].releasePosition()
        expect(!table[session].takesSharedEvents)
        expect(table[session].backlog.takePending() == [3])
        table[session].releasePosition()
        expect(table[session].takesSharedEvents)
    }

    @Test("A stream that is blocked for the whole timeout is cut off once; one that drains in time is not")
    mutating func slowReaders() {
        let (slow, quick, late) = (open(1), open(2), open(3))
        let start = Instant(nanoseconds: 0)
        for session in [slow, quick] { expect(table.block(session, at: start)) }
        expect(table.block(late, at: start + .seconds(1)) && !table.block(late, at: start + .seconds(2)))
        expect(table.unblock(quick) && !table.unblock(quick))
        expect(table.cutOff(blockedFor: .seconds(60), at: start + .seconds(60) + .nanoseconds(-1)) == [])
        expect(table.cutOff(blockedFor: .seconds(60), at: start + .seconds(60)) == [slow])
        expect(table.cutOff(blockedFor: .seconds(60), at: start + .seconds(61)) == [late])
        expect(table[slow].isBlocked, "its queue is still full")
        expect(table.unblock(slow) && table.block(slow, at: start + .seconds(70)))
    }

    @Test("At the end of a turn, sessions that were closed or are blocked are left out")
    mutating func gathering() {
        let sessions = [open(1), open(2), open(3)]
        for session in sessions { table.gather(session) }
        table.close(sessions[0])
        _ = table.block(sessions[1], at: Instant(nanoseconds: 0))
        expect(table.takeGathering() == [sessions[2]])
        expect(table.takeGathering() == [])
    }

    @Test("A login names the types of its subscriptions, and that of online statuses if it has none")
    mutating func types() {
        let session = open(1)
        expect(table[session].types == [Subscription.onlineStatus])
        for type in [4, 0, 2, 2, 9] as [UInt8] { table[session].addType(type) }
        expect(table[session].types == [2, 4])
    }
}
