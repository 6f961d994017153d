import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct GatewayTests: ~Copyable {
    var gateway = Gateway(node: NodeID("n"), settings: GatewaySettings())
    var now = Now(instant: Instant(nanoseconds: 0), wall: 1_790_000_000_000)
    var session: Gateway.SessionIndex = 0

    init() {
        let attach = Attach(session: SessionID(stamp: 1, node: 1), user: user("bob"), platform: "ios")
        session = gateway.open(attach, resumeFrom: nil, at: now)
        gateway.receive(.deliver(record("bob", 1)))
        let followed = ["ann", "carl"].map { ListUpdate.Followed(target: user($0), delivered: .version(.zero), since: 1) }
        gateway.receive(
            .listUpdate(ListUpdate(user: user("bob"), version: Version(stamp: 1, node: 1), isWhole: true, added: followed, removed: [])))
        gateway.receive(.deliver(record("ann", 1)))
        gateway.receive(.deliver(record("carl", 1)))
        gateway.endTurn()
        gateway.output = Gateway.Output()
    }

    func record(_ id: String, _ version: Milliseconds) -> Record {
        var record = Record(blank: user(id))
        record.version = Version(milliseconds: version, counter: 0, node: 1)
        record.customStatus = "v\(version)"
        record.lastUpdateTime = version
        return record
    }

    mutating func pushed() -> [String] {
        gateway.endTurn()
        defer { gateway.output = Gateway.Output() }
        return gateway.output.pushes.flatMap { push -> [String] in
            let lines = String(decoding: gateway.output.payloads[Int(push.payload)], as: UTF8.self).split(separator: "\n")
            let data = (try? JSONReader.read(Array(lines[2].dropFirst(6).utf8))) ?? .null
            return (data["userStatusList"]?.elements ?? []).compactMap { $0["customStatus"]?.textValue }
        }
    }

    @Test("A full session is pushed only the newest record of each user when it drains")
    mutating func fullSession() {
        gateway.block(session, at: now)
        for version in 2...5 { gateway.receive(.deliver(record("ann", Milliseconds(version)))) }
        gateway.receive(.deliver(record("carl", 2)))
        #expect(gateway.output.pushes.isEmpty)
        gateway.unblock(session)
        let told = pushed()
        #expect(told.sorted() == ["v2", "v5"])
        #expect(gateway.counters.recordsCoalesced == 3)
    }

    @Test("A session that has ended is pushed nothing and is not ended again")
    mutating func endedSession() {
        var policy = Policy()
        policy.statusEnabled = false
        gateway.receive(.policy(app: "default", policy))
        gateway.receive(.kicked(user("bob"), before: now.wall, reason: "kicked"))
        #expect(gateway.output.pushes.count == 1 && gateway.output.ended == [session])
        gateway.output = Gateway.Output()
        gateway.receive(.deliver(record("bob", 2)))
        gateway.receive(
            .listUpdate(ListUpdate(user: user("bob"), version: Version(stamp: 2, node: 1), isWhole: true, added: [], removed: [])))
        gateway.receive(.kicked(user("bob"), before: now.wall, reason: "kicked"))
        gateway.hintReconnect(reason: "draining", spread: .zero)
        gateway.endTurn()
        #expect(gateway.output.pushes.isEmpty && gateway.output.ended.isEmpty)
        gateway.close(session, cause: .lost)
        #expect(gateway.output.toNode.last == .release([user("bob")]) && gateway.usersCount == 0)
    }

    @Test(
        "A login is told the newest version of its profile, whether its list or its first record is newer and comes first",
        arguments: [
            (true, 3), (true, 2), (true, 1), (false, 3), (false, 2), (false, 1),
        ] as [(Bool, Milliseconds)])
    mutating func firstProfile(isRecordFirst: Bool, versionOfList: Milliseconds) {
        let attach = Attach(session: SessionID(stamp: 9, node: 1), user: user("eve"), platform: "ios")
        _ = gateway.open(attach, resumeFrom: nil, at: now)
        var newest = record("eve", 2)
        newest.profileVersion = Version(milliseconds: 2, counter: 0, node: 1)
        var list = ListUpdate(user: user("eve"), version: Version(stamp: 1, node: 1), isWhole: true, added: [], removed: [])
        var state = RelationshipState()
        state.profile = Version(milliseconds: versionOfList, counter: 0, node: 1)
        list.notices = [RelationshipNotice(.state, state)]
        gateway.output = Gateway.Output()
        if isRecordFirst { gateway.receive(.deliver(newest)) }
        gateway.receive(.listUpdate(list))
        if !isRecordFirst { gateway.receive(.deliver(newest)) }
        gateway.endTurn()
        let told = gateway.output.pushes.compactMap { push -> String? in
            let lines = String(decoding: gateway.output.payloads[Int(push.payload)], as: UTF8.self).split(separator: "\n")
            return (try? JSONReader.read(Array(lines[2].dropFirst(6).utf8)))?["profileVersion"]?.textValue
        }
        #expect(told.last == max(newest.profileVersion, state.profile).text)
        #expect(told.count == (!isRecordFirst && versionOfList == 1 ? 2 : 1))
    }

    @Test("A login that waits for its list is told the changed profile of a new friend") mutating func profileBeforeList() {
        let attach = Attach(session: SessionID(stamp: 9, node: 1), user: user("eve"), platform: "ios")
        _ = gateway.open(attach, resumeFrom: nil, at: now)
        gateway.output = Gateway.Output()
        var list = ListUpdate(user: user("eve"), version: Version(stamp: 1, node: 1), isWhole: false, added: [], removed: [])
        list.profiles = [user("ann")]
        gateway.receive(.listUpdate(list))
        var changed = record("ann", 2)
        changed.profileVersion = Version(milliseconds: 2, counter: 0, node: 1)
        gateway.receive(.deliver(changed))
        list.isWhole = true
        gateway.receive(.listUpdate(list))
        gateway.endTurn()
        let told = gateway.output.payloads.map { String(decoding: $0, as: UTF8.self) }.filter { $0.contains("onUserProfileChanged") }
        #expect(told.count == 1)
        #expect(told.first?.contains(changed.profileVersion.text) == true)
    }

    @Test("The sessions of a user are told a newer state of the chain that comes with an outdated list") mutating func stateOfOutdatedList()
    {
        func list(_ version: UInt64, friends: Milliseconds) -> NodeMessage {
            var list = ListUpdate(user: user("bob"), version: Version(stamp: version, node: 1), isWhole: true, added: [], removed: [])
            var state = RelationshipState()
            state.friends = Version(milliseconds: friends, counter: 0, node: 1)
            list.notices = [RelationshipNotice(.state, state)]
            return .listUpdate(list)
        }
        gateway.receive(list(3, friends: 1))
        gateway.output = Gateway.Output()
        gateway.receive(list(2, friends: 5))
        gateway.receive(list(2, friends: 4))
        let told = gateway.output.payloads.map { String(decoding: $0, as: UTF8.self) }
        #expect(told.count == 1)
        #expect(told.first?.contains(Version(milliseconds: 5, counter: 0, node: 1).text) == true)
    }

    /// A client that resumes from this position after the policy allows them again is pushed all that has changed meanwhile.
    @Test("The position of a session stays where it is while the policy forbids the records of others")
    mutating func positionWhileOthersAreForbidden() {
        gateway.receive(.position(now.wall - 2_000))
        var policy = Policy()
        policy.statusEnabled = false
        gateway.receive(.policy(app: "default", policy))
        gateway.receive(.deliver(record("ann", now.wall - 1_000)))
        gateway.receive(.position(now.wall))
        gateway.receive(.deliver(record("bob", now.wall - 500)))
        gateway.endTurn()
        let positions = gateway.output.payloads.compactMap { payload -> Milliseconds? in
            let line = String(decoding: payload, as: UTF8.self).split(separator: "\n")[1]
            return Milliseconds(line.dropFirst("id: ".count))
        }
        #expect(positions.count == 1 && positions.allSatisfy { $0 < now.wall - 1_000 })
    }

    @Test("The output for a closed session does not go to the session that gets its index")
    mutating func reusedIndex() {
        gateway.block(session, at: now)
        gateway.receive(.deliver(record("ann", 2)))
        gateway.unblock(session)
        gateway.receive(.end(SessionID(stamp: 1, node: 1), reason: "kicked"))
        #expect(gateway.output.pushes.map(\.session) == [session, session] && gateway.output.ended == [session])
        gateway.close(session, cause: .lost)
        let attach = Attach(session: SessionID(stamp: 2, node: 1), user: UserID(app: "other", id: "eve"), platform: "ios")
        #expect(gateway.open(attach, resumeFrom: nil, at: now) == session)
        #expect(gateway.output.pushes.count == 1 && gateway.output.ended == [])
        let payload = gateway.output.payloads[Int(gateway.output.pushes[0].payload)]
        #expect(String(decoding: payload, as: UTF8.self).hasPrefix("event: onConnected"))
    }

    @Test("Only the session that asked is not pushed what the answer sends it", arguments: [(UInt64(1), [String]()), (UInt64(2), ["v3"])])
    mutating func answerOfAnotherSession(originSession: UInt64, told: [String]) {
        let followed = ListUpdate.Followed(target: user("dora"), delivered: .version(record("dora", 3).version), since: 2)
        var listUpdate = ListUpdate(user: user("bob"), version: Version(stamp: 2, node: 1), isWhole: false, added: [followed], removed: [])
        listUpdate.originSession = .session(SessionID(stamp: originSession, node: 1))
        gateway.receive(.listUpdate(listUpdate))
        gateway.receive(.deliver(record("dora", 3)))
        #expect(pushed() == told)
    }

    /// N8: the user may have changed before its first record comes.
    @Test(
        "A subscription to changes brings what has changed since it was made, and nothing else",
        arguments: [(Milliseconds(7), true, ["v7"]), (Milliseconds(3), true, [String]()), (7, false, [])])
    mutating func subscriptionToChanges(
        version: Milliseconds, isNews: Bool, told: [String]
    ) {
        let followed = ListUpdate.Followed(target: user("dora"), delivered: .laterChanges, since: 5)
        gateway.receive(
            .listUpdate(
                ListUpdate(user: user("bob"), version: Version(stamp: 2, node: 1), isWhole: false, added: [followed], removed: [])))
        var dora = record("dora", version)
        if !isNews { (dora.lastUpdateTime, dora.knownSince) = (0, version) }  // As an owner that was alone says of somebody unknown.
        gateway.receive(.deliver(dora))
        #expect(pushed() == told)
    }

    @Test("An outdated list ends no subscription that a newer change has begun")
    mutating func olderListAfterAChange() {
        let eve = Attach(session: SessionID(stamp: 2, node: 1), user: user("eve"), platform: "ios")
        _ = gateway.open(eve, resumeFrom: nil, at: now)
        gateway.receive(.deliver(record("eve", 1)))
        _ = pushed()
        var told: [String] = []
        for (version, isWhole, names) in [(UInt64(2), false, ["dora"]), (1, true, ["ann"]), (2, true, ["ann", "dora"])] {
            let followed = names.map { ListUpdate.Followed(target: user($0), delivered: .version(.zero), since: 1) }
            let version = Version(stamp: version, node: 1)
            gateway.receive(.listUpdate(ListUpdate(user: user("eve"), version: version, isWhole: isWhole, added: followed, removed: [])))
            gateway.receive(.deliver(record("dora", 3)))
            told += pushed()
        }
        #expect(told == ["v3", "v1"])
    }

    /// The other side of the partition may have shown the user later than this side hid it. With `knownSince`, the owner on this side has
    /// changed meanwhile, and its clock is ahead.
    @Test(
        "After a partition, a client that resumed is pushed again how a hidden user looks to it",
        arguments: [(Milliseconds(4), 1, Milliseconds(0)), (0, 1, 0), (Milliseconds?.none, 0, 0), (4, 1, 12)])
    mutating func hiddenUserAfterAPartition(from position: Milliseconds?, times: Int, knownSince: Milliseconds) {
        var dora = record("dora", 2)
        dora.statusType = .online
        let rule = Visibility().changed(by: .init(mode: .nobody))
        let hidden = dora.hidden(at: Version(milliseconds: 3, counter: 0, node: 1), 3, by: Policy(.zim))
        dora.version = hidden.version
        dora.privacy = Privacy().changed(to: rule, writtenAt: hidden.version, hiddenView: hidden, at: hidden.version)
        let eve = Attach(session: SessionID(stamp: 2, node: 1), user: user("eve"), platform: "ios")
        gateway.receive(.position(5))
        _ = gateway.open(eve, resumeFrom: position, at: now)
        gateway.receive(.deliver(record("eve", 1)))
        let followed = ListUpdate.Followed(target: user("dora"), delivered: .version(.zero), since: 1)
        gateway.receive(
            .listUpdate(ListUpdate(user: user("eve"), version: Version(stamp: 1, node: 1), isWhole: true, added: [followed], removed: [])))
        gateway.receive(.deliver(dora))
        dora.knownSince = knownSince
        gateway.receive(.deliver(dora))
        _ = pushed()
        let healed = Version(milliseconds: 9, counter: 0, node: 1)
        (dora.version, dora.knownSince) = (healed, 9)
        dora.privacy?.raise(to: healed)
        gateway.receive(.deliver(dora))
        #expect(pushed() == Array(repeating: "v2", count: times))
    }

    /// The answer came from the other side of a partition. This side has never known the record that the answer named.
    @Test(
        "After a partition, a client that an answer showed a newer record is pushed how the hidden user looks",
        arguments: [(Milliseconds(5), 1), (2, 0)], [false, true])
    mutating func hiddenUserAfterANewerAnswer(_ answer: (version: Milliseconds, times: Int), isFollowed: Bool) {
        var dora = hidden("dora", 2)
        let listUpdate = ListUpdate(
            user: user("bob"), version: Version(stamp: 2, node: 1), isWhole: false,
            added: [ListUpdate.Followed(target: user("dora"), delivered: .version(version(answer.version)), since: 3)], removed: [])
        if isFollowed {
            _ = gateway.open(Attach(session: SessionID(stamp: 2, node: 1), user: user("eve"), platform: "ios"), resumeFrom: nil, at: now)
            let followed = ListUpdate.Followed(target: user("dora"), delivered: .version(.zero), since: 1)
            gateway.receive(
                .listUpdate(
                    ListUpdate(user: user("eve"), version: version(1), isWhole: true, added: [followed], removed: [])))
            gateway.receive(.deliver(dora))
            _ = pushed()
        }
        gateway.receive(.listUpdate(listUpdate))
        gateway.receive(.deliver(dora))
        #expect(pushed() == [], "an answer has shown the same or a newer record")
        (dora.version, dora.knownSince) = (version(9), 9)
        dora.privacy?.raise(to: version(9))
        gateway.receive(.deliver(dora))
        #expect(pushed() == Array(repeating: "v2", count: answer.times))
    }

    private func version(_ time: Milliseconds) -> Version { Version(milliseconds: time, counter: 0, node: 1) }

    /// Another side of a partition may have pushed the client a newer record. The client then dropped the record of this side.
    @Test(
        "A client that resumed is pushed a record with a new rule if it may have dropped the record before",
        arguments: [(Milliseconds?.some(1), Milliseconds(60_006), 1), (.some(1), 60_007, 0), (.some(3), 2, 0), (.none, 2, 0)])
    mutating func ruleAfterAResume(from position: Milliseconds?, version: Milliseconds, times: Int) {
        let eve = Attach(session: SessionID(stamp: 2, node: 1), user: user("eve"), platform: "ios")
        gateway.receive(.position(5))
        _ = gateway.open(eve, resumeFrom: position, at: Now(instant: now.instant, wall: 6))
        var dora = record("dora", version)
        gateway.receive(.deliver(record("eve", 1)))
        let followed = ListUpdate.Followed(target: user("dora"), delivered: .version(.zero), since: 1)
        gateway.receive(
            .listUpdate(ListUpdate(user: user("eve"), version: Version(stamp: 1, node: 1), isWhole: true, added: [followed], removed: [])))
        gateway.receive(.deliver(dora))
        _ = pushed()
        let rule = Visibility().changed(by: .init(mode: .list, listed: [user("eve")]))
        let time = Version(milliseconds: version + 1, counter: 0, node: 1)
        dora.privacy = Privacy().changed(
            to: rule, writtenAt: time, hiddenView: dora.hidden(at: time, 9, by: Policy(.zim)), at: time)
        dora.version = time
        gateway.receive(.deliver(dora))
        #expect(pushed().count == times)
    }

    private func hidden(_ id: String, _ version: Milliseconds) -> Record {
        var record = record(id, version)
        record.privacy = Privacy().changed(
            to: Visibility().changed(by: .init(mode: .nobody)), writtenAt: record.version, hiddenView: self.record(id, version),
            at: record.version)
        return record
    }

    /// The record has a later version by then, which was not pushed because it looks the same.
    @Test("The record of a hidden user is pushed if the answer that was to send it fails")
    mutating func failedAnswerWithAHiddenUser() {
        var dora = hidden("dora", 2)
        gateway.receive(.deliver(dora))
        let followed = ListUpdate.Followed(target: user("dora"), delivered: .version(dora.version), since: 3)
        let listUpdate = ListUpdate(user: user("bob"), version: Version(stamp: 2, node: 1), isWhole: false, added: [followed], removed: [])
        gateway.receive(.listUpdate(listUpdate))
        gateway.receive(.deliver(dora))
        #expect(pushed() == [])
        let raised = Version(milliseconds: 4, counter: 0, node: 1)
        dora.version = raised
        dora.privacy?.raise(to: raised)
        gateway.receive(.deliver(dora))
        #expect(pushed() == [])
        gateway.receive(.callFailed(listUpdate))
        #expect(pushed() == ["v2"])
    }

    /// The owner that sent the newer change may have died with its list.
    @Test("A session without a list takes an older list than another session of the user has")
    mutating func olderListForANewSession() {
        let newer = ListUpdate(user: user("bob"), version: Version(stamp: 9, node: 1), isWhole: false, added: [], removed: [user("ann")])
        gateway.receive(.listUpdate(newer))
        let attach = Attach(session: SessionID(stamp: 2, node: 1), user: user("bob"), platform: "web")
        _ = gateway.open(attach, resumeFrom: nil, at: now)
        _ = pushed()
        let followed = ListUpdate.Followed(target: user("carl"), delivered: .version(.zero), since: 1)
        gateway.receive(
            .listUpdate(ListUpdate(user: user("bob"), version: Version(stamp: 5, node: 1), isWhole: true, added: [followed], removed: [])))
        #expect(pushed() == ["v1"])
    }

    /// An owner that has waited long enough for another node sends the part of a list that it knows.
    @Test("A list that may lack users ends no subscription that it does not name")
    mutating func incompleteList() {
        var list = ListUpdate(user: user("bob"), version: Version(stamp: 2, node: 1), isWhole: true, added: [], removed: [user("carl")])
        list.mayBeIncomplete = true
        gateway.receive(.listUpdate(list))
        for name in ["ann", "carl"] { gateway.receive(.deliver(record(name, 2))) }
        #expect(pushed() == ["v2"], "of carl it is known that he is not followed any more")
        (list.mayBeIncomplete, list.removed) = (false, [])
        gateway.receive(.listUpdate(list))
        gateway.receive(.deliver(record("ann", 3)))
        #expect(pushed() == [])
    }

    /// The position comes from a node that did not hold the record.
    @Test(
        "A client that resumes is pushed the records that a new owner knows since its position",
        arguments: [(Milliseconds(0), [String]()), (Milliseconds(9), ["v1"])])
    mutating func newOwnerAfterAResume(knownSince: Milliseconds, told: [String]) {
        var ann = record("ann", 1)
        ann.knownSince = knownSince
        gateway.receive(.deliver(ann))
        #expect(pushed() == [], "nobody is told the same again")
        gateway.receive(.position(8))
        let eve = Attach(session: SessionID(stamp: 2, node: 1), user: user("eve"), platform: "ios")
        _ = gateway.open(eve, resumeFrom: 7, at: now)
        gateway.receive(.deliver(record("eve", 8)))
        _ = pushed()
        let followed = ListUpdate.Followed(target: user("ann"), delivered: .version(.zero), since: 1)
        gateway.receive(
            .listUpdate(ListUpdate(user: user("eve"), version: Version(stamp: 1, node: 1), isWhole: true, added: [followed], removed: [])))
        #expect(pushed() == told)
    }

    @Test("A session whose queue stays full is cut off")
    mutating func slowReader() {
        gateway.block(session, at: now)
        now.instant += .seconds(59)
        gateway.tick(at: now)
        #expect(gateway.output.cutOff.isEmpty)
        now.instant += .seconds(1)
        gateway.tick(at: now)
        gateway.tick(at: now)
        #expect(gateway.output.cutOff == [session])
        #expect(gateway.counters.slowReaders == 1)
    }

    @Test("An older record is not pushed")
    mutating func olderRecord() {
        gateway.receive(.deliver(record("ann", 3)))
        gateway.receive(.deliver(record("ann", 2)))
        let told = pushed()
        #expect(told == ["v3"])
    }

    @Test("Many watchers share one encoded event")
    mutating func sharedEncoding() {
        for number in 2...50 {
            let attach = Attach(session: SessionID(stamp: UInt64(number), node: 1), user: user("bob"), platform: "ios")
            _ = gateway.open(attach, resumeFrom: nil, at: now)
        }
        // Sessions whose login is not complete are pushed events of their own.
        let followed = ["ann", "carl"].map { ListUpdate.Followed(target: user($0), delivered: .nothing, since: 1) }
        for id in ["bob", "carl"] { gateway.receive(.deliver(record(id, 1))) }
        let version = Version(stamp: 2, node: 1)
        gateway.receive(.listUpdate(ListUpdate(user: user("bob"), version: version, isWhole: true, added: followed, removed: [])))
        gateway.endTurn()
        gateway.output = Gateway.Output()
        gateway.receive(.deliver(record("ann", 2)))
        #expect(gateway.output.pushes.count == 50)
        #expect(gateway.output.payloads.count == 1)
    }

    /// The statuses that each session is pushed in this turn.
    private mutating func statusesPushed() -> [Gateway.SessionIndex: [JSONValue]] {
        gateway.endTurn()
        defer { gateway.output = Gateway.Output() }
        return gateway.output.pushes.reduce(into: [:]) { told, push in
            let lines = String(decoding: gateway.output.payloads[Int(push.payload)], as: UTF8.self).split(separator: "\n")
            let data = (try? JSONReader.read(Array(lines[2].dropFirst(6).utf8))) ?? .null
            told[push.session, default: []] += data["userStatusList"]?.elements ?? []
        }
    }

    /// One version has one content, whenever the session was opened and whatever the flags of the event are.
    @Test("Every session is pushed the published event that is in force with a version", arguments: [false, true])
    mutating func eventInForce(hasPrivacy: Bool) throws {
        let ann = Attach(session: SessionID(stamp: 2, node: 1), user: user("ann"), platform: "web")
        let own = gateway.open(ann, resumeFrom: nil, at: now)
        gateway.receive(
            .listUpdate(ListUpdate(user: user("ann"), version: Version(stamp: 1, node: 1), isWhole: true, added: [], removed: [])))
        var change = record("ann", now.wall - 1_000)
        if hasPrivacy { change.privacy = Privacy() }
        change.events.publish(
            PublishedEvent(value: 10_001, ext: "", expiresAt: .max, id: change.version, isForOnlineOnly: false, session: ann.session))
        _ = statusesPushed()
        for flags in [(true, true), (true, false), (false, true), (false, false)] {
            change.version = Version(stamp: change.version.stamp + 1, node: 1)
            change.lastUpdateTime += 1
            change.events.publish(
                PublishedEvent(
                    value: 10_002, ext: "x", expiresAt: .max, id: change.version, isForOnlineOnly: flags.0, isSynced: flags.1,
                    session: ann.session))
            gateway.receive(.deliver(change))
            let carl = gateway.open(
                Attach(session: SessionID(stamp: change.version.stamp, node: 1), user: user("bob"), platform: "web"), resumeFrom: nil,
                at: now)
            let followed = [ListUpdate.Followed(target: user("ann"), delivered: .nothing, since: 1)]
            gateway.receive(
                .listUpdate(ListUpdate(user: user("bob"), version: Version(stamp: 1, node: 1), isWhole: true, added: followed, removed: []))
            )
            let told = statusesPushed()
            for session in [session, own, carl] {
                let event = try #require(told[session]?.first { $0["userID"]?.textValue == "ann" }?["event"])
                #expect(event["eventID"]?.textValue == change.version.text && event["value"] == .integer(10_002))
                #expect(event["publishedAt"] == .integer(change.version.milliseconds))
                #expect(event["sendToOnlineUsersOnly"] == .bool(flags.0) && event["syncEnabled"] == .bool(flags.1))
                #expect(event["sessionID"]?.textValue == (session == own ? ann.session.description : nil))
            }
            // N13: an event for online users only leaves the one before it in force for later logins.
            #expect(told[session]?.first?["loginEvent"]?["value"] == (flags.0 ? .integer(10_001) : nil))
        }
    }

    @Test("A change that no viewer is shown is not pushed")
    mutating func unseenChange() {
        var change = record("ann", 1)
        change.version = Version(milliseconds: 2, counter: 0, node: 1)
        change.pushDevices = [PushDevice(platform: "ios", deviceID: "", until: 9)]
        change.customStatusExpiresAt = 77
        gateway.receive(.deliver(change))
        #expect(pushed() == [])
        var policy = Policy()
        policy.exposesPlatforms = false
        gateway.receive(.policy(app: nil, policy))
        change.version = Version(milliseconds: 3, counter: 0, node: 1)
        change.onlinePlatforms = ["ios"]
        gateway.receive(.deliver(change))
        #expect(pushed() == [])
        change.version = Version(milliseconds: 4, counter: 0, node: 1)
        change.lastUpdateTime = 4
        gateway.receive(.deliver(change))
        #expect(pushed() == ["v1"])
    }

    /// Another side of a partition may have pushed the client a record that looks different.
    @Test("A client that resumed is pushed a newer record that looks the same")
    mutating func sameLookAfterAResume() {
        gateway.receive(.position(8))
        let eve = Attach(session: SessionID(stamp: 2, node: 1), user: user("eve"), platform: "ios")
        _ = gateway.open(eve, resumeFrom: 7, at: now)
        gateway.receive(.deliver(record("eve", 8)))
        let followed = ListUpdate.Followed(target: user("ann"), delivered: .nothing, since: 1)
        gateway.receive(
            .listUpdate(ListUpdate(user: user("eve"), version: Version(stamp: 1, node: 1), isWhole: true, added: [followed], removed: [])))
        _ = pushed()
        var healed = record("ann", 1)
        healed.version = Version(milliseconds: 9, counter: 0, node: 1)
        gateway.receive(.deliver(healed))
        #expect(pushed() == ["v1"], "eve is told, and bob, whose session has been here all the time, is not")
    }

    /// R11, R13, N15: the records of users that were never seen are among them.
    @Test("A login is pushed its records in batches before the event that says that the login is complete")
    mutating func batchedLogin() {
        let eve = gateway.open(
            Attach(session: SessionID(stamp: 2, node: 1), user: user("eve"), platform: "ios"), resumeFrom: nil, at: now)
        let names = (100..<300).map { "user-\($0)" }
        var followed = names.map { ListUpdate.Followed(target: user($0), delivered: .nothing, since: 1) }
        followed[7].subscribeType = Subscription.friendOnlineStatus
        gateway.receive(
            .listUpdate(ListUpdate(user: user("eve"), version: Version(stamp: 1, node: 1), isWhole: true, added: followed, removed: [])))
        gateway.endTurn()
        gateway.output = Gateway.Output()
        for name in names.dropLast() { gateway.receive(.deliver(Record(blank: user(name)))) }
        gateway.receive(.deliver(record("eve", 1)))
        gateway.receive(.deliver(record(names[199], 1)))
        gateway.endTurn()
        let events = gateway.output.pushes.filter { $0.session == eve }.map {
            String(decoding: gateway.output.payloads[Int($0.payload)], as: UTF8.self)
        }
        #expect(events.count == 5 + 2 && events.prefix(5).allSatisfy { $0.hasPrefix("event: onUserStatusChanged") })
        #expect(events.joined().components(of: "\"userID\"") == 201)
        #expect(events[5].contains("onSubscriptionSyncCompleted") && events[5].contains("\"subscribeType\":1"))
        #expect(events[6].contains("onSubscriptionSyncCompleted") && events[6].contains("\"subscribeType\":3"))
    }

    @Test("A closed session is pushed nothing, and its users are released")
    mutating func closedSession() {
        gateway.close(session, cause: .lost)
        #expect(gateway.output.toNode.contains(.release([user("bob"), user("ann"), user("carl")])))
        #expect(gateway.usersCount == 0)
        gateway.receive(.deliver(record("ann", 9)))
        #expect(gateway.output.pushes.isEmpty)
    }

    private mutating func positions() -> [Int] {
        gateway.endTurn()
        defer { gateway.output = Gateway.Output() }
        return gateway.output.pushes.map { push in
            let lines = String(decoding: gateway.output.payloads[Int(push.payload)], as: UTF8.self).split(separator: "\n")
            return Int(lines[1].dropFirst("id: ".count)) ?? -1
        }
    }

    @Test("Before the login is complete, neither a hint nor the end of a stream raises its position")
    mutating func positionBeforeTheLoginIsComplete() {
        gateway.receive(.position(500))
        gateway.hintReconnect(reason: "draining", spread: .zero)
        _ = positions()
        let carl = SessionID(stamp: 2, node: 1)
        _ = gateway.open(Attach(session: carl, user: user("carl"), platform: "ios"), resumeFrom: 100, at: now)
        gateway.hintReconnect(reason: "draining", spread: .zero)
        gateway.receive(.end(carl, reason: "logout"))
        // Carl's first events, his hint, Bob's events, Carl's events again, and his end.
        #expect(positions() == [100, 100, 500, 100, 100])
    }

    @Test("The position does not pass a followed user whose record has not come")
    mutating func positionWhileARecordIsMissing() {
        gateway.receive(.position(500))
        let dora = ListUpdate.Followed(target: user("dora"), delivered: .nothing, since: 600)
        gateway.receive(
            .listUpdate(ListUpdate(user: user("bob"), version: Version(stamp: 2, node: 1), isWhole: false, added: [dora], removed: [])))
        gateway.receive(.position(700))
        gateway.receive(.deliver(record("ann", 650)))
        #expect(positions() == [500])
        gateway.receive(.deliver(record("dora", 3)))
        #expect(positions() == [500])
        gateway.receive(.deliver(record("ann", 701)))
        #expect(positions() == [700])
    }

    @Test("The position does not rise with the first of several records that waited")
    mutating func positionOfRecordsThatWaited() {
        gateway.receive(.position(500))
        gateway.block(session, at: now)
        gateway.receive(.deliver(record("ann", 600)))
        gateway.receive(.position(700))
        gateway.unblock(session)
        #expect(positions() == [500])
    }
}

extension String {
    /// The number of occurrences of `part` in the text.
    fileprivate func components(of part: String) -> Int {
        var (count, rest) = (0, self[...])
        while let range = rest.firstRange(of: part) { (count, rest) = (count + 1, rest[range.upperBound...]) }
        return count
    }
}
