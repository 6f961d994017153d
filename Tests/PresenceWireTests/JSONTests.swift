import Testing

@testable import PresenceWire

@Suite struct JSONTests {
    private func read(_ text: String) throws(JSONError) -> JSONValue { try JSONReader.read(Array(text.utf8)) }

    @Test func valuesAreRead() throws {
        let value = try read(#" {"a":[1,-2,0,true,false,null,"x\n\u00e9\ud83d\ude00\"\\\/"],"b":{"c":1.5e3},"d":[],"e":{}} "#)
        #expect(value["a"] == .array([.integer(1), .integer(-2), .integer(0), .bool(true), .bool(false), .null, .string("x\né😀\"\\/")]))
        #expect(value["b"]?["c"] == .number(1500))
    }

    @Test(arguments: [
        "", "{", "[1,]", "{\"a\":}", "01", "1.", "+1", "nul", "\"\u{1}\"", "\"\\x\"", "\"\\ud800\"", "{\"a\" 1}", "1 2", "[1 2]", "{a:1}",
        "-",
    ])
    func whatIsNoJSONIsRefused(text: String) {
        #expect(throws: JSONError.self) { try read(text) }
    }

    @Test func invalidUTF8IsRefused() {
        #expect(throws: JSONError.self) { try JSONReader.read([0x22, 0xFF, 0x22]) }
    }

    @Test func aNameTwiceIsRefused() {
        #expect(throws: JSONError.duplicate(name: "a")) { try read(#"{"a":1,"a":2}"#) }
    }

    @Test func tenThousandLevelsAreRefused() {
        let text = String(repeating: "[", count: 10_000) + String(repeating: "]", count: 10_000)
        #expect(throws: JSONError.tooDeep(limit: JSONReader.depthMax)) { try read(text) }
    }

    @Test func whatIsWrittenIsReadBack() throws {
        var json = JSONWriter()
        json.object { json in
            json.member("text", "quote \" backslash \\ newline \n control \u{1} é")
            json.member("number", Int64.min)
            json.member("flag", true)
            json.key("list")
            json.array { json in
                json.integer(0)
                json.string("")
            }
        }
        let value = try JSONReader.read(json.bytes)
        #expect(value["text"] == .string("quote \" backslash \\ newline \n control \u{1} é"))
        #expect(value["number"] == .integer(.min))
        #expect(value["list"] == .array([.integer(0), .string("")]))
    }
}
