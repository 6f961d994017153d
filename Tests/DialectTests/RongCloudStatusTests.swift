import NodeFixture
import PresenceClient
import RongCloudStatus
import Testing

/// The samples of `documents/001…`, line by line.
@Suite(.timeLimit(.minutes(1))) struct RongCloudStatusTests {
    private final class Delegate: RCSubscribeEventDelegate {
        let events = Box<RCSubscribeInfoEvent>()
        /// Events of any type, with the types of the users.
        let typed = Box<(user: String, type: RCSubscribeType, text: String)>()
        let synced = Box<RCSubscribeType>()
        let deprecated = Box<Bool>()
        let changed = Box<RCSubscribeEvent>()

        func onEventChange(_ subscribeEvents: [RCSubscribeInfoEvent]) {
            events.add(subscribeEvents.filter { $0.subscribeType == .onlineStatus })
            typed.add(subscribeEvents.map { ($0.userId, $0.subscribeType, $0.userStatus?.customStatus ?? "") })
        }

        func onSubscriptionSyncCompleted(_ type: RCSubscribeType) { synced.add([type]) }

        func onSubscriptionSyncCompleted() { deprecated.add([true]) }

        func onSubscriptionChangedOnOtherDevices(_ subscribeEvents: [RCSubscribeEvent]) { changed.add(subscribeEvents) }
    }

    @Test("R2 R7 R9 R10 R13 The samples of the document run") func samples() async throws {
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

    @Test("As the page says, a list of 201 users becomes several calls, and a change has neither time nor validity of its subscription")
    func differences() async throws {
        let fixture = try await ServedCluster.serving("rongcloud")
        let core = try RCCoreClient(fixture.configuration(of: "ann"))
        let delegate = Delegate()
        core.addSubscribeEventDelegate(delegate)
        #expect(await core.connect().status == RC_SUCCESS)
        var request = RCSubscribeEventRequest(userIds: (0...200).map { "user\($0)" }, expiry: 3_600)
        let subscribed = await core.subscribeEvent(request)
        #expect(subscribed.status == RC_SUCCESS && subscribed.failedUserIds == nil)
        #expect(await core.querySubscribeEvent(request).subscribeEvents?.count == 201)
        let target = try RCCoreClient(fixture.configuration(of: "user200"))
        #expect(await target.connect().status == RC_SUCCESS)
        try await fixture.until("the change is told") { delegate.events.all.contains { $0.userId == "user200" && $0.isOnline } }
        #expect(delegate.events.all.allSatisfy { $0.subscribeTime == 0 && $0.expiry == 0 })
        request.userIds = ["user200"]
        let row = try #require(await core.querySubscribeEvent(request).subscribeEvents?.first)
        #expect(row.subscribeTime > 0 && row.expiry == 3_600)
        #expect(await target.logout() == RC_SUCCESS)
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

    @Test("R13 R14 A change that another device makes has its type and its end, and the next login syncs each type by itself")
    func changesElsewhere() async throws {
        let fixture = try await ServedCluster.serving("rongcloud")
        #expect(try await fixture.call("addFriend", #"{"userID":"bob"}"#).json["resultCode"]?.number == 0)
        let (phone, desk) = (try RCCoreClient(fixture.configuration(of: "ann")), try RCCoreClient(fixture.configuration(of: "ann")))
        let delegate = Delegate()
        desk.addSubscribeEventDelegate(delegate)
        for device in [phone, desk] { #expect(await device.connect() == (RC_SUCCESS, "ann")) }
        try await fixture.until("nothing is followed yet") { delegate.synced.all == [.onlineStatus] }
        let friend = RCSubscribeEventRequest(subscribeType: .friendOnlineStatus, userIds: ["bob"], expiry: 3_600)
        for request in [friend, RCSubscribeEventRequest(userIds: ["carl"])] {
            #expect(await phone.subscribeEvent(request).status == RC_SUCCESS)
        }
        #expect(await phone.unSubscribeEvent(friend).status == RC_SUCCESS)
        try await fixture.until("the desk is told all three") { delegate.changed.all.count == 3 }
        let told = delegate.changed.all
        #expect(told.map(\.userId) == ["bob", "carl", "bob"])
        #expect(told.map(\.subscribeType) == [.friendOnlineStatus, .onlineStatus, .friendOnlineStatus])
        #expect(told.map(\.operationType) == [.subscribe, .subscribe, .unsubscribe])
        #expect(told[0].expiresAt > 0 && told.dropFirst().map(\.expiresAt) == [0, 0])

        #expect(await phone.subscribeEvent(friend).status == RC_SUCCESS)
        let tablet = try RCCoreClient(fixture.configuration(of: "ann"))
        let later = Delegate()
        tablet.addSubscribeEventDelegate(later)
        #expect(await tablet.connect().status == RC_SUCCESS)
        try await fixture.until("both types are synced") { later.synced.all.count == 2 }
        #expect(Set(later.synced.all) == [.onlineStatus, .friendOnlineStatus])
        #expect(later.deprecated.all == [true], "the deprecated callback stands for the online status")
        for device in [phone, desk, tablet] { await device.client.close() }
        try await fixture.stop()
    }

    @Test("R3 R11 A change of a friend who is followed with type 3 has that type, at login and after calls of any device")
    func typesOfChanges() async throws {
        let fixture = try await ServedCluster.serving("rongcloud")
        #expect(try await fixture.call("addFriend", #"{"userID":"bob"}"#).json["resultCode"]?.number == 0)
        let (phone, tablet) = (try RCCoreClient(fixture.configuration(of: "ann")), try RCCoreClient(fixture.configuration(of: "ann")))
        let (onPhone, onTablet) = (Delegate(), Delegate())
        phone.addSubscribeEventDelegate(onPhone)
        tablet.addSubscribeEventDelegate(onTablet)
        func say(_ text: String) async throws {
            for user in ["bob", "carl"] {
                #expect(try await fixture.call("setSelfStatus", "{\"customStatus\":\"\(text)\"}", as: user, node: 1).status == 200)
            }
        }
        // Waits until a delegate is told a text of both users, each with the type of its subscription.
        func told(_ delegate: Delegate, _ text: String, _ types: [String: RCSubscribeType]) async throws {
            try await fixture.until("\(text) with \(types)") {
                types.allSatisfy { user, type in delegate.typed.all.contains { $0 == (user, type, text) } }
            }
            #expect(delegate.typed.all.allSatisfy { $0.text != text || $0.type == types[$0.user] })
        }

        try await say("first")
        #expect(await phone.connect().status == RC_SUCCESS)
        let friend = RCSubscribeEventRequest(subscribeType: .friendOnlineStatus, userIds: ["bob"])
        for request in [friend, RCSubscribeEventRequest(userIds: ["carl"])] {
            #expect(await phone.subscribeEvent(request).status == RC_SUCCESS)
        }
        try await told(onPhone, "first", ["bob": .friendOnlineStatus, "carl": .onlineStatus])
        #expect(await tablet.connect().status == RC_SUCCESS)
        try await told(onTablet, "first", ["bob": .friendOnlineStatus, "carl": .onlineStatus])

        // Carl is no friend. The refused call changes no type.
        let refused = RCSubscribeEventRequest(subscribeType: .friendOnlineStatus, userIds: ["carl"])
        #expect(await phone.subscribeEvent(refused).failedUserIds == ["carl"])
        try await say("second")
        for delegate in [onPhone, onTablet] { try await told(delegate, "second", ["bob": .friendOnlineStatus, "carl": .onlineStatus]) }

        #expect(await phone.subscribeEvent(RCSubscribeEventRequest(userIds: ["bob"])).status == RC_SUCCESS)
        try await fixture.until("the tablet knows the new type") {
            onTablet.changed.all.contains { $0.userId == "bob" && $0.subscribeType == .onlineStatus }
        }
        try await say("third")
        for delegate in [onPhone, onTablet] { try await told(delegate, "third", ["bob": .onlineStatus, "carl": .onlineStatus]) }
        for device in [phone, tablet] { await device.client.close() }
        try await fixture.stop()
    }

    @Test("A row of a profile has no status, and names the user and the subscription") func rowWithoutStatus() async throws {
        let fixture = try await ServedCluster.serving("rongcloud")
        let core = try RCCoreClient(fixture.configuration(of: "ann"))
        let request = RCSubscribeEventRequest(subscribeType: .userProfile, userIds: ["bob"], expiry: 60)
        #expect(await core.subscribeEvent(request).status == RC_SUCCESS)
        let row = try #require(await core.querySubscribeEvent(request).subscribeEvents?.first)
        #expect(row.userId == "bob" && row.subscribeType == .userProfile && row.expiry == 60 && row.subscribeTime > 0)
        #expect(row.userStatus == nil && !row.isOnline && row.onlinePlatforms == [])
        await core.client.close()
        try await fixture.stop()
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

    @Test("The own status is not an event, because no user subscribes to itself") func ownStatus() async throws {
        let fixture = try await ServedCluster.serving("rongcloud")
        let core = try RCCoreClient(fixture.configuration(of: "ann"))
        let delegate = Delegate()
        core.addSubscribeEventDelegate(delegate)
        #expect(await core.connect() == (RC_SUCCESS, "ann"))
        let later = Delegate()
        core.addSubscribeEventDelegate(later)
        #expect(await core.subscribeEvent(RCSubscribeEventRequest(userIds: ["bob"], expiry: 60)).status == RC_SUCCESS)
        for user in ["ann", "bob"] {
            #expect(try await fixture.call("setSelfStatus", #"{"customStatus":"here"}"#, as: user, node: 1).status == 200)
        }
        try await fixture.until("the client knows its own text") { await core.client.status(of: "ann")?.customStatus == "here" }
        try await fixture.until("both delegates are told bob's") {
            [delegate, later].allSatisfy { $0.events.all.contains { $0.userStatus?.customStatus == "here" } }
        }
        for delegate in [delegate, later] { #expect(delegate.events.all.allSatisfy { $0.userId == "bob" }) }
        await core.client.close()
        try await fixture.stop()
    }
}
