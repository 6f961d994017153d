import NodeFixture
import PresenceClient
import RongCloudStatus
import Testing

/// The samples of `documents/001…`, line by line.
@Suite(.timeLimit(.minutes(1))) struct RongCloudStatusTests {
    private final class Delegate: RCSubscribeEventDelegate {
        let events = Box<RCSubscribeInfoEvent>()
        let synced = Box<RCSubscribeType>()

        func onEventChange(_ subscribeEvents: [RCSubscribeInfoEvent]) {
            events.add(subscribeEvents.filter { $0.subscribeType == .onlineStatus })
        }

        func onSubscriptionSyncCompleted(_ type: RCSubscribeType) { synced.add([type]) }
    }

    @Test func theSamplesOfTheDocumentRun() async throws {
        let fixture = try await Fixture.start()
        let core = try RCCoreClient(try await fixture.configuration(of: "ann"))
        let delegate = Delegate()
        core.addSubscribeEventDelegate(delegate)
        #expect(await core.connect() == (RC_SUCCESS, "ann"))
        try await fixture.until("all that was followed is told (R13)") { delegate.synced.all == [.onlineStatus] }

        // Subscribe to user online status.
        var request = RCSubscribeEventRequest()
        request.subscribeType = .onlineStatus
        request.userIds = ["test1", "test2", "test3"]
        request.expiry = 180_000
        let subscribed = await core.subscribeEvent(request)
        #expect(RC_SUCCESS == subscribed.status && subscribed.failedUserIds == nil)

        // Query subscription status information.
        let found = await core.querySubscribeEvent(request)
        #expect(found.status == RC_SUCCESS && found.subscribeEvents?.map(\.expiry) == [180_000, 180_000, 180_000])

        // Paginated query.
        var index = 0
        var pages: [[String]] = []
        while case let page = await core.querySubscribeEvent(request, pageSize: 2, startIndex: index),
            RC_SUCCESS == page.status, let events = page.subscribeEvents, events.count > 0
        {
            pages.append(events.map(\.userId))
            index += events.count
        }
        #expect(pages.map(\.count) == [2, 1] && Set(pages.joined()) == ["test1", "test2", "test3"])

        // Listen to subscription events.
        let target = try RCCoreClient(try await fixture.configuration(of: "test2"))
        #expect(await target.connect().status == RC_SUCCESS)
        try await fixture.until("the change is told (R11)") { delegate.events.all.contains { $0.userId == "test2" && $0.isOnline } }
        #expect(await target.logout() == RC_SUCCESS)

        // Unsubscribe.
        let ended = await core.unSubscribeEvent(request)
        #expect(RC_SUCCESS == ended.status && ended.failedUserIds == nil)
        #expect(await core.querySubscribeEvent(request).subscribeEvents == [])
        core.removeSubscribeEventDelegate(delegate)
        #expect(await core.logout() == RC_SUCCESS)
        try await fixture.stop()
    }

    @Test func usersThatFailAreNamedBesideTheStatus() async throws {
        let fixture = try await Fixture.start()
        let core = try RCCoreClient(try await fixture.configuration(of: "ann"))
        let one = await core.subscribeEvent(RCSubscribeEventRequest(userIds: ["test1", "ann"], expiry: 60))
        #expect(one.status == RCErrorCode(rawValue: 6017) && one.failedUserIds == ["ann"])
        let all = await core.subscribeEvent(RCSubscribeEventRequest(userIds: ["test1"], expiry: 1))
        #expect(all.status == RCErrorCode(rawValue: 6017) && all.failedUserIds == ["test1"])
        #expect(await core.querySubscribeEvent(RCSubscribeEventRequest(), pageSize: 201, startIndex: 0).status != RC_SUCCESS)
        await core.client.close()
        try await fixture.stop()
    }
}
