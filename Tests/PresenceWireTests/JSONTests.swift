import Testing

@testable import PresenceWire

@Suite struct JSONTests {
    private func read(_ text: String) throws(JSONError) -> JSONValue { try JSONReader.read(Array(text.utf8)) }

    @Test("Values are read") func values() throws {
        let value = try read(#" {"a":[1,-2,0,true,false,null,"x\n\u00e9\ud83d\ude00\"\\\/"],"b":{"c":1.5e3},"d":[],"e":{}} "#)
        #expect(value["a"] == .array([.integer(1), .integer(-2), .integer(0), .bool(true), .bool(false), .null, .string("x\né😀\"\\/")]))
        #expect(value["b"]?["c"] == .number(1500))
    }

    @Test(
        "A text that is not JSON is refused",
        arguments: [
            "", "{", "[1,]", "{\"a\":}", "01", "1.", "+1", "nul", "\"\u{1}\"", "\"\\x\"", "\"\\ud800\"", "{\"a\" 1}", "1 2", "[1 2]",
            "{a:1}",
            "-",
        ])
    func invalidText(text: String) {
        #expect(throws: JSONError.self) { try read(text) }
    }

    @Test("Invalid UTF-8 is refused") func utf8() {
        #expect(throws: JSONError.self) { try JSONReader.read([0x22, 0xFF, 0x22]) }
    }

    @Test("A repeated name is refused") func repeatedName() {
        #expect(throws: JSONError.duplicate(name: "a")) { try read(#"{"a":1,"a":2}"#) }
    }

    @Test(
        "A whole number is read to the last digit",
        arguments: [
            "0", "-0", "999999999999999999", "-99999999999999999", "1000000000000000000", "9223372036854775807", "-9223372036854775808",
        ])
    func digits(text: String) throws {
        #expect(try read(text) == .integer(try #require(Int64(text))))
    }

    @Test("A whole number beyond 64 bits is not an integer") func largeNumbers() throws {
        #expect(try read("9223372036854775808") == .number(9223372036854775808))
    }

    @Test(
        "readMembers gives the members of the object",
        arguments: [
            "{}", #" { "a" : 1 , "b" : "x" } "#,
            #"{"quote \" \u00e9":true,"é":[1,{"a":null}],"":-5,"long name of more than fifteen bytes":"z"}"#,
        ])
    func members(text: String) throws {
        var members: [JSONValue.Member] = []
        try JSONReader.readMembers(of: Array(text.utf8)) { name, value in
            members.append(JSONValue.Member(name: String(decoding: name, as: UTF8.self), value: value))
        }
        #expect(try read(text) == .object(members))
    }

    @Test(
        "readMembers refuses a text that is not an object",
        arguments: ["", "[]", "1", "{", "{\"a", "{\"a\"", "{\"a\":}", "{\"a\":1,}", "{\"a\":1} 2", "{a:1}", "{\"\u{1}\":1}", "{\"a\":1"])
    func membersOfOther(text: String) {
        #expect(throws: JSONError.self) { try JSONReader.readMembers(of: Array(text.utf8)) { _, _ in } }
    }

    @Test("10,000 levels are refused") func depth() {
        let text = String(repeating: "[", count: 10_000) + String(repeating: "]", count: 10_000)
        #expect(throws: JSONError.tooDeep(limit: JSONReader.depthMax)) { try read(text) }
    }

    @Test("Written values are read back") func roundTrip() throws {
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

    @Test("An integer is written in decimal", arguments: [0, 9, 10, 99, 100, 101, 12_345, 1_790_000_000_000, -1, -100, Int64.max, .min])
    func integers(
        value: Int64
    ) {
        var json = JSONWriter()
        json.integer(value)
        #expect(json.bytes == Array(String(value).utf8))
    }

    @Test("A status of the largest numbers is written completely") func largestStatus() throws {
        var record = Record(blank: UserID(app: "a", id: "u"))
        record.version = Version(stamp: .max, node: .max)
        (record.lastUpdateTime, record.lastOnlineStatusUpdateTime) = (.min, .min)
        (record.lastCustomStatusUpdateTime, record.lastSeenTime) = (.min, .max)
        var json = JSONWriter()
        json.userStatus(record)
        let value = try JSONReader.read(json.bytes)
        #expect(value["version"] == .string(String(repeating: "f", count: 24)))
        #expect(value["lastUpdateTime"] == .integer(.min))
        #expect(value["lastSeenTime"] == .integer(.max))
    }

    /// Covers all lengths around the eight bytes that are compared at a time, with a difference in each position.
    @Test("Users are equal if all their bytes are") func userEquality() {
        for length in 1...20 {
            let name = Array(repeating: UInt8(ascii: "n"), count: length)
            let user = UserID(app: "a", id: String(decoding: name, as: UTF8.self))
            #expect(user == UserID(app: "a", id: String(decoding: name, as: UTF8.self)))
            #expect(user != UserID(app: "a", id: String(decoding: name + [110], as: UTF8.self)))
            for index in name.indices {
                var other = name
                other[index] = UInt8(ascii: "m")
                #expect(user != UserID(app: "a", id: String(decoding: other, as: UTF8.self)))
            }
        }
    }
}
