import PresenceWire
import Testing

@testable import PresenceCore

/// A viewer cannot tell a user who hides from a user who is lost.
extension VisibilityTests {
    /// A record's times since its last change of status; that of an older text as it is.
    private func shape(_ record: Record) -> [String] {
        let since = { (time: Milliseconds) in "\(time - record.lastOnlineStatusUpdateTime)" }
        let textAt = record.lastCustomStatusUpdateTime
        let text = textAt < record.lastOnlineStatusUpdateTime ? "\(textAt)" : since(textAt)
        let isDated = record.version.milliseconds == record.lastOnlineStatusUpdateTime
        return [
            "\(record.statusType)", record.customStatus, "\(record.customStatusExpiresAt)", "\(record.onlinePlatforms)", text,
            since(record.lastUpdateTime), since(record.lastSeenTime), "\(isDated)", "\(record.version.stamp & 0xFFFF)",
            "\(record.events.newest?.value ?? 0)",
        ]
    }

    @Test("A hidden user has the record of a lost user, in every field and preset", arguments: Policy.Preset.allCases)
    mutating func hiddenIsLikeLost(preset: Policy.Preset) throws {
        var settings = CoreSettings()
        settings.policy = Policy(preset)
        cluster = TestCluster(nodes: 3, settings: settings)
        cluster.login("bob", on: 1)
        var twin = 0
        for name in ["ann", "twin"] {
            twin = cluster.login(name, on: 0, customStatus: "same")
            cluster.call(.publishEvent(value: 10_001, ext: "e", seconds: 600, isForOnlineOnly: false, isSynced: true), by: name, on: 0)
        }
        cluster.subscribe("bob", to: ["ann", "twin"], on: 1)
        cluster.advance(.seconds(5))
        // The tick that ends the grace comes 37 ms late.
        cluster.advance(.milliseconds(13), step: .milliseconds(13))
        cluster.lose(twin)
        cluster.advance(.seconds(3))
        hide("ann", .init(isInvisible: true))
        let hidden = shape(try #require(status(of: "ann", to: "bob", on: 1)))
        let gone = shape(try #require(status(of: "twin", to: "bob", on: 1)))
        #expect(hidden == gone)
        #expect(hidden[0] == "offline")

        // Both come back.
        cluster.advance(.seconds(2))
        hide("ann", .init(isInvisible: false))
        cluster.login("twin", on: 0, customStatus: "same")
        let (shown, back) = (status(of: "ann", to: "bob", on: 1), status(of: "twin", to: "bob", on: 1))
        let (seen, right) = (shape(try #require(shown)), shape(try #require(back)))
        #expect(seen[0...1] == right[0...1] && seen[3...7] == right[3...7])
    }

    @Test("The versions of a block and of its end have the counters of a loss and of a login", arguments: [false, true])
    mutating func counters(isBlock: Bool) {
        func hides(_ isHidden: Bool) -> Call {
            isBlock ? .chain(.setBlocked([user("bob")], isHidden)) : .setVisibility(.init(isInvisible: isHidden))
        }
        cluster.login("bob", on: 1)
        // One after the other, because both may have the same owner, whose counter rises with each write of a millisecond.
        cluster.advance(.seconds(1))
        cluster.login("ann", on: 0)
        cluster.advance(.seconds(1))
        let twin = cluster.login("twin", on: 0)
        cluster.advance(.seconds(1))
        cluster.subscribe("bob", to: ["ann", "twin"], on: 1)
        cluster.advance(.seconds(4))
        cluster.call(hides(true), by: "ann", on: 0)
        cluster.advance(.seconds(1))
        cluster.lose(twin)
        cluster.advance(.seconds(4))
        cluster.call(hides(false), by: "ann", on: 0)
        cluster.advance(.seconds(1))
        cluster.login("twin", on: 0)
        #expect(cluster.statuses(told: 0, of: "ann") == ["ONLINE", "OFFLINE", "ONLINE"])
        #expect(countersTold("ann") == ["0000", "0000", "0000"] && countersTold("twin") == countersTold("ann"))
    }

    /// The counters of the versions that bob was told of a user.
    private func countersTold(_ name: String) -> [String] {
        let statuses = cluster.clients[0].events.flatMap { $0.data["userStatusList"]?.elements ?? [] }
        let versions = statuses.filter { $0["userID"]?.textValue == name }.map { $0["version"]?.textValue ?? "" }
        return versions.map { String($0.dropFirst(12).prefix(4)) }
    }

    @Test("A rule that comes with its record moves no version of what hidden users show")
    mutating func ruleComesWithItsRecord() throws {
        cluster.login("ann", on: 0)
        hide("ann", .init(mode: .nobody))
        cluster.setStatus("ann", "secret", on: 0)
        let owner = cluster.ownerIndex(of: "ann")
        let before = try #require(status(of: "ann", to: "bob", on: (owner + 1) % 3))
        var rows = cluster.processes[owner].node.owner.users.rows(of: user("ann").slot)
        #expect(rows.prefix(2).map(\.kind) == [.status, .visibility])
        rows.removeLast(rows.count - 2)
        var other = Owner(clock: VersionClock(node: 9), settings: CoreSettings())
        var outbox = Outbox()
        #expect(try other.receive(rows, isOwned: { _ in true }, isAwaited: true, in: &outbox[at: cluster.now]))
        #expect(other.record(of: user("ann")).shown(to: user("bob")).version == before.version)
    }
}
