import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct CallTests {
    /// A broken node may send anything.
    @Test("An owner's answer that belongs to another operation completes no call") func foreignAnswers() {
        let record = Record(blank: UserID(app: "default", id: "ann"))
        let answers: [Answer] = [
            .record(record), .done, .visibility(Privacy()), .records([record]), .subscriptions([], total: 0), .followers([1]),
            .followerLimitReached([record.user]), .subscribed(evicted: []), .explained(.view, []), .rateLimited(retryAfter: 1),
        ]
        let calls: [(Call, Answer?)] = [
            (.setSelfStatus(customStatus: "busy", seconds: nil), .record(record)),
            (.publishEvent(value: 1, ext: "", seconds: 60, isForOnlineOnly: true, isSynced: true), .record(record)),
            (.getUserStatus([record.user]), nil), (.subscribeUserStatus([record.user], seconds: nil, sync: false, subscribeType: 1), nil),
            (.unsubscribeUserStatus(nil), .done), (.getSubscribedUserStatus(only: nil, offset: 0, limit: 1), nil), (.logout(nil), .done),
            (.setVisibility(.init()), .visibility(Privacy())), (.getVisibility, .visibility(Privacy())), (.kick(reason: ""), .done),
            (.setAppPolicy([]), .done), (.explain(record.user), nil), (.importUsers([record.user]), nil),
        ]
        for (call, completing) in calls {
            for answer in answers { #expect((call.completed(by: answer) != nil) == (answer == completing), "\(call), \(answer)") }
            #expect(call.completed(by: .refused(.unavailable)) == .refused(.unavailable))
        }
    }
}
