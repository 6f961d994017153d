import PresenceWire
import Testing

@testable import ClusterSimulation

/// The relationship chain of a user as one stream has told it.
@Suite struct ToldRelationshipTests {
    var told = ToldRelationship()
    private let session = SessionID("000000000000000000000001")!

    private mutating func read(_ name: String, _ json: String, known: [String: Set<String>] = [:]) throws -> String? {
        told.read(name, try JSONReader.read(Array(json.utf8)), on: session) { known[$0] }
    }

    private static let empty = RelationshipState().sequence(of: .requests)

    @Test("Events whose sequences follow each other make the lists, and a gap makes a list unknown") mutating func friends() throws {
        let state = #"{"friendSeq":"a","pendencySeq":"\#(Self.empty)","unreadCnt":0}"#
        #expect(try read("onRelationshipState", state, known: ["a": ["ben"]]) == nil)
        #expect(told.friends == ["ben"] && told.received == [] && told.sent == [])
        #expect(try read("onFriendListAdded", #"{"friendList":[{"userID":"cid"}],"fromSeq":"a","seq":"b"}"#) == nil)
        #expect(try read("onFriendListDeleted", #"{"userIDs":["ben"],"fromSeq":"b","seq":"c"}"#) == nil)
        #expect(told.friends == ["cid"] && told.friendSequence == "c")
        #expect(try read("onFriendListDeleted", #"{"userIDs":["cid"],"fromSeq":"x","seq":"y"}"#) != nil)
        #expect(told.friends == nil && told.friendSequence == "y" && told.received == [])
    }

    @Test("Requests of each type are a list of their own, and the unread count is the newest") mutating func requests() throws {
        _ = try read("onRelationshipState", #"{"friendSeq":"a","pendencySeq":"\#(Self.empty)","unreadCnt":0}"#)
        let list = #"[{"userID":"ben","type":1},{"userID":"cid","type":2}]"#
        let added = #"{"pendencyList":\#(list),"fromSeq":"\#(Self.empty)","seq":"b","unreadCnt":1}"#
        #expect(try read("onFriendApplicationListAdded", added) == nil)
        #expect(told.received == ["ben"] && told.sent == ["cid"] && told.unreadCount == 1)
        let ended = #"{"userIDs":["cid"],"type":2,"fromSeq":"b","seq":"c","unreadCnt":1}"#
        #expect(try read("onFriendApplicationListDeleted", ended) == nil)
        #expect(told.received == ["ben"] && told.sent == [] && told.requestSequence == "c")
        #expect(try read("onFriendApplicationListRead", #"{"timestamp":1,"unreadCnt":0}"#) == nil)
        #expect(told.unreadCount == 0)
    }

    @Test("A newer state makes the lists unknown unless the client has read them, and an equal one changes nothing")
    mutating func states() throws {
        let known = ["a": Set(["ben"]), "c": ["dan"]]
        _ = try read("onRelationshipState", #"{"friendSeq":"a","pendencySeq":"p","unreadCnt":0}"#, known: known)
        #expect(told.friends == ["ben"] && told.received == nil)
        _ = try read("onRelationshipState", #"{"friendSeq":"a","pendencySeq":"p","unreadCnt":0}"#)
        #expect(told.friends == ["ben"])
        _ = try read("onRelationshipState", #"{"friendSeq":"b","pendencySeq":"p","unreadCnt":0}"#, known: known)
        #expect(told.friends == nil)
        _ = try read("onRelationshipState", #"{"friendSeq":"c","pendencySeq":"p","unreadCnt":0}"#, known: known)
        #expect(told.friends == ["dan"])
    }

    @Test("The blocklist follows its events, and a gap or a newer state makes it unknown") mutating func blocklist() throws {
        let none = RelationshipState().sequence(of: .blocked)
        _ = try read("onRelationshipState", #"{"groupsVersion":"g","blockVersion":"\#(none)"}"#)
        #expect(told.blocked == [] && told.sequence(of: .groups) == "g")
        #expect(try read("onBlackListAdded", #"{"userIDs":["ben","cid"],"fromSeq":"\#(none)","seq":"b"}"#) == nil)
        #expect(try read("onBlackListDeleted", #"{"userIDs":["ben"],"fromSeq":"b","seq":"c"}"#) == nil)
        #expect(told.blocked == ["cid"] && told.sequence(of: .blocked) == "c")
        _ = try read("onRelationshipState", #"{"groupsVersion":"g","blockVersion":"c"}"#)
        #expect(told.blocked == ["cid"])
        #expect(try read("onBlackListAdded", #"{"userIDs":["ben"],"fromSeq":"x","seq":"y"}"#) != nil)
        #expect(told.blocked == nil && told.sequence(of: .blocked) == "y")
        _ = try read("onRelationshipState", #"{"groupsVersion":"g","blockVersion":"\#(none)"}"#)
        #expect(told.blocked == [])
    }

    @Test("An event about groups and a state each name the newest sequence of the groups") mutating func groups() throws {
        _ = try read("onRelationshipState", #"{"groupsVersion":"g"}"#)
        #expect(try read("onFriendGroupsChanged", #"{"groupList":[],"seq":"h"}"#) == nil)
        #expect(told.sequence(of: .groups) == "h")
        _ = try read("onRelationshipState", #"{"groupsVersion":"i"}"#)
        #expect(told.sequence(of: .groups) == "i")
    }
}
