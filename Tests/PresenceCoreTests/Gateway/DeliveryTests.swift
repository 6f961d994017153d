import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct DeliveryTests {
    private func record(_ version: Milliseconds, text: String) -> Record {
        var record = Record(blank: user("ann"))
        record.version = Version(milliseconds: version, counter: 0, node: 1)
        record.customStatus = text
        record.lastUpdateTime = version
        return record
    }

    private func hidden(_ record: Record, showing hiddenView: Record) -> Record {
        var record = record
        let rule = Visibility().changed(by: .init(mode: .nobody))
        record.privacy = Privacy().changed(to: rule, writtenAt: record.version, hiddenView: hiddenView, at: hiddenView.version)
        return record
    }

    private func resume(from position: Milliseconds?) -> ResumePosition {
        ResumePosition(resumeFrom: position, nodePosition: 100_000, openedAt: 200_000)
    }

    private func change(_ old: Record, _ new: Record, resumedFrom position: Milliseconds? = nil) -> Delivery.Change {
        Delivery.change(from: old, to: new, for: user("bob"), resume: resume(from: position), policy: Policy())
    }

    @Test("A change that looks different is pushed, and an older version is not")
    func plainChange() {
        let (old, new) = (record(1, text: "a"), record(2, text: "b"))
        #expect(change(old, new) == .push(new))
        #expect(change(new, old) == .none)
    }

    @Test("A new version that looks the same is not pushed, unless the session has resumed and may hold another record")
    func sameLook() {
        let old = record(1, text: "a")
        var new = old
        new.version = Version(milliseconds: 2, counter: 0, node: 1)
        #expect(change(old, new) == .looksSame(from: old.version, to: new.version))
        #expect(change(old, new, resumedFrom: 50) == .push(new))
    }

    @Test("A viewer from whom the user hides is not pushed the user's changes")
    func hiddenChange() {
        let hiddenView = record(1, text: "gone")
        let (old, new) = (hidden(record(1, text: "a"), showing: hiddenView), hidden(record(2, text: "b"), showing: hiddenView))
        if case .push = change(old, new) { Issue.record("the viewer was shown the change") }
        #expect(Delivery.differsByViewer(from: old, to: new, policy: Policy()))
        #expect(!Delivery.differsByViewer(from: record(1, text: "a"), to: record(2, text: "b"), policy: Policy()))
    }

    @Test(
        "A session that begins to follow is sent only what it does not know",
        arguments: [
            (Backlog.Knowledge.nothing, true), (.version(Version(milliseconds: 4, counter: 0, node: 1)), true),
            (.version(Version(milliseconds: 5, counter: 0, node: 1)), false), (.changes(before: 5), true), (.changes(before: 6), false),
        ])
    func dueRecords(knowledge: Backlog.Knowledge, isDue: Bool) {
        let due = Delivery.isDue(record(5, text: "a"), to: user("bob"), knowing: knowledge, isLogin: false, policy: Policy())
        #expect(due == isDue)
    }

    @Test("If the policy replays only online users, a new client does not receive offline users")
    func replayOfOnlineUsers() {
        var policy = Policy()
        policy.replay = .online
        var ann = record(5, text: "a")
        ann.statusType = .offline
        let isDue = { (record: Record, isLogin: Bool) in
            Delivery.isDue(record, to: user("bob"), knowing: .nothing, isLogin: isLogin, policy: policy)
        }
        #expect(!isDue(ann, true) && isDue(ann, false))
        ann.statusType = .online
        #expect(isDue(ann, true))
    }

    @Test("Only the calling session knows the version of the answer")
    func knowledgeOfAnAnswer() {
        let version = Version(milliseconds: 5, counter: 0, node: 1)
        let knowledge = { (delivered: DeliveredRecord, isAsking: Bool) in
            Delivery.knowledge(of: ListUpdate.Followed(target: user("ann"), delivered: delivered, since: 7), isAsking: isAsking)
        }
        #expect(knowledge(.version(version), true) == .version(version) && knowledge(.version(version), false) == .nothing)
        #expect(knowledge(.nothing, true) == .nothing)
        #expect(knowledge(.laterChanges, true) == .changes(before: 7) && knowledge(.laterChanges, false) == .changes(before: 7))
    }

    @Test("A client that resumes knows the users that it followed before its position, up to that position")
    func knowledgeOfAResumedClient() {
        let floor = Version(milliseconds: 10, counter: 0, node: 0)
        let knowledge = { (since: Milliseconds, isWhole: Bool) in
            Delivery.knowledge(
                of: ListUpdate.Followed(target: user("ann"), delivered: .nothing, since: since), resumingFrom: floor, isWhole: isWhole)
        }
        #expect(knowledge(9, true) == .version(floor) && knowledge(10, true) == .nothing && knowledge(9, false) == .nothing)
    }
}
