import PresenceWire
import Testing

@testable import PresenceCore

/// The friend requests of a user (P20–P28) on three nodes. Ann has received requests from several users, and has sent one to ben.
@Suite struct FriendRequestsTests {
    var cluster = TestCluster(nodes: 3)
    let ann: String
    let ben: String
    let others: [String]

    init() {
        ann = cluster.user(ownedBy: 0)
        ben = cluster.user(ownedBy: 1)
        let cluster = cluster
        others = (0..<5).map { cluster.user(ownedBy: 2, number: $0) }
        self.cluster.call(.setAppPolicy(Array(#"{"settings":{"profile.defaultAllowType":"confirm"}}"#.utf8)), by: ann, on: 0)
        self.cluster.advance(.milliseconds(100))
    }

    private mutating func ask(_ target: String, by name: String, wording: String = "") {
        var request = SentRequest(addTime: 0)
        request.addWording = wording
        cluster.call(.chain(.add(user(target), request, isTwoWay: true)), by: name, on: 2)
        cluster.advance(.milliseconds(50))
    }

    private mutating func perform(_ call: FriendCall, by name: String, on node: Int = 2) -> FriendCallResult? {
        cluster.call(.friendCall(call), by: name, on: node)
        cluster.advance(.milliseconds(50))
        guard case .owner(.friendCalled(let result)) = cluster.lastAnswer(on: node) else { return nil }
        return result
    }

    private mutating func read(_ query: RequestQuery, by name: String, on node: Int = 2) throws -> JSONValue {
        try JSONReader.read(try #require(perform(.requests(query), by: name, on: node)).json)
    }

    private func users(_ page: JSONValue) -> [String] { (page["pendencyList"]?.elements ?? []).compactMap { $0["userID"]?.textValue } }

    @Test("A request is in the lists of both users, with its kind (P20, P26)") mutating func bothSides() throws {
        ask(ben, by: ann, wording: "hello")
        for (name, other, kind) in [(ann, ben, FriendRequestKind.sent), (ben, ann, .received)] {
            for node in 0..<3 {
                let page = try read(RequestQuery(), by: name, on: node)
                let item = page["pendencyList"]?.elements.first
                #expect(users(page) == [other])
                #expect(item?["type"]?.number == Int64(kind.rawValue) && item?["addWording"]?.textValue == "hello")
                #expect(page["timestamp"]?.number == 0 && page["unreadCnt"]?.number == (kind == .received ? 1 : 0))
            }
            let opposite: FriendRequestKind = kind == .sent ? .received : .sent
            #expect(users(try read(RequestQuery(kind: kind), by: name)) == [other])
            #expect(users(try read(RequestQuery(kind: opposite), by: name)) == [])
        }
    }

    @Test("Pages are in the order of change, and 0 ends (P24)", arguments: [1, 2, 4, 5, 6, 100]) mutating func pages(limit: Int) throws {
        for name in others { ask(ann, by: name) }
        ask(ben, by: ann)
        var (found, time, pagesCount) = ([String](), Milliseconds(0), 0)
        repeat {
            let page = try read(RequestQuery(after: time, limit: limit), by: ann)
            #expect(users(page).count <= limit)
            found += users(page)
            time = page["timestamp"]?.number ?? 0
            pagesCount += 1
        } while time != 0 && pagesCount < 10
        #expect(found == others + [ben])
        #expect(pagesCount == (6 + limit - 1) / limit)
    }

    @Test("Each request is on exactly one page, whatever millisecond it has (P24)", arguments: 1...12) mutating func sharedTimes(limit: Int)
        throws
    {
        for (number, name) in (0..<12).map({ cluster.user(ownedBy: 2, number: $0) }).enumerated() {
            cluster.call(.chain(.add(user(ann), SentRequest(addTime: 0), isTwoWay: true)), by: name, on: 2)
            // Three requests at a time.
            if number % 3 == 2 { cluster.advance(.milliseconds(50)) }
        }
        var (found, time, pagesCount) = ([String](), Milliseconds(0), 0)
        repeat {
            let page = try read(RequestQuery(after: time, limit: limit), by: ann)
            found += users(page)
            time = page["timestamp"]?.number ?? 0
            pagesCount += 1
        } while time != 0 && pagesCount < 20
        #expect(found.count == 12 && Set(found).count == 12)
    }

    @Test("With the newest sequence the page is empty, and with another one it has all requests (P23)") mutating func sequence() throws {
        ask(ann, by: others[0])
        let sequence = try read(RequestQuery(), by: ann)["seq"]!.textValue
        let same = try read(RequestQuery(since: sequence), by: ann)
        #expect(users(same) == [] && same["seq"]?.textValue == sequence && same["unreadCnt"]?.number == 1)
        ask(ann, by: others[1])
        let changed = try read(RequestQuery(since: sequence), by: ann)
        #expect(users(changed) == Array(others[..<2]) && changed["seq"]?.textValue != sequence)
        #expect(sequence.utf8.count <= Limits.nameBytesMax)
    }

    @Test("A time far in the future ends the pages") mutating func farTime() throws {
        ask(ann, by: others[0])
        #expect(users(try read(RequestQuery(after: Limits.times.upperBound), by: ann)) == [])
    }

    @Test("A deleted request is gone from the own list alone; an unknown one is 30614 (P27)") mutating func deleting() throws {
        ask(ben, by: ann)
        ask(ann, by: others[0])
        let before = try read(RequestQuery(), by: ann)["seq"]!.textValue
        let result = perform(.deleteRequests([user(ben), user(others[1])], .sent), by: ann)
        #expect(result?.users.map(\.code) == [.done, .noRequest])
        #expect(users(try read(RequestQuery(), by: ann)) == [others[0]])
        #expect(users(try read(RequestQuery(), by: ben)) == [ann])
        #expect(try read(RequestQuery(), by: ann)["seq"]?.textValue != before)
        #expect(perform(.deleteRequests([user(others[0])], .sent), by: ann)?.users.map(\.code) == [.noRequest])
        #expect(perform(.deleteRequests([user(others[0])], .received), by: ann)?.users.map(\.code) == [.done])
    }

    @Test("A request that its sender has deleted can still be accepted") mutating func acceptDeleted() {
        ask(ben, by: ann)
        #expect(perform(.deleteRequests([user(ben)], .sent), by: ann)?.users.map(\.code) == [.done])
        cluster.call(.chain(.respond(user(ann), .accept(remark: "", isTwoWay: true))), by: ben, on: 2)
        cluster.advance(.milliseconds(50))
        guard case .owner(.chained(let outcomes)) = cluster.lastAnswer(on: 2) else { return #expect(Bool(false)) }
        #expect(outcomes.map(\.code) == [.done])
    }

    @Test("Requests up to the reported time are read; the time does not go back (P28)") mutating func reading() throws {
        for name in others { ask(ann, by: name) }
        let times = try read(RequestQuery(), by: ann)["pendencyList"]!.elements.compactMap { $0["addTime"]?.number }
        for (time, unread) in [(times[1] - 1, 4), (times[1], 3), (times[0], 3), (times[4], 0)] as [(Milliseconds, Int64)] {
            let result = try JSONReader.read(try #require(perform(.readRequests(upTo: time), by: ann)).json)
            #expect(result["unreadCnt"]?.number == unread)
            for node in 0..<3 { #expect(try read(RequestQuery(), by: ann, on: node)["unreadCnt"]?.number == unread) }
        }
    }

    @Test("A time in the future counts as now, so that a later request is unread (P28)") mutating func future() throws {
        ask(ann, by: others[0])
        #expect(perform(.readRequests(upTo: cluster.now.wall + 86_400_000), by: ann) != nil)
        ask(ann, by: others[1])
        #expect(try read(RequestQuery(), by: ann)["unreadCnt"]?.number == 1)
    }

    @Test("Changes outlive their owner") mutating func owners() throws {
        for name in others { ask(ann, by: name) }
        let times = try read(RequestQuery(), by: ann)["pendencyList"]!.elements.compactMap { $0["addTime"]?.number }
        #expect(perform(.readRequests(upTo: times[2]), by: ann) != nil)
        #expect(perform(.deleteRequests([user(others[0])], .received), by: ann) != nil)
        cluster.kill(0)
        cluster.advance(.seconds(8))
        let page = try read(RequestQuery(), by: ann, on: 1)
        #expect(users(page) == Array(others[1...]) && page["unreadCnt"]?.number == 2)
    }
}
