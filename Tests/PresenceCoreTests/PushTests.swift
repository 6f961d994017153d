import PresenceWire
import Testing

@testable import PresenceCore

/// N19, N20: who can be reached by vendor push stays ONLINE.
@Suite struct PushTests {
    var cluster = TestCluster(nodes: 3)
    /// Follows ann.
    let bob: Int

    init() {
        bob = cluster.login("bob", on: 2)
        cluster.subscribe("bob", to: ["ann"], on: 2)
        setPolicy(true)
    }

    mutating func setPolicy(_ isOn: Bool) {
        cluster.call(.setAppPolicy(Array("{\"settings\":{\"state.pushReachableStaysOnline\":\(isOn)}}".utf8)), by: "admin", on: 0)
        cluster.advance(.milliseconds(100))
    }

    var told: [String] { cluster.statuses(told: bob, of: "ann") }

    @Test("A lost session of a reachable device changes nothing") mutating func lostSession() {
        let ann = cluster.login("ann", on: 1, device: "a", isPushReachable: true)
        let before = cluster.clients[bob].events.count
        cluster.lose(ann)
        cluster.advance(.seconds(60))
        #expect(cluster.clients[bob].events.count == before)
        #expect(cluster.record(of: "ann").statusType == .online)
        #expect(cluster.record(of: "ann").onlinePlatforms == ["ios"])
    }

    @Test("The user is OFFLINE if the setting is off or the device is not reachable") mutating func switchedOff() {
        let silent = cluster.login("ann", on: 1, device: "a")
        cluster.lose(silent)
        cluster.advance(.seconds(3))
        #expect(told.last == "OFFLINE")  // N20
        setPolicy(false)
        let reachable = cluster.login("ann", on: 1, device: "a", isPushReachable: true)
        #expect(told.last == "ONLINE")
        cluster.lose(reachable)
        cluster.advance(.seconds(3))
        #expect(told.last == "OFFLINE")
    }

    @Test("A logout ends the reachability") mutating func logout() {
        cluster.lose(cluster.login("ann", on: 1, device: "a", isPushReachable: true))
        cluster.advance(.seconds(3))
        cluster.call(.logout(nil), by: "ann", on: 0)
        cluster.advance(.milliseconds(100))
        #expect(told.last == "UNLOGINED")
        #expect(cluster.record(of: "ann").pushDevices.isEmpty)
    }

    @Test("The logout of one session ends the reachability of its device alone") mutating func logoutOfOne() {
        cluster.lose(cluster.login("ann", on: 1, platform: "web", device: "b", isPushReachable: true))
        let phone = cluster.login("ann", on: 1, device: "a", isPushReachable: true)
        cluster.call(.logout(cluster.clients[phone].session), by: "ann", on: 0)
        cluster.advance(.seconds(3))
        #expect(told.last == "ONLINE")
        #expect(cluster.record(of: "ann").onlinePlatforms == ["web"])
    }

    @Test("A kick ends the reachability") mutating func kick() {
        cluster.lose(cluster.login("ann", on: 1, device: "a", isPushReachable: true))
        cluster.advance(.seconds(3))
        cluster.call(.kick(reason: "banned"), by: "ann", on: 0)
        cluster.advance(.milliseconds(100))
        #expect(told.last == "OFFLINE")
    }

    @Test("A login without push replaces the same device and no other", arguments: [("a", "OFFLINE"), ("b", "ONLINE")])
    mutating func loginWithoutPush(device: String, status: String) {
        cluster.lose(cluster.login("ann", on: 1, device: "a", isPushReachable: true))
        cluster.advance(.seconds(3))
        cluster.lose(cluster.login("ann", on: 0, device: device))
        cluster.advance(.seconds(3))
        #expect(told.last == status)
    }

    @Test(
        "A login takes the place of the devices that the policy does not allow besides it, also of those without a session",
        arguments: Policy.MultiClient.allCases, [true, false])
    mutating func replacedDevices(multiClient: Policy.MultiClient, isOpen: Bool) {
        cluster.call(.setAppPolicy(Array("{\"settings\":{\"login.multiClient\":\"\(multiClient)\"}}".utf8)), by: "admin", on: 0)
        cluster.advance(.milliseconds(100))
        for (platform, device) in [("ios", "a"), ("web", "b")] {
            let session = cluster.login("ann", on: 1, platform: platform, device: device, isPushReachable: true)
            if !isOpen || platform == "web" { cluster.lose(session) }
            cluster.advance(.seconds(3))
        }
        let tablet = cluster.login("ann", on: 0, device: "c")
        let left = cluster.record(of: "ann").pushDevices.map(\.deviceID)
        #expect(left == (multiClient == .all ? ["a", "b"] : multiClient == .perPlatform ? ["b"] : []))
        cluster.close(tablet, .loggedOut)
        cluster.advance(.seconds(3))
        #expect(told.last == (multiClient == .single ? "UNLOGINED" : "ONLINE"))
    }

    @Test("Of too many devices the one that was lost first is replaced") mutating func tooMany() {
        for number in 0...PushDevice.countMax {
            cluster.lose(cluster.login("ann", on: 1, device: "d\(number)", isPushReachable: true))
            cluster.advance(.seconds(3), step: .milliseconds(500))
        }
        let devices = cluster.record(of: "ann").pushDevices.map(\.deviceID)
        #expect(Set(devices) == Set((1...PushDevice.countMax).map { "d\($0)" }))
        #expect(told.last == "ONLINE")
    }

    @Test("A device counts for at most 30 days") mutating func thirtyDays() {
        cluster = TestCluster(nodes: 1)
        setPolicy(true)
        cluster.lose(cluster.login("ann", on: 0, device: "a", isPushReachable: true))
        cluster.advance(.seconds(30 * 86_400 - 1_000), step: .seconds(500))
        #expect(cluster.record(of: "ann").statusType == .online)
        cluster.advance(.seconds(1_500), step: .seconds(500))
        #expect(cluster.record(of: "ann").statusType == .offline)
    }

    @Test("A device counts during its session and for at least 15 days after it") mutating func fifteenDays() {
        cluster = TestCluster(nodes: 1)
        setPolicy(true)
        let ann = cluster.login("ann", on: 0, device: "a", isPushReachable: true)
        cluster.advance(.seconds(44 * 86_400), step: .seconds(1_000))
        cluster.lose(ann)
        cluster.advance(.seconds(15 * 86_400), step: .seconds(1_000))
        #expect(cluster.record(of: "ann").statusType == .online)
        cluster.advance(.seconds(15 * 86_400), step: .seconds(1_000))
        #expect(cluster.record(of: "ann").statusType == .offline)
    }

    @Test("With the setting off, users without a session go OFFLINE; on again, open sessions count") mutating func switchChanges() {
        cluster.lose(cluster.login("ann", on: 1, device: "a", isPushReachable: true))
        let carl = cluster.login("carl", on: 1, device: "c", isPushReachable: true)
        cluster.advance(.seconds(3))
        setPolicy(false)
        cluster.advance(.seconds(1))
        #expect(told.last == "OFFLINE")
        #expect(cluster.record(of: "carl").pushDevices.isEmpty)
        setPolicy(true)
        cluster.lose(carl)
        cluster.advance(.seconds(3))
        #expect(cluster.record(of: "carl").statusType == .online)
    }

    @Test("The reachability survives the owner and the gateway") mutating func lostNodes() throws {
        let name = cluster.user(ownedBy: 0)
        cluster.subscribe("bob", to: [name], on: 2)
        cluster.login(name, on: 0, device: "a", isPushReachable: true)
        cluster.advance(.seconds(1))
        cluster.kill(0)  // Gateway and owner at once.
        cluster.advance(.seconds(30))
        #expect(cluster.statuses(told: bob, of: name).drop { $0 == "UNLOGINED" }.allSatisfy { $0 == "ONLINE" })
        #expect(cluster.record(of: name).statusType == .online)
        try cluster.restart(0)
        cluster.advance(.seconds(30))
        #expect(cluster.ownerIndex(of: name) == 0)
        #expect(cluster.record(of: name).statusType == .online)
        #expect(cluster.record(of: name).pushDevices.map(\.deviceID) == ["a"])
    }
}
