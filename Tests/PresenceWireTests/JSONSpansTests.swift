import PresenceWire
import Testing

/// The places of values in texts that were written by `JSONWriter`.
@Suite struct JSONSpansTests {
    private static let object =
        #"{"a":["x \"y\" \\",1],"b":{"c":[[],{}],"d":"}]"},"e":-12,"f":true,"long":"123456789 \\\\ 123456789","g":null,"":[]}"#

    private func part(_ place: Range<Int>, of text: [UInt8]) -> String { String(decoding: text[place], as: UTF8.self) }

    @Test("Each member of an object is found with the text of its value") func members() throws {
        let text = Array(Self.object.utf8)
        guard case .object(let read) = try JSONReader.read(text) else { return #expect(Bool(false), "no object") }
        let members = try #require(JSONSpans.members(of: text))
        #expect(members.map { part($0.name, of: text) } == read.map(\.name))
        #expect(try members.map { try JSONReader.read(Array(text[$0.value])) } == read.map(\.value))
    }

    @Test("The first of several elements of an array is found, and of nothing else") func firstElement() throws {
        let text = Array(Self.object.utf8)
        let members = try #require(JSONSpans.members(of: text))
        let first = members.map { $0.first.map { part($0, of: text) } }
        #expect(first == [#""x \"y\" \\""#, nil, nil, nil, nil, nil, nil])
    }

    @Test("A text ends at its own quote, wherever its escapes are", arguments: ["\\\"", "\\\\", "\\\"x", "\\u0007\\\\"])
    func escapes(escape: String) throws {
        for (plainCount, escapesCount) in (0..<17).flatMap({ plain in (0..<19).map { (plain, $0) } }) {
            let value = "\"" + String(repeating: "x", count: plainCount) + String(repeating: escape, count: escapesCount) + "\""
            let text = Array("{\"a\":[\(value),1],\"b\":\(value)}".utf8)
            let members = try #require(JSONSpans.members(of: text))
            #expect(members.count == 2 && members[0].first.map { part($0, of: text) } == value && part(members[1].value, of: text) == value)
        }
    }

    @Test("A text that ends early, goes on, or has white space has no members") func otherTexts() {
        let text = Array(Self.object.utf8)
        for count in 0..<text.count { #expect(JSONSpans.members(of: Array(text.prefix(count))) == nil, "\(count)") }
        for other in ["{} ", " {}", "[]", "{,}", #"{"a" :1}"#, #"{"a": 1}"#, #"{"a":1 }"#, #"{"a":1}}"#, #"{"a"1}"#, #"{"a":1,}"#] {
            #expect(JSONSpans.members(of: Array(other.utf8)) == nil, "\(other)")
        }
        #expect(JSONSpans.members(of: Array("{}".utf8))?.isEmpty == true)
    }
}
