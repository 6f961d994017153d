import PresenceWire
import Testing

@testable import PresenceCore

/// The key of a call stands for the operation and the body, without the session that makes the call.
@Suite struct CallKeysTests {
    private static let sessions = ["0123456789abcdef01234567", "0123456789ABCDEF01234568"]

    private func digest(_ body: String, of operation: API.Operation = .publishEvent) throws -> UInt64? {
        try operation.key(Array("k".utf8), body: body.utf8)?.digest
    }

    @Test("A call is the same in another session or without one, whatever its white space", arguments: sessions)
    func session(_ session: String) throws {
        let call = try digest(#"{"value":10001,"ext":"x"}"#)
        for body in [
            #"{"sessionID":"\#(session)","value":10001,"ext":"x"}"#, #"{"value":10001,"sessionID":"\#(session)","ext":"x"}"#,
            #"{"value":10001,"ext":"x","sessionID":"\#(session)"}"#, #"{"value": 10001, "ext": "x", "sessionID": "\#(session)"}"#,
            #"{"value": 10001, "ext": "x"}"#, "{\n\t\"sessionID\" : \"\(session)\",\n\t\"value\" : 10001,\n\t\"ext\" : \"x\"\n}\n",
            #"{"sessionID":null,"value":10001,"ext":"x"}"#,
        ] {
            #expect(try digest(body) == call, "\(body)")
        }
    }

    @Test("A text or an object with the name of the session belongs to the body, and so does white space in a text") func others() throws {
        let bodies = [
            #"{"value":10001,"ext":"\"sessionID\":\"a\""}"#, #"{"value":10001,"ext":"\"sessionID\":\"b\""}"#,
            #"{"value":10001,"ext":"sessionID"}"#, #"{"value":10001,"ext":"session ID"}"#,
            #"{"value":10001,"more":{"sessionID":"a"}}"#, #"{"value":10001,"more":{"sessionID":"b"}}"#, #"{"value":10002}"#,
            #"{"value":10001,"sessionid":"a"}"#, #"{"value":10001}"#,
        ]
        #expect(Set(try bodies.map { try digest($0) }).count == bodies.count)
    }

    @Test("A call has no key where a repetition changes nothing, and other operations have other keys") func operations() throws {
        let body = #"{"userIDs":["ann"]}"#
        #expect(try digest(body, of: .getUserStatus) == nil)
        #expect(try digest(body, of: .addBlackList) != digest(body, of: .deleteBlackList))
    }
}
