import PresenceWire
import Testing

@testable import LoadSimulator

/// Plants each violation that a cluster could cause, and expects its name.
@Suite struct LedgerTests {
    let population = Population(scenario: .mesh, users: 10, watch: 9, seed: 1)
    var ledger: Ledger

    init() {
        ledger = Ledger(population: population, graceSeconds: 1.5)
        ledger.endLogins()
        _ = ledger.beginChange(of: 2)
    }

    private mutating func push(
        _ watcher: Int, _ user: Int, version: Int, text: String = "", status: StatusType = .online, look: Int32 = 0,
        at seconds: Double = 1
    ) {
        let name = Array(population.name(of: user).utf8)
        let custom = Array(text.utf8)
        name.withUnsafeBufferPointer { name in
            custom.withUnsafeBufferPointer { custom in
                var scanned = ScannedStatus()
                scanned.userID = name
                scanned.customStatus = custom
                scanned.statusType = status
                scanned.look = look
                scanned.version = Version(milliseconds: Milliseconds(version), counter: 0, node: 1)
                _ = ledger.receive(scanned, by: watcher, at: seconds)
            }
        }
    }

    @Test("A run without faults has no violation") mutating func noViolation() {
        push(1, 2, version: 1)
        push(1, 2, version: 2, text: "c2.1")
        #expect(
            ledger.counts
                == {
                    var counts = Ledger.Counts()
                    counts.recordsReceived = 2
                    return counts
                }())
    }

    @Test("An older version after a newer one on the same stream is stale") mutating func stale() {
        push(1, 2, version: 2)
        push(1, 2, version: 1)
        #expect(ledger.counts.stale == 1)
    }

    @Test("The same version twice on one stream is a duplicate") mutating func duplicate() {
        push(1, 2, version: 2)
        push(1, 2, version: 2)
        #expect(ledger.counts.duplicate == 1)
    }

    @Test("The same version is no duplicate if a policy has it look different, and is one if it looks the same again")
    mutating func shownInAnotherWay() {
        push(1, 2, version: 1, look: 7)
        push(1, 2, version: 1, look: 2)
        #expect(ledger.counts.duplicate == 0)
        push(1, 2, version: 1, look: 2)
        #expect(ledger.counts.duplicate == 1)
    }

    @Test("The same version on a new stream is not a duplicate") mutating func repeatedOnNewStream() {
        push(1, 2, version: 2)
        ledger.beginStream(of: 1)
        push(1, 2, version: 2)
        #expect(ledger.counts.duplicate == 0)
    }

    @Test("A custom status that its user never set is a phantom", arguments: ["c2.2", "c3.1", "something", "c2.0"])
    mutating func unknownStatus(text: String) {
        push(1, 2, version: 2, text: text)
        #expect(ledger.counts.phantom == 1)
    }

    @Test("OFFLINE of a user who did not leave is a phantom") mutating func offlineWithoutAbsence() {
        push(1, 2, version: 2, status: .offline)
        #expect(ledger.counts.phantom == 1)
    }

    @Test("OFFLINE of a user who was absent for longer than the grace is not a phantom") mutating func offlineAfterGrace() {
        ledger.leave(2, at: 1)
        ledger.comeBack(2, at: 3)
        push(1, 2, version: 2, status: .offline)
        #expect(ledger.counts.phantom == 0)
    }

    @Test("OFFLINE of a user who returned within the grace is a phantom") mutating func offlineWithinGrace() {
        ledger.leave(2, at: 1)
        ledger.comeBack(2, at: 2)
        push(1, 2, version: 2, status: .offline, at: 4)
        #expect(ledger.counts.phantom == 1)
    }

    @Test("A view that is older than the nodes' record is counted") mutating func viewBehind() {
        push(1, 2, version: 1)
        var records = RecordQuery(users: 10)
        records.receive(Self.status(version: 1), of: 2)
        #expect(ledger.viewsBehind(records) { $0 == 1 } == 0)
        records.receive(Self.status(version: 2), of: 2)
        #expect(ledger.viewsBehind(records) { $0 == 1 } == 1)
    }

    private static func status(version: Int, _ type: StatusType = .online) -> ScannedStatus {
        var status = ScannedStatus()
        (status.version, status.statusType) = (Version(milliseconds: Milliseconds(version), counter: 0, node: 1), type)
        return status
    }

    @Test("In scenario social a new version with the same content is not pushed, and one with another content is")
    mutating func versionWithoutChange() {
        ledger = Ledger(population: Population(scenario: .social, users: 10, watch: 1, seed: 1), graceSeconds: 1.5)
        let social = Population(scenario: .social, users: 10, watch: 1, seed: 1)
        let user = Int(social.watched[1][0])
        push(1, user, version: 1)
        var records = RecordQuery(users: 10)
        records.receive(Self.status(version: 2), of: user)
        #expect(ledger.viewsBehind(records) { $0 == 1 } == 0)
        records.receive(Self.status(version: 2, .offline), of: user)
        #expect(ledger.viewsBehind(records) { $0 == 1 } == 1)
    }

    @Test("A record of a user who is not watched is a phantom, except one of a friend with a custom status that the user set")
    mutating func recordOfFriend() {
        let social = Population(scenario: .social, users: 10, watch: 1, seed: 1)
        let pair = social.pairs[0]
        ledger = Ledger(population: social, graceSeconds: 1.5)
        var status = Self.status(version: 1, .offline)
        let name = Array(social.name(of: pair.second).utf8)
        name.withUnsafeBufferPointer { name in
            status.userID = name
            _ = ledger.receive(status, by: pair.first, at: 1) { _, _ in true }
            #expect(ledger.counts.phantom == 0, "a block hides the friend")
            Array("c\(pair.second).1".utf8).withUnsafeBufferPointer { custom in
                status.customStatus = custom
                _ = ledger.receive(status, by: pair.first, at: 1) { _, _ in true }
            }
            #expect(ledger.counts.phantom == 1)
            status.customStatus = UnsafeBufferPointer(start: nil, count: 0)
            _ = ledger.receive(status, by: pair.first, at: 1)
            #expect(ledger.counts.phantom == 2)
        }
    }

    @Test("The scanner reads fields in any order, from events in any two pieces") func scannerReadsPieces() {
        let event = """
            event: onUserStatusChanged
            id: 17
            data: {"userStatusList":[{"version":"0000000000010000000000ff","statusType":"OFFLINE","x":{"y":[1,"}"]},"customStatus":"c2.1","userID":"u"}]}


            """
        let bytes = Array(event.utf8)
        for cut in 0..<bytes.count {
            var scanner = EventScanner()
            var seen: [(Version, StatusType)] = []
            for part in [bytes[..<cut], bytes[cut...]] {
                part.withUnsafeBytes { part in
                    scanner.append(part) { kind, id, data in
                        #expect(kind == .statusChanged)
                        #expect(id == 17)
                        #expect(StatusScanner.scan(data) { seen.append(($0.version, $0.statusType)) })
                    }
                }
            }
            #expect(seen.count == 1)
            #expect(seen.first?.0 == Version(stamp: 65_536, node: 255))
            #expect(seen.first?.1 == .offline)
        }
    }

    @Test("The scanner tells events apart whose names begin alike") func scannerTellsNames() {
        let names = [
            "onUserStatusChanged", "onUserProfileChanged", "onSubscriptionSyncCompleted", "onSubscriptionExpired", "onReconnectHint",
        ]
        var scanner = EventScanner()
        var kinds: [EventScanner.Kind] = []
        Array(names.map { "event: \($0)\nid: 1\ndata: {}\n\n" }.joined().utf8).withUnsafeBytes { bytes in
            scanner.append(bytes) { kind, _, _ in kinds.append(kind) }
        }
        #expect(kinds == [.statusChanged, .chain(.profileChanged), .syncCompleted, .other, .reconnectHint])
    }
}
