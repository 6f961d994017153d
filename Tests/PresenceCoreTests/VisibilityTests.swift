import PresenceWire
import Testing

@testable import PresenceCore

@Suite struct VisibilityTests {
    var cluster = TestCluster(nodes: 3)

    @discardableResult
    mutating func hide(_ name: String, _ change: Visibility.Change, on node: Int = 0) -> CallAnswer? {
        cluster.call(.setVisibility(change), by: name, on: node)
        cluster.advance(.milliseconds(50))
        return cluster.lastAnswer(on: node)
    }

    mutating func status(of target: String, to viewer: String, on node: Int) -> Record? {
        guard case .userStatusList(let records, _, _) = cluster.call(.getUserStatus([user(target)]), by: viewer, on: node) else {
            return nil
        }
        return records[0]
    }

    @Test(
        "Excluded viewers see a hiding user go at once, and receive nothing more",
        arguments: [
            Visibility.Change(mode: .nobody), .init(mode: .list, listed: [user("cid")]), .init(mode: .friends), .init(isInvisible: true),
        ])
    mutating func hiding(change: Visibility.Change) {
        let ann = cluster.login("ann", on: 0, customStatus: "here")
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        #expect(cluster.statuses(told: bob, of: "ann") == ["ONLINE"])
        hide("ann", change)
        #expect(cluster.statuses(told: bob, of: "ann") == ["ONLINE", "OFFLINE"])
        let hidden = status(of: "ann", to: "bob", on: 1)
        #expect(hidden?.customStatus == "" && hidden?.onlinePlatforms == [] && hidden?.privacy == nil)
        cluster.setStatus("ann", "secret", on: 0)
        cluster.login("ann", on: 2, platform: "web")
        cluster.close(ann, .loggedOut)
        cluster.advance(.seconds(5))
        #expect(cluster.statuses(told: bob, of: "ann") == ["ONLINE", "OFFLINE"])
        for node in 0..<3 { #expect(status(of: "ann", to: "bob", on: node) == hidden) }
    }

    @Test("A user who shows again comes online, with no time before that") mutating func showingAgain() {
        cluster.login("ann", on: 0)
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        cluster.advance(.seconds(1))
        hide("ann", .init(mode: .nobody))
        let hidden = cluster.clients[bob].view["ann"]!
        cluster.advance(.seconds(1))
        hide("ann", .init(mode: .everyone))
        let seen = cluster.clients[bob].view["ann"]!
        #expect(seen["statusType"] == .string("ONLINE"))
        for time in ["lastUpdateTime", "lastOnlineStatusUpdateTime", "lastSeenTime"] {
            #expect(seen[time]!.number >= hidden[time]!.number)
        }
        #expect(cluster.clients[bob].wentBack == 0)
    }

    @Test("A viewer who may see a user again while the user is away is shown no change") mutating func showingAwayUser() throws {
        let ann = cluster.login("ann", on: 0)
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        hide("ann", .init(mode: .nobody))
        let told = cluster.statuses(told: bob, of: "ann").count
        let hidden = try #require(status(of: "ann", to: "bob", on: 1))
        cluster.advance(.seconds(1))
        cluster.close(ann, .lost)
        cluster.advance(.seconds(5))
        hide("ann", .init(mode: .everyone))
        for node in 0..<3 { #expect(status(of: "ann", to: "bob", on: node)?.looksLike(hidden) == true) }
        hide("ann", .init(mode: .nobody))
        for node in 0..<3 { #expect(status(of: "ann", to: "bob", on: node)?.looksLike(hidden) == true) }
        #expect(cluster.statuses(told: bob, of: "ann").count == told)
    }

    @Test("Viewers who saw a user all along see no time move when others may see the user again, nor when they may not once more")
    mutating func showingOthers() throws {
        cluster.login("ann", on: 0)
        let (bob, cid) = (cluster.login("bob", on: 1), cluster.login("cid", on: 2))
        for (name, node) in [("bob", 1), ("cid", 2)] { cluster.subscribe(name, to: ["ann"], on: node) }
        let before = try #require(status(of: "ann", to: "cid", on: 2))
        let told = cluster.clients[cid].events.count
        for _ in 0..<3 {
            hide("ann", .init(mode: .list, listed: [user("cid")]))
            cluster.advance(.seconds(1))
            hide("ann", .init(mode: .everyone))
            cluster.advance(.seconds(1))
        }
        #expect(cluster.statuses(told: bob, of: "ann") == ["ONLINE", "OFFLINE", "ONLINE", "OFFLINE", "ONLINE", "OFFLINE", "ONLINE"])
        #expect(cluster.clients[bob].wentBack == 0)
        for node in 0..<3 { #expect(status(of: "ann", to: "cid", on: node)?.looksLike(before) == true) }
        #expect(cluster.clients[cid].events.count == told)
    }

    @Test("A visibility that comes with a newer record hides what was shown without it") func newerRecord() {
        var owners = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        let now = Now(instant: Instant(nanoseconds: 0), wall: 1_000)
        let version = { Version(milliseconds: $0, counter: 0, node: 2) }
        var shown = Record(blank: user("ann"))
        shown.version = version(20)
        let index = owners.index(of: user("ann"))
        owners.adopt(shown, at: index, in: &outbox[at: now])
        // Another side of a split received the visibility, and went on.
        var record = shown
        (shown.version, record.version) = (version(5), version(30))
        let rule = Visibility().changed(by: .init(mode: .nobody))
        record.privacy = Privacy().changed(to: rule, writtenAt: version(10), hiddenView: shown, at: version(10))
        owners.adopt(record, at: index, in: &outbox[at: now])
        #expect(owners.record(of: user("ann")).shown(to: user("bob")).version > version(20))
    }

    /// The case of the design: 3,000 friends, and a change of the status.
    @Test("A change of a user whom 3,000 friends may see costs at most 1.1 times the bytes of one without a rule")
    mutating func bytesOfFriends() {
        cluster.login("ann", on: 0)
        for start in stride(from: 0, to: 3_000, by: 100) {
            let friends = (start..<start + 100).map { FriendImport(user: user("friend-\($0)")) }
            cluster.call(.friendCall(.importFriends(friends)), by: "ann", on: 0, origin: .backEndForCaller)
            cluster.advance(.milliseconds(50))
        }
        for node in 0..<3 { cluster.subscribe("friend-\(node)", to: ["ann"], on: node) }
        for node in 0..<3 { cluster.login("friend-\(node)", on: node) }
        let plain = bytes(ofChangesOf: "ann")
        hide("ann", .init(mode: .friends))
        let ruled = bytes(ofChangesOf: "ann")
        #expect(Double(ruled) <= 1.1 * Double(plain), "\(ruled) bytes instead of \(plain)")
        for node in 0..<3 { #expect(status(of: "ann", to: "friend-\(node)", on: node)?.customStatus == "changed 20") }
        #expect(status(of: "ann", to: "stranger", on: 1)?.statusType == .offline)
    }

    /// The bytes between nodes for twenty changes, without those of a quiet cluster in the same time.
    private mutating func bytes(ofChangesOf user: String) -> Int {
        let before = cluster.bytesSent
        for _ in 1...20 { cluster.advance(.milliseconds(100)) }
        let quiet = cluster.bytesSent - before
        for change in 1...20 {
            cluster.setStatus(user, "changed \(change)", on: 0)
            cluster.advance(.milliseconds(100))
        }
        return cluster.bytesSent - before - 2 * quiet
    }

    @Test("A list admits the listed viewers and the user itself, and nobody else") mutating func list() {
        let phone = cluster.login("ann", on: 0)
        let cid = cluster.login("cid", on: 1)
        let bob = cluster.login("bob", on: 2)
        for (name, node) in [("cid", 1), ("bob", 2)] { cluster.subscribe(name, to: ["ann"], on: node) }
        hide("ann", .init(mode: .list, listed: [user("cid")]))
        cluster.setStatus("ann", "for you", on: 0)
        #expect(cluster.clients[cid].view["ann"]?["customStatus"] == .string("for you"))
        #expect(cluster.clients[phone].view["ann"]?["customStatus"] == .string("for you"))
        #expect(cluster.clients[bob].view["ann"]?["statusType"] == .string("OFFLINE"))
        #expect(status(of: "ann", to: "ann", on: 2)?.statusType == .online)
    }

    @Test("A blocked viewer sees nothing, whatever else holds") mutating func blocked() {
        cluster.login("ann", on: 0)
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: ["ann"], on: 1)
        hide("ann", .init(mode: .list, listed: [user("bob")], blocked: [user("bob")]))
        #expect(cluster.statuses(told: bob, of: "ann") == ["ONLINE", "OFFLINE"])
        cluster.call(.friendCall(.importFriends([FriendImport(user: user("bob"))])), by: "ann", on: 0)
        hide("ann", .init(mode: .friends))
        hide("ann", .init(mode: .everyone))
        cluster.setStatus("ann", "x", on: 0)
        #expect(cluster.statuses(told: bob, of: "ann") == ["ONLINE", "OFFLINE"])
        hide("ann", .init(blocked: []))
        #expect(cluster.statuses(told: bob, of: "ann") == ["ONLINE", "OFFLINE", "ONLINE"])
    }

    @Test("A text in a hidden view ends at its time") mutating func expiry() {
        var settings = CoreSettings()
        settings.policy = Policy(.zim)
        cluster = TestCluster(nodes: 3, settings: settings)
        cluster.login("ann", on: 0)
        cluster.login("bob", on: 1)
        cluster.setStatus("ann", "for a minute", on: 0, seconds: 60)
        hide("ann", .init(mode: .nobody))
        // ZIM's OFFLINE keeps the text (Z5).
        #expect(status(of: "ann", to: "bob", on: 1)?.customStatus == "for a minute")
        cluster.advance(.seconds(1))
        cluster.setStatus("ann", "secret", on: 0)
        cluster.advance(.seconds(61), step: .milliseconds(500))
        #expect(status(of: "ann", to: "bob", on: 1)?.customStatus == "")
        #expect(status(of: "ann", to: "ann", on: 1)?.customStatus == "secret")
    }

    @Test("A visibility survives its owner and a restart of all nodes") mutating func restart() throws {
        cluster.login("ann", on: (cluster.ownerIndex(of: "ann") + 1) % 3)
        let owner = cluster.ownerIndex(of: "ann")
        let other = (owner + 1) % 3
        hide("ann", .init(mode: .nobody), on: other)
        cluster.kill(owner)
        cluster.advance(.seconds(4))
        #expect(status(of: "ann", to: "bob", on: other)?.statusType == .offline)
        let shown = ShownVisibility(visibility: Visibility().changed(by: .init(mode: .nobody)))
        #expect(cluster.call(.getVisibility, by: "ann", on: other)?.shown == shown)
        for node in 0..<3 where node != owner { cluster.kill(node) }
        for node in 0..<3 { try cluster.restart(node) }
        cluster.advance(.seconds(20))
        #expect(cluster.call(.getVisibility, by: "ann", on: 0)?.shown == shown)
    }

    /// The other side of a split has stored an earlier call that it refused. A later call that changes nothing on this side must still win.
    @Test("A repeated visibility counts from the later call") mutating func repeatedCall() {
        cluster.login("ann", on: 0)
        let owner = cluster.ownerIndex(of: "ann")
        var hidden = Privacy(
            visibility: Visibility().changed(by: .init(mode: .nobody)),
            writtenAt: Version(milliseconds: cluster.now.wall, counter: 0, node: 9),
            version: Version(milliseconds: cluster.now.wall, counter: 0, node: 9), contents: [Record(blank: user("ann"))], named: [],
            others: .init(content: 0, version: .zero, times: RecordTimes())
        )!
        cluster.advance(.seconds(1))
        hide("ann", .init(mode: .everyone))
        hidden.raise(to: Version(milliseconds: cluster.now.wall, counter: 0, node: 9))
        cluster.processes[owner].node.machines.onReplicate([Row(hidden, of: user("ann"))], ticket: 0, from: 1, at: cluster.now)
        #expect(status(of: "ann", to: "bob", on: owner)?.statusType == .online)
    }

    /// A node that was cut off has shown a record that the owner does not know. The node forwards that record to the owner before the
    /// owner's record replaces it on disk: without a link to the owner too, and before the rule arrives.
    @Test("The owner receives the record that another node showed before it knew the visibility") mutating func shownBeforeRule() throws {
        var shown = Record(blank: user("ann"))
        shown.version = Version(milliseconds: cluster.now.wall - 10, counter: 0, node: 9)
        var hiding = shown
        hiding.version = Version(milliseconds: cluster.now.wall, counter: 0, node: 9)
        #expect(!Row(hiding).namesRule)
        hiding.privacy = Privacy().changed(
            to: Visibility().changed(by: .init(mode: .nobody)), writtenAt: hiding.version, hiddenView: Record(blank: user("ann")),
            at: hiding.version)
        #expect(Row(hiding).namesRule)
        let owner = cluster.ownerIndex(of: "ann")
        let process = cluster.processes[(owner + 1) % 3]
        let peer = process.node.cluster.peerIndex(cluster.processes[owner].node.cluster.own.id)!
        let rule = Row(try #require(hiding.privacy), of: user("ann"))
        for row in [Row(shown), Row(hiding), rule] { process.node.machines.onReplicate([row], ticket: 0, from: peer, at: cluster.now) }
        let kept = try #require(process.node.owner.record(of: user("ann")).privacy)
        #expect(kept.version > hiding.version, "a fact that digests tell")
        #expect(kept.hiddenViews.allSatisfy { $0.version > shown.version })
        #expect(process.node.cluster.outbox.rowsForOwners == [Row(shown), Row(kept, of: user("ann"))])
    }

    /// A new owner's hidden views come from another side of a split. A later change of the rule must not count as all that is new.
    @Test("Hidden views are known from the time at which the owner took over, whatever changes then", arguments: [true, false])
    func knownSince(isRule: Bool) throws {
        var shards = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        let now = Now(instant: Instant(nanoseconds: 0), wall: 1_000)
        var hiding = Record(blank: user("ann"))
        hiding.version = Version(10, 2)
        hiding.privacy = Privacy().changed(
            to: Visibility().changed(by: .init(mode: .nobody)), writtenAt: hiding.version, hiddenView: Record(blank: user("ann")),
            at: hiding.version)
        shards.watch([Watch(user: user("ann"), held: hiding.version, record: hiding)], from: 2, in: &outbox[at: now])
        let known = shards.record(of: user("ann"))
        #expect(known.knownSince > 0)
        let change = StatusChange.Visibility(
            visibility: Visibility().changed(by: .init(mode: .list)), writtenAt: Version(1_000, 2))
        let index = shards.index(of: user("ann"))
        shards.refresh(index, isRule ? StatusChange(visibility: change) : StatusChange(customStatus: "busy"), in: &outbox[at: now])
        #expect(shards.record(of: user("ann")).version > known.version)
        #expect(shards.record(of: user("ann")).knownSince == known.knownSince)
        shards.refresh(index, StatusChange(customStatus: "free"), in: &outbox[at: now])
        #expect(shards.record(of: user("ann")).shown(to: user("bob")).knownSince == known.knownSince)
    }

    /// One side of a split has shown the user with a version one count above the version of the other side's rule.
    @Test("A visibility older than the record shown without it becomes newer", arguments: [false, true])
    mutating func olderRule(recordNamesIt: Bool) throws {
        let version = Version(milliseconds: cluster.now.wall, counter: 1, node: 9)
        var shown = Record(blank: user("ann"))
        shown.version = Version(stamp: version.stamp + 1, node: 3)
        let rule = Privacy().changed(
            to: Visibility().changed(by: .init(mode: .nobody)), writtenAt: version, hiddenView: Record(blank: user("ann")), at: version)
        let first = Row(shown)
        if recordNamesIt { shown.privacy = rule }
        let owner = cluster.ownerIndex(of: "ann")
        let process = cluster.processes[(owner + 1) % 3]
        let peer = process.node.cluster.peerIndex(cluster.processes[owner].node.cluster.own.id)!
        for row in [recordNamesIt ? Row(shown) : first, Row(rule, of: user("ann"))] {
            process.node.machines.onReplicate([row], ticket: 0, from: peer, at: cluster.now)
        }
        let told = try process.node.cluster.outbox.rowsForOwners.map { try Privacy($0).version > shown.version }
        #expect(told == (recordNamesIt ? [] : [true]))
    }

    /// An owner that was cut off takes over a newer record with a rule. The rule's hidden view is older than the record that it has shown.
    @Test("A hidden view becomes newer than the record that its new owner had shown") func newOwner() throws {
        var shards = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        var shown = Record(blank: user("ann"))
        shown.version = Version(milliseconds: cluster.now.wall - 10, counter: 0, node: 1)
        var hiding = shown
        hiding.version = Version(milliseconds: cluster.now.wall - 5, counter: 0, node: 9)
        hiding.privacy = Privacy().changed(
            to: Visibility().changed(by: .init(mode: .nobody)), writtenAt: hiding.version, hiddenView: Record(blank: user("ann")),
            at: hiding.version)
        for record in [shown, hiding] {
            shards.watch([Watch(user: user("ann"), held: record.version, record: record)], from: 2, in: &outbox[at: cluster.now])
        }
        #expect(shards.record(of: user("ann")).shown(to: user("bob")).version > hiding.version)
    }

    /// A record is raised together with its rule. A node that receives only the record must not show it.
    @Test("A record with another content under a hidden view's version does not know the visibility") func sameVersion() {
        var record = Record(blank: user("ann"))
        record.version = Version(milliseconds: 5, counter: 0, node: 1)
        let rule = Visibility().changed(by: .init(mode: .nobody))
        let later = Version(milliseconds: 6, counter: 0, node: 1)
        let same = Privacy().changed(to: rule, writtenAt: later, hiddenView: record, at: later)
        #expect(!same.isUnknown(to: record), "nobody is shown anything else")
        record.customStatus = "shown"
        #expect(same.isUnknown(to: record))
        record.privacy = same
        #expect(!same.isUnknown(to: record))
    }

    /// A node that was alone wrote a record by older hidden views of the same rule. It came together with the newer hidden views by its
    /// own version, which others showed with the older ones.
    @Test("A record written with older hidden views is new with the newer ones", arguments: [false, true]) mutating func olderHiddenViews(
        hiddenViewsComeFirst: Bool
    ) throws {
        let wall = cluster.now.wall
        let (first, second, third) = (Version(wall - 30, 9), Version(wall - 20, 9), Version(wall - 10, 3))
        let old = Privacy().changed(
            to: Visibility().changed(by: .init(mode: .nobody)), writtenAt: first, hiddenView: Record(blank: user("ann")), at: first)
        var new = old
        new.raise(to: second)
        var alone = Record(blank: user("ann"))
        (alone.version, alone.privacy) = (third, old)
        let owner = cluster.ownerIndex(of: "ann")
        let process = cluster.processes[(owner + 1) % 3]
        let peer = process.node.cluster.peerIndex(cluster.processes[owner].node.cluster.own.id)!
        let (status, hiddenViews) = (Row(alone), Row(new, of: user("ann")))
        for row in [Row(old, of: user("ann"))] + (hiddenViewsComeFirst ? [hiddenViews, status] : [status, hiddenViews]) {
            process.node.machines.onReplicate([row], ticket: 0, from: peer, at: cluster.now)
        }
        let told = process.node.cluster.outbox.rowsForOwners
        #expect(try told.last.map { try Privacy($0).hiddenViews.allSatisfy { $0.version > third } } == true)
        #expect(!hiddenViewsComeFirst || told.contains { $0.kind == .status && $0.version > third })
        // A node that stores the result changes nothing further.
        for row in told { process.node.machines.onReplicate([row], ticket: 0, from: peer, at: cluster.now) }
        #expect(process.node.cluster.outbox.rowsForOwners == told)
    }

    /// The same if the node that shows the record sends it.
    @Test("A record shown with older hidden views is sent again") func shownWithOlderViews() {
        var shards = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        let (first, second, third) = (Version(10, 9), Version(20, 9), Version(30, 3))
        var newest = Record(blank: user("ann"))
        newest.version = third
        newest.privacy = Privacy().changed(
            to: Visibility().changed(by: .init(mode: .nobody)), writtenAt: first, hiddenView: Record(blank: user("ann")), at: first)
        var shown = newest
        newest.privacy?.raise(to: second)
        for record in [newest, shown] {
            shards.watch([Watch(user: user("ann"), held: record.version, record: record)], from: 2, in: &outbox[at: cluster.now])
        }
        let told = shards.record(of: user("ann"))
        #expect(told.version > third && told.shown(to: user("bob")).version == told.version)
        shown.version = first
        shards.watch([Watch(user: user("ann"), held: first, record: shown)], from: 2, in: &outbox[at: cluster.now])
        #expect(shards.record(of: user("ann")) == told, "what is older needs nothing")
    }

    /// A query is answered with a record that was just written. A node without that record then sends the record before it, with a newer
    /// rule.
    /// A stream that holds the record before it must see a change, or its client goes on to show the answer of the query.
    @Test("A record that replaces an answer is sent as more than a change of the visibility") func replacedAnswer() throws {
        var shards = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        var (before, answered) = (Record(blank: user("ann")), Record(blank: user("ann")))
        (before.version, before.lastUpdateTime) = (Version(10, 9), 10)
        (answered.version, answered.lastUpdateTime) = (Version(20, 9), 20)
        var replacing = before
        let hiding = Visibility().changed(by: .init(mode: .nobody))
        replacing.version = Version(30, 3)
        replacing.privacy = Privacy().changed(
            to: hiding, writtenAt: replacing.version, hiddenView: Record(blank: user("ann")), at: replacing.version)
        for record in [before, answered, replacing] {
            shards.watch([Watch(user: user("ann"), held: record.version, record: record)], from: 2, in: &outbox[at: cluster.now])
        }
        let told = outbox.changes.map(\.record)
        let last = try #require(told.last)
        #expect(last.version == shards.record(of: user("ann")).version && last.looksLike(before))
        #expect(!last.changesPrivacy, "streams are told of it though it looks like what they told last")
        #expect(told.dropLast().last?.changesPrivacy == true, "the rule itself goes to all nodes")
        shards.watch([Watch(user: user("ann"), held: last.version, record: last)], from: 2, in: &outbox[at: cluster.now])
        #expect(outbox.changes.count == told.count, "what is known is not told anew")
    }

    /// An owner that was alone has pushed a record under an older rule, and keeps it for another owner when the newer rule arrives.
    @Test("No version stands for a record under two visibilities", arguments: [false]) func twoRules(isAwaited: Bool) throws {
        var shards = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        let now = Now(instant: Instant(nanoseconds: 0), wall: 1_000)
        let (old, new, record) = recordOfTwoRules(isAwaited: isAwaited)
        func receive(_ rows: [Row]) throws {
            _ = try shards.receive(rows, isOwned: { _ in false }, isAwaited: false, in: &outbox[at: now])
        }
        try receive([Row(old, of: user("ann")), Row(record)])
        for decides in [true, false] {
            shards.reassign({ _ in Reassignment.Role(owner: decides ? 0 : 1, decides: decides) }, in: &outbox[at: now])
            if decides { #expect((shards.record(of: user("ann")).version > record.version) == isAwaited) }
        }
        let told = shards.record(of: user("ann")).version
        try receive([Row(new, of: user("ann"))])
        let kept = try #require(shards.record(of: user("ann")).privacy)
        #expect(kept.visibility == Visibility())
        #expect(kept.version > told, "its next owner tells it anew")
        #expect(outbox.rowsForOwners.contains { $0.kind == .visibility && $0.version == kept.version })
    }

    /// An owner that was alone takes a record whose newer rule is still on its way, and shows it under the older one. The rule arrives when
    /// another node owns the user again, after the record has arrived once more.
    @Test("A record shown before its visibility arrived is sent again under it", arguments: [true, false]) func lateRule(isPromoted: Bool)
        throws
    {
        var shards = Owner(clock: VersionClock(node: 1), settings: CoreSettings())
        var outbox = Outbox()
        let now = Now(instant: Instant(nanoseconds: 0), wall: 1_000)
        let (old, new, record) = recordOfTwoRules(isAwaited: true)
        func receive(_ rows: [Row], isOwned: Bool) throws {
            _ = try shards.receive(rows, isOwned: { _ in isOwned }, isAwaited: false, in: &outbox[at: now])
        }
        func reassign(decides: Bool) {
            shards.reassign({ _ in Reassignment.Role(owner: decides ? 0 : 1, decides: decides) }, in: &outbox[at: now])
        }
        try receive([Row(old, of: user("ann"))], isOwned: !isPromoted)
        try receive([Row(record)], isOwned: !isPromoted)
        reassign(decides: true)
        let shown = shards.record(of: user("ann"))
        #expect(shown.version == record.version && shown.privacy?.visibility == old.visibility)
        reassign(decides: false)
        try receive([Row(record), Row(new, of: user("ann"))], isOwned: false)
        let kept = try #require(shards.record(of: user("ann")).privacy)
        #expect(kept.visibility == new.visibility && kept.version > record.version)
        #expect(outbox.rowsForOwners.contains { $0.kind == .visibility && $0.version == kept.version })
    }

    /// A visibility by which nobody sees Ann, a newer one by which all do, and a record newer than both. With `isAwaited` it was written
    /// under the newer one.
    private func recordOfTwoRules(isAwaited: Bool) -> (old: Privacy, new: Privacy, record: Record) {
        var hiddenView = Record(blank: user("ann"))
        hiddenView.version = Version(5, 2)
        let old = Privacy().changed(
            to: Visibility().changed(by: .init(mode: .nobody)), writtenAt: Version(10, 2), hiddenView: hiddenView, at: Version(10, 2))
        let new = old.changed(to: Visibility(), writtenAt: Version(1_200, 2), hiddenView: hiddenView, at: Version(1_200, 2))
        var record = Record(blank: user("ann"))
        (record.version, record.privacy) = (Version(1_500, 3), isAwaited ? new : old)
        return (old, new, record)
    }

    /// A hidden view is older than the record that this side of a split has shown. Watchers receive it raised; a new subscriber must, too.
    @Test("A new subscription receives nothing older than before") mutating func newSubscription() throws {
        let ann = cluster.user(ownedBy: 0)
        let bob = cluster.login("bob", on: 1)
        cluster.subscribe("bob", to: [ann], on: 1)
        cluster.setStatus(ann, "shown on this side", on: 1)
        var hiding = cluster.record(of: ann)
        hiding.version = Version(stamp: hiding.version.stamp + 1, node: 9)
        let began = Version(milliseconds: cluster.now.wall - 1_000, counter: 0, node: 9)
        hiding.privacy = Privacy().changed(
            to: Visibility().changed(by: .init(mode: .nobody)), writtenAt: began, hiddenView: Record(blank: user(ann)), at: began)
        var writer = WireWriter()
        writer.message(.delta(hiding))
        let owner = cluster.processes[0].node.cluster.own.id
        try cluster.deliver(writer.bytes, from: owner, to: 1)
        cluster.settle()
        #expect(cluster.clients[bob].view[ann]?["version"]?.textValue == hiding.version.text)
        #expect(status(of: ann, to: "bob", on: 1)?.version == hiding.version, "an answer tells the same")
        cluster.call(.unsubscribeUserStatus([user(ann)]), by: "bob", on: 1)
        cluster.subscribe("bob", to: [ann], on: 1)
        #expect(cluster.clients[bob].repeated == 1)
        #expect(cluster.clients[bob].wentBack == 0)
    }

    @Test("A node with a stale view has not acknowledged the visibility yet") mutating func staleView() {
        cluster.login("ann", on: 0)
        let owner = cluster.ownerIndex(of: "ann")
        let other = (owner + 1) % 3
        cluster.login("bob", on: other)
        cluster.subscribe("bob", to: ["ann"], on: other)
        let process = cluster.processes[other]
        let peer = process.node.cluster.peerIndex(cluster.processes[owner].node.cluster.own.id)!
        // The content of the link is lost, and requested again.
        _ = process.node.machines.edge.fanOut.unconfirm(where: { _ in true })
        process.node.machines.onReplicate([], ticket: 7, from: peer, at: cluster.now)
        process.node.releaseBarriers()
        #expect(process.node.cluster.outbox.messages.isEmpty)
        for name in ["ann", "bob"] { _ = process.node.machines.edge.fanOut.receive(Watched(user: user(name), record: nil), at: 0) }
        process.node.releaseBarriers()
        #expect(process.node.cluster.outbox.messages.map(\.message) == [.replicated(ticket: 7)])
    }

    @Test("The answer waits for every live node") mutating func barrier() {
        cluster.login("ann", on: 0)
        cluster.losing = [(0, 1), (0, 2), (1, 2), (2, 1), (1, 0), (2, 0)].filter { $0.1 == 2 }
        #expect(cluster.call(.setVisibility(.init(mode: .nobody)), by: "ann", on: 0) == nil || cluster.ownerIndex(of: "ann") == 2)
    }
}

extension Version {
    fileprivate init(_ milliseconds: Milliseconds, _ node: UInt32) { self.init(milliseconds: milliseconds, counter: 0, node: node) }
}
