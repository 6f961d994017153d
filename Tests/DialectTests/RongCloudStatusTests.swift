import NodeFixture
import PresenceClient
import RongCloudStatus
import Testing

/// The samples of `documents/001…`, line by line.
@Suite(.timeLimit(.minutes(1))) struct RongCloudStatusTests {
    private final class Delegate: RCSubscribeEventDelegate {
        let events = Box<RCSubscribeInfoEvent>()
        let synced = Box<RCSubscribeType>()
        let deprecated = Box<Bool>()
        let changed = Box<RCSubscribeEvent>()

        func onEventChange(_ subscribeEvents: [RCSubscribeInfoEvent]) {
            events.add(subscribeEvents.filter { $0.subscribeType == .onlineStatus })
        }

        func onSubscriptionSyncCompleted(_ type: RCSubscribeType) { synced.add([type]) }

        func onSubscriptionSyncCompleted() { deprecated.add([true]) }

        func onSubscriptionChangedOnOtherDevices(_ subscribeEvents: [RCSubscribeEvent]) { changed.add(subscribeEvents) }
    }

    @Test("The samples of the document run") func samples() async throws {
        let fixture = try await ServedCluster.serving("rongcloud")
        let core = try RCCoreClient(fixture.configuration(of: "ann"))
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
        let target = try RCCoreClient(fixture.configuration(of: "test2"))
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

    @Test("Failed users are named in addition to the status") func failedUsers() async throws {
        let fixture = try await ServedCluster.serving("rongcloud")
        let core = try RCCoreClient(fixture.configuration(of: "ann"))
        let one = await core.subscribeEvent(RCSubscribeEventRequest(userIds: ["test1", "ann"], expiry: 60))
        #expect(one.status == RCErrorCode(rawValue: 6017) && one.failedUserIds == ["ann"])
        let all = await core.subscribeEvent(RCSubscribeEventRequest(userIds: ["test1"], expiry: 1))
        #expect(all.status == RCErrorCode(rawValue: 6017) && all.failedUserIds == ["test1"])
        #expect(await core.querySubscribeEvent(RCSubscribeEventRequest(), pageSize: 201, startIndex: 0).status != RC_SUCCESS)
        await core.client.close()
        try await fixture.stop()
    }

    @Test("R14 A change on another device has its type and its end") func changesElsewhere() {
        let delegate = Delegate()
        let bridge = RCCoreClient.Bridge(delegate)
        bridge.onSubscriptionChangedOnOtherDevices(
            SubscriptionChange(
                subscriptions: [
                    SubscriptionChange.Entry(userID: "bob", subscribeType: .friendOnlineStatus, expiresAt: 9_000),
                    SubscriptionChange.Entry(userID: "carl"),
                ], unsubscriptions: [SubscriptionChange.Entry(userID: "dora", subscribeType: .friendOnlineStatus)]))
        let told = delegate.changed.all
        #expect(told.map(\.userId) == ["bob", "carl", "dora"])
        #expect(told.map(\.subscribeType) == [RCSubscribeTypeFriendOnlineStatus, RCSubscribeTypeOnlineStatus, .friendOnlineStatus])
        #expect(told.map(\.expiresAt) == [9_000, 0, 0])
        #expect(told.map(\.operationType) == [.subscribe, .subscribe, .unsubscribe])
    }

    @Test("R13 Each type is synced by itself; the deprecated callback stands for the online status") func syncedTypes() {
        let delegate = Delegate()
        let bridge = RCCoreClient.Bridge(delegate)
        for type in [SubscribeType.onlineStatus, .friendOnlineStatus] { bridge.onSubscriptionSyncCompleted(type) }
        #expect(delegate.synced.all == [.onlineStatus, .friendOnlineStatus] && delegate.deprecated.all == [true])
    }

    @Test("A row whose status is not known names the user and the subscription") func unknownStatus() {
        let row = RCSubscribeInfoEvent(
            Subscription(userID: "bob", subscribeType: 1, subscribedAt: 5_000, expiresAt: 65_000, userStatus: nil))
        #expect(row.userId == "bob" && row.expiry == 60 && row.subscribeTime == 5_000 && row.userStatus == nil && !row.isOnline)
    }

    @Test("Any expiry is the node's to refuse", arguments: [-1, .min, .max]) func expiries(seconds: Int) async throws {
        let fixture = try await ServedCluster.serving("rongcloud")
        try RCCoreClient.configure(fixture.configuration(of: "ann"))
        let core = RCCoreClient.sharedCoreClient()
        let answer = await core.subscribeEvent(RCSubscribeEventRequest(userIds: ["bob"], expiry: seconds))
        #expect(answer.status == RCErrorCode(rawValue: 6017) && answer.failedUserIds == ["bob"])
        await core.client.close()
        try await fixture.stop()
    }

    @Test("The own status is not an event, because no user subscribes to itself") func ownStatus() {
        let delegate = Delegate()
        let bridge = RCCoreClient.Bridge(delegate)
        bridge.onConnected(
            Session(sessionID: "s", userID: "ann", node: "n", heartbeatInterval: 30, heartbeatTimeout: 400, serverTime: 1))
        bridge.onUserStatusChanged([UserStatus(userID: "ann", statusType: .online, version: "01")])
        bridge.onUserStatusChanged(["ann", "bob"].map { UserStatus(userID: $0, statusType: .online, version: "02") })
        #expect(delegate.events.all.map(\.userId) == ["bob"])
    }
}
