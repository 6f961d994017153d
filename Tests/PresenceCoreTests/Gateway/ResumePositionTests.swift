import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct ResumePositionTests {
    private func version(_ milliseconds: Milliseconds) -> Version { Version(milliseconds: milliseconds, counter: 0, node: 0) }

    @Test(
        "A position that no node can have given is not taken over into the stream",
        arguments: [(-6, nil), (.min, nil), (0, 0), (1_000, 1_000), (1_001, nil)] as [(Milliseconds, Milliseconds?)])
    func accepted(_ position: Milliseconds, taken: Milliseconds?) { #expect(ResumePosition.accepted(position, at: 1_000) == taken) }

    @Test(
        "A client knows no record that is newer than its position or than the position of the node",
        arguments: [
            (Milliseconds?.none, Milliseconds(0)), (50, 50), (700, 600), (-5, 0), (1_001, 0),
        ])
    func floor(resumeFrom: Milliseconds?, floor: Milliseconds) {
        let resume = ResumePosition(resumeFrom: resumeFrom, nodePosition: 600, openedAt: 1_000)
        #expect(resume.floor.milliseconds == floor)
        #expect(resume.isResumed == (resumeFrom != nil))
    }

    @Test("A position in the future is not accepted")
    func futurePosition() {
        #expect(ResumePosition.accepted(1_000, at: 1_000) == 1_000)
        #expect(ResumePosition.accepted(1_001, at: 1_000) == nil)
        #expect(ResumePosition.accepted(nil, at: 1_000) == nil)
    }

    @Test("The position stays at the floor until the session was sent all that it follows")
    func idBeforeTheLoginIsComplete() {
        let resume = ResumePosition(resumeFrom: 50, nodePosition: 600, openedAt: 1_000)
        #expect(resume.id(at: 700, hasSentAll: false) == 50)
        #expect(resume.id(at: 700, hasSentAll: true) == 700)
    }

    @Test("The position stays where it was when the first record was held back, until it is released")
    func heldPosition() {
        var resume = ResumePosition(resumeFrom: 50, nodePosition: 600, openedAt: 1_000)
        resume.hold(at: 700, publishesOthers: true)
        resume.hold(at: 800, publishesOthers: true)
        #expect(resume.isHeld && resume.id(at: 900, hasSentAll: true) == 700)
        resume.release()
        #expect(!resume.isHeld && resume.id(at: 900, hasSentAll: true) == 900)
    }

    @Test("While the policy forbids other users' records, the position is held at the floor")
    func heldPositionWithoutOthers() {
        var resume = ResumePosition(resumeFrom: 50, nodePosition: 600, openedAt: 1_000)
        resume.hold(at: 700, publishesOthers: false)
        #expect(resume.id(at: 900, hasSentAll: true) == 50)
    }

    @Test("A version counts as possibly dropped if it is newer than the floor and not surely written after the login")
    func droppedVersions() {
        let resume = ResumePosition(resumeFrom: 50, nodePosition: 600, openedAt: 1_000)
        #expect(!resume.mayDrop(version(50)) && resume.mayDrop(version(51)))
        #expect(resume.mayDrop(version(61_000)) && !resume.mayDrop(version(61_001)))
        #expect(resume.mayPrecede(version(50)) && !resume.mayPrecede(version(61_001)))
    }
}
