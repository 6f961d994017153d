import Testing

@testable import PresenceWire

@Suite struct WireTests {
    static let ann = UserID(app: "default", id: "ann")
    static let version = Version(milliseconds: 1_790_000_000_000, counter: 3, node: 7)

    static var record: Record {
        var record = Record(blank: ann)
        record.isRegistered = true
        record.customStatusHasOwnEnd = true
        record.pushDevices = [PushDevice(platform: "ios", deviceID: "d", until: 1_790_000_000_000)]
        record.version = version
        record.statusType = .online
        record.customStatus = "in a \"meeting\""
        record.onlinePlatforms = ["ios", "web"]
        record.events.publish(PublishedEvent(value: 10_000, ext: "y", expiresAt: 6, isForOnlineOnly: false))
        record.events.publish(
            PublishedEvent(value: 10_001, ext: "x", expiresAt: 5, session: SessionID(stamp: 9, node: 2)))
        record.lastSeenTime = -1
        return record
    }

    static let session = SessionID(stamp: 77, node: 8)
    static let subscription = Subscription(target: ann, subscribedAt: 4, expiresAt: 9, version: version, isRemoved: true)
    static let privacy: Privacy = {
        var rule = Visibility()
        rule.blocked = [ann]
        let blocking = Privacy().changed(to: rule, writtenAt: version, hiddenView: record, at: version)
        return blocking.changed(to: rule.changed(by: .init(mode: .nobody)), writtenAt: version, hiddenView: record, at: version)
    }()
    static let hiding: Record = {
        var hiding = record
        hiding.privacy = privacy
        return hiding
    }()
    static let forFriends: Record = {
        var rule = Visibility().changed(by: .init(mode: .friends))
        rule.friends = ["bob", "cid"].map { UserID(app: "default", id: $0) }
        var forFriends = record
        forFriends.privacy = Privacy().changed(to: rule, writtenAt: version, hiddenView: record, at: version)
        return forFriends
    }()
    static var news: ListUpdate {
        let added: [ListUpdate.Followed] = [
            .init(target: ann, delivered: .version(version), since: 4, subscribeType: 3, expiresAt: 9),
            .init(friend: UserID(app: "default", id: "bob"), since: 5), .init(friend: UserID(app: "default", id: "cid"), since: 6),
        ]
        var listUpdate = ListUpdate(user: ann, version: version, isWhole: false, added: added, removed: [ann])
        listUpdate.unfollowed = [.init(target: ann, subscribeType: 3)]
        (listUpdate.isNews, listUpdate.hasExpired, listUpdate.mayBeIncomplete, listUpdate.originSession, listUpdate.listHash) = (
            true, true, true, .session(session), .max
        )
        (listUpdate.profiles, listUpdate.removedProfiles) = ([UserID(app: "default", id: "bob")], [ann])
        listUpdate.formerFriends = [ListUpdate.Followed(friend: UserID(app: "default", id: "bob"), since: 7)]
        listUpdate.sessions = [
            UserSession(id: session, platform: "ios", deviceID: "d", node: "", since: 8),
            UserSession(id: session, platform: "web", deviceID: "", node: "a", since: 9),
        ]
        return listUpdate
    }

    static var some: SlotRanges {
        var ranges = SlotRanges()
        for range in [0, 63, 64, 1_023] { ranges.insert(range) }
        return ranges
    }

    static var listener: Attach {
        var attach = Attach(session: session, user: ann, platform: "bot")
        (attach.kind, attach.isOneOfSeveral) = (.listener, true)
        return attach
    }

    static let trace: TraceContext = {
        guard let trace = TraceContext(traceHigh: .max, traceLow: 1, span: 1 << 63, isSampled: true) else {
            preconditionFailure("no ID is 0")
        }
        return trace
    }()

    static let messages: [Message] = [
        .beginSync(registrationID: 1, ranges: .all), .beginSync(registrationID: 2, ranges: some),
        .requestRegistered(registrationID: 3, ring: .max),
        .registered(registrationID: 3, []), .registered(registrationID: .max, [0, .max]), .relay(record, targets: [0, .max]),
        .relay(record, targets: []),
        .relayed([SlotHash(slot: 65_535, hash: 5)]), .viewDigest(ring: 9, first: 63, [0, .max]), .endSync(registrationID: .max),
        .attach(
            Attach(
                session: session, user: ann, platform: "ios", deviceID: "d", customStatus: "x", isLogin: false, isPushReachable: true,
                record: record)),
        .attach(listener), .detach(Detach(session: session, user: ann, cause: .lost, silence: 12)),
        .watch([Watch(user: ann, held: version, record: record), Watch(user: ann, held: .zero)]), .unwatch([ann]),
        .pendingEnds([
            PendingEnds(user: ann, graceEndsAt: 1_790_000_002_000, lastSeenTime: 0, ended: []),
            PendingEnds(
                user: ann, graceEndsAt: nil, lastSeenTime: 1,
                ended: [
                    PendingEnds.Ended(session: session, openedUntil: 0, reason: "logout"),
                    PendingEnds.Ended(session: nil, openedUntil: 1_790_000_000_000, reason: ""),
                ]),
        ]), .pendingEnds([]),
        .request(Request(id: 1, user: ann, operation: .setSelfStatus(customStatus: "", seconds: nil))),
        .traced(trace, Request(id: 1, user: ann, operation: .setSelfStatus(customStatus: "", seconds: nil))),
        .request(
            Request(
                id: 2, user: ann,
                operation: .subscribe(
                    [.init(user: ann, delivered: .version(version))], seconds: 60, subscribeType: 1, session: .session(session)),
                begunAt: version, isRepeated: true)
        ),
        .request(
            Request(
                id: 2, user: ann,
                operation: .subscribe(
                    [.init(user: ann, delivered: .nothing)], seconds: nil, subscribeType: 1, session: .unknown, isCounted: true))),
        .request(Request(id: 2, user: ann, operation: .chain(.setBlocked([ann], true)), key: CallKey("!~", digest: .max))),
        .request(Request(id: 2, user: ann, operation: .followers([ann]))), .answer(id: 2, .followerLimitReached([ann])),
        .answer(id: 2, .followers([0, .max])),
        .request(Request(id: 3, user: ann, operation: .unsubscribe(nil, subscribeType: nil, session: .backEnd))),
        .request(Request(id: 4, user: ann, operation: .subscriptions(only: [ann], offset: 3, limit: 200, subscribeType: 3))),
        .request(Request(id: 5, user: ann, operation: .records([ann], for: nil))),
        .request(Request(id: 5, user: ann, operation: .records([ann], for: ann))),
        .request(Request(id: 11, user: ann, operation: .setVisibility(.init(mode: .list, isInvisible: true, listed: [ann])))),
        .request(Request(id: 12, user: ann, operation: .visibility)), .answer(id: 12, .visibility(privacy)), .delta(hiding),
        .delta(forFriends),
        .answer(id: 13, .visibility(privacy, remnant: .until(1_790_000_000_000))),
        .answer(id: 14, .visibility(privacy, remnant: .whileCutOff)), .clocks(1_790_000_000_000, system: -1, wantsAnswer: true),
        .clocks(-1, system: 1_790_000_300_000, wantsAnswer: false),
        .request(Request(id: 6, user: ann, operation: .logout(session))),
        .request(
            Request(
                id: 7, user: ann,
                operation: .publishEvent(
                    value: 10_000, ext: "e", seconds: 60, isForOnlineOnly: false, isSynced: true, session: SessionID(stamp: 9, node: 2)))),
        .request(Request(id: 8, user: ann, operation: .kick(reason: "banned"))),
        .request(Request(id: 9, user: ann, operation: .setPolicy(Array(#"{"preset":"zim"}"#.utf8)))),
        .request(Request(id: 10, user: ann, operation: .explain(ann, .view))),
        .request(Request(id: 12, user: ann, operation: .explain(ann, .load))), .answer(id: 12, .explained(.load, Array("{}".utf8))),
        .request(Request(id: 11, user: ann, operation: .register)),
        .answer(id: 10, .explained(.view, Array("{}".utf8))), .answer(id: 9, .subscribed(evicted: [], refused: [ann])),
        .delta(record), .watched([Watched(user: ann, record: nil, knownSince: 9), Watched(user: ann, record: record)]),
        .listUpdate(
            ListUpdate(
                user: ann, version: version, isWhole: true,
                added: [.init(target: ann, delivered: .laterChanges, since: 3, subscribeType: 3, expiresAt: 9)], removed: [ann])),
        .detach(Detach(session: session, user: ann, cause: .tokenExpired)), .renew(session, user: ann, until: 1_790_000_000_000),
        .request(Request(id: 6, user: ann, operation: .renew(session, until: 1_790_000_000_000))),
        .listUpdate(news), .end(session, user: ann, reason: "logout"), .answer(id: 9, .record(record)),
        .answer(id: 9, .subscribed(evicted: [ann])), .answer(id: 9, .subscribed(evicted: [], nonFriends: [ann])),
        .answer(id: 9, .done), .answer(id: 9, .subscriptions([subscription], total: 12)), .answer(id: 9, .records([record])),
        .answer(id: 9, .refused(.unavailable.afterPassingOn)), .answer(id: 9, .sentBack), .misrouted([ann]),
        .offer(ring: 7, offerSequence: 3, [SlotHash(slot: 65_535, hash: .max)], isFirst: true, isLast: false),
        .fetch(ring: 7, [0, 65_535]),
        .sent(ring: 7, slotsCount: 64), .transferComplete(ring: .max, offerSequence: 2), .requestOffer,
        .membership(
            MembershipMessage(
                .probe(7),
                updates: [MembershipUpdate(member: Peer(id: NodeID("n"), generation: 5, address: "h:1"), incarnation: 2, state: .suspect)])),
        .complete(upTo: version), .requestSync,
        .replicate(
            ticket: 3,
            [
                Row(user: ann, kind: .status, key: "", version: version, value: Array("{}".utf8), expiresAt: 3),
                Row(user: ann, kind: .subscription, key: "bob", version: version, value: nil),
            ]),
        .replicated(ticket: 3), .digest([0, .max, 7]), .askFollowed(id: 9, ring: .max, [ann]),
        .areFollowed(id: 9, []),
        .bucketDigest(
            salt: .max,
            [
                HashBucket(HashBucket.place(ofRange: 1_023), .parts([0, 1, .max, 3, 4, 5, 6, 7])),
                HashBucket(.init(number: 0, bits: 13), .entries([.init(key: 1, hash: .max, newest: .max)])),
                HashBucket(.init(number: .max, bits: 64), .wanted([0, .max])),
            ]),
    ]

    private func decode(_ bytes: [UInt8]) throws(DecodeError) -> Message {
        let result: Result<Message, DecodeError> = bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            return Result { () throws(DecodeError) in
                let message = try reader.message()
                try reader.expectEnd()
                return message
            }
        }
        return try result.get()
    }

    @Test("A record without a profile is as long as before, and the version of a profile travels with all views")
    func profileVersion() throws {
        func bytes(_ record: Record) -> [UInt8] {
            var wire = WireWriter()
            wire.record(record)
            return wire.bytes
        }
        func read(_ bytes: [UInt8]) throws -> Record {
            try bytes.withUnsafeBytes { bytes in
                var reader = WireReader(bytes)
                return try reader.record()
            }
        }
        var named = Self.hiding
        named.profileVersion = Self.version
        #expect(try read(bytes(named)) == named && read(bytes(Self.hiding)) == Self.hiding)
        var version = WireWriter()
        version.version(Self.version)
        #expect(bytes(named).count == bytes(Self.hiding).count + version.bytes.count)
        let bob = UserID(app: "default", id: "bob")
        let shown = named.shown(to: bob)
        #expect(shown.profileVersion == Self.version && shown.version == Self.hiding.shown(to: bob).version)
        #expect(named.looksLike(Self.hiding) && named != Self.hiding)
    }

    @Test("Every message survives encoding", arguments: messages) func roundTrip(message: Message) throws {
        var writer = WireWriter()
        writer.message(message)
        #expect(try decode(writer.bytes) == message)
    }

    @Test("Every truncated message is refused", arguments: messages) func truncation(message: Message) {
        var writer = WireWriter()
        writer.message(message)
        for count in 0..<writer.bytes.count {
            #expect(throws: DecodeError.self) { try decode(Array(writer.bytes[..<count])) }
        }
    }

    @Test("A flipped byte is refused or gives another message", arguments: messages) func flippedByte(message: Message) {
        var writer = WireWriter()
        writer.message(message)
        for index in writer.bytes.indices {
            var bytes = writer.bytes
            bytes[index] ^= 0xFF
            if let other = try? decode(bytes) { #expect(other != message) }
        }
    }

    /// A bucket of a wider place would take a walk over all users. Larger lists would take memory that no peer needs.
    @Test("A bucket of an impossible place, or with too many entries, is refused") func badBuckets() throws {
        func message(_ bits: Int, number: UInt64, _ content: HashBucket.Content, count: Int = 1) -> [UInt8] {
            var writer = WireWriter()
            let bucket = HashBucket(.init(number: number, bits: bits), content)
            writer.message(.bucketDigest(salt: 0, Array(repeating: bucket, count: count)))
            return writer.bytes
        }
        let parts = HashBucket.Content.parts(Array(repeating: 1, count: HashBucket.partsCount))
        let entries = Array(repeating: HashBucket.Entry(key: 1, hash: 2, newest: 3), count: HashBucket.wantedMax)
        #expect(try decode(message(10, number: 1_023, parts, count: Message.bucketsMax)) != .requestOffer)
        #expect(try decode(message(64, number: .max, .entries(entries))) != .requestOffer)
        #expect(throws: DecodeError.outOfRange(7)) { try decode(message(7, number: 0, parts)) }
        #expect(throws: DecodeError.outOfRange(11)) { try decode(message(11, number: 0, parts)) }
        #expect(throws: DecodeError.outOfRange(64)) { try decode(message(64, number: 0, parts)) }
        #expect(throws: DecodeError.tooLong(count: 2_049, limit: 2_048)) {
            try decode(message(10, number: 0, parts, count: Message.bucketsMax + 1))
        }
        #expect(throws: DecodeError.tooLong(count: 65, limit: 64)) { try decode(message(10, number: 0, .entries(entries + [entries[0]]))) }
        #expect(throws: DecodeError.tooLong(count: 65, limit: 64)) {
            try decode(message(10, number: 0, .wanted(Array(repeating: 1, count: HashBucket.wantedMax + 1))))
        }
        var writer = WireWriter()
        writer.message(.bucketDigest(salt: 0, [HashBucket(.init(number: 1, bits: 10), .wanted([]))]))
        // The tag, the salt, the count and the bits come before the number.
        writer.bytes[4...4] = [0x80, 0x08]
        #expect(throws: DecodeError.tooLong(count: 11, limit: 10)) { try decode(writer.bytes) }
    }

    /// Sums of these would end the process.
    @Test("Times and durations that no node sends are refused", arguments: [Int64.min, -(1 << 53) - 1, (1 << 53) + 1, .max])
    func outOfRange(number: Int64) {
        var records = [WritableKeyPath<Record, Milliseconds>]()
        records += [\.lastUpdateTime, \.lastOnlineStatusUpdateTime, \.lastCustomStatusUpdateTime, \.lastSeenTime]
        records += [\.customStatusExpiresAt, \.knownSince]
        var messages = records.map { path in
            var record = Self.record
            record[keyPath: path] = number
            return Message.delta(record)
        }
        var record = Self.record
        record.events.newest?.expiresAt = number
        messages.append(.delta(record))
        record = Self.record
        record.pushDevices[0].until = number
        messages.append(.delta(record))
        messages.append(.detach(Detach(session: Self.session, user: Self.ann, cause: .lost, silence: number)))
        messages.append(
            .replicate(ticket: 1, [Row(user: Self.ann, kind: .status, key: "", version: Self.version, value: nil, expiresAt: number)]))
        var subscription = Self.subscription
        subscription.expiresAt = number
        messages.append(.answer(id: 1, .subscriptions([subscription], total: 1)))
        messages.append(.answer(id: 1, .visibility(Self.privacy, remnant: .until(number))))
        messages += [.clocks(number, system: 0, wantsAnswer: true), .clocks(0, system: number, wantsAnswer: true)]
        let operations: [OwnerOperation] = [
            .setSelfStatus(customStatus: "x", seconds: number),
            .subscribe([], seconds: number, subscribeType: 1, session: .unknown),
            .publishEvent(value: 10_000, ext: "", seconds: number, isForOnlineOnly: true, isSynced: true, session: nil),
        ]
        messages += operations.map { .request(Request(id: 1, user: Self.ann, operation: $0)) }
        for message in messages {
            var writer = WireWriter()
            writer.message(message)
            #expect(throws: DecodeError.outOfRange(number), "\(message)") { try decode(writer.bytes) }
        }
    }

    @Test("A remnant of an unknown kind is refused") func unknownRemnant() throws {
        var writer = WireWriter()
        writer.message(.answer(id: 1, .visibility(Self.privacy, remnant: .whileCutOff)))
        var bytes = writer.bytes
        #expect(bytes.last == 2)
        bytes[bytes.count - 1] = 3
        #expect(throws: DecodeError.unknownTag(3)) { try decode(bytes) }
    }

    @Test("Versions sort as text like as numbers") func versionOrder() {
        let versions = [
            Version.zero, Version(milliseconds: 1, counter: 0, node: 9), Version(milliseconds: 1, counter: 1, node: 0),
            Version(milliseconds: 1, counter: 1, node: 1), Version(milliseconds: 2, counter: 0, node: 0),
        ]
        #expect(versions.sorted() == versions)
        #expect(versions.map(\.text).sorted() == versions.map(\.text))
    }

    @Test("A version is read from its text and from nothing else") func versionText() {
        for version in [Version.zero, .max, Version(milliseconds: 1_790_000_000_000, counter: 77, node: 0xCBD8_5ABC)] {
            #expect(Version(text: version.text) == version)
        }
        let text = Version.max.text
        for other in ["", "0", String(text.dropLast()), text + "0", text.uppercased(), "+" + text.dropLast(), "é" + text.dropLast(2)] {
            #expect(Version(text: other) == nil, "\(other)")
        }
    }

    @Test("A session ID is read from 24 digits, also with capitals, and from nothing else") func sessionText() {
        let session = SessionID(stamp: 0xABC, node: 0xDEF)
        #expect(session.description == "0000000000000abc00000def")
        #expect(SessionID("0000000000000abc00000def") == session && SessionID("0000000000000ABC00000dEf") == session)
        for text in ["", "000000000000abc00000def", "00000000000000abc00000def", "+000000000000abc00000def", "0000000000000abg00000def"] {
            #expect(SessionID(text) == nil, "\(text)")
        }
        #expect(SessionID(digits: Array("0000000000000ABC00000def".utf8)[...]) == nil, "a node writes no capitals")
    }

    @Test("A version clock goes on when the wall clock goes back") func clock() {
        var clock = VersionClock(node: 1)
        let first = clock.next(at: 1_000)
        #expect(clock.next(at: 10) > first)
        clock.observe(Version(milliseconds: 5_000, counter: 0, node: 2))
        #expect(clock.next(at: 1_001).milliseconds >= 5_000)
        #expect(!clock.accepts(Version(milliseconds: 3_600_000, counter: 0, node: 2), at: 1_000))
    }

    @Test("IDs that Unicode calls equivalent are two users") func equivalentIDs() {
        let composed = UserID(app: "default", id: "\u{E9}")
        let decomposed = UserID(app: "default", id: "e\u{301}")
        #expect(composed != decomposed)
        #expect(Set([composed, decomposed]).count == 2)
    }

    @Test(
        "Names have 1 to 64 bytes",
        arguments: [("", false), ("a", true), (String(repeating: "x", count: 64), true), (String(repeating: "x", count: 65), false)])
    func names(name: String, isValid: Bool) {
        #expect(Limits.isValidName(name) == isValid)
    }

    @Test("Names have no control characters", arguments: ["a\u{0}b", "a\nb", "\u{7F}", "\u{85}"]) func controlCharacters(name: String) {
        #expect(!Limits.isValidName(name))
    }

    @Test(
        "A user on the wire is two valid names",
        arguments: [
            ("default\0ann", true), ("é\0\u{4E2D}", true), ("a\0" + String(repeating: "x", count: 64), true), ("", false),
            ("default", false),
            ("\0ann", false), ("default\0", false), ("a\0b\0c", false), ("a\0b\n", false), ("a\0\u{85}", false),
            ("a\0" + String(repeating: "x", count: 65), false),
        ])
    func userNames(joined: String, isValid: Bool) {
        var writer = WireWriter()
        writer.text(joined)
        writer.bytes.withUnsafeBytes { bytes in
            var reader = WireReader(bytes)
            let user = Result { () throws(DecodeError) in try reader.user() }
            #expect((try? user.get().joined) == (isValid ? joined : nil))
        }
    }

    @Test("The stable hash never changes") func stableHash() {
        #expect(StableHash.hash64(Array("default\0ann".utf8)) == StableHash.hash64(Array("default\0ann".utf8)))
        #expect(UserID(app: "default", id: "ann").slot == 56_961)
    }

    @Test("A hello of another protocol version names its sender, whatever follows") func otherProtocol() throws {
        let sender = Peer(id: NodeID("old"), generation: 5, address: "10.0.0.1:7601")
        var writer = WireWriter()
        writer.hello(Hello(cluster: "rollcall", sender: sender, members: [sender], wall: 7, protocolVersion: 10))
        for bytes in [writer.bytes, writer.bytes + [1, 2, 3], Array(writer.bytes.dropLast(3))] {
            let hello = try bytes.withUnsafeBytes { bytes in
                var reader = WireReader(bytes)
                return try reader.hello()
            }
            #expect(hello.sender == sender && hello.cluster == "rollcall" && hello.protocolVersion == 10 && !hello.isOfThisProtocol)
        }
    }
}
