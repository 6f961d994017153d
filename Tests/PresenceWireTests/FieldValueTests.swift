import Testing

@testable import PresenceWire

/// Values of fields: numbers, texts, and bytes that are not UTF-8.
@Suite struct FieldValueTests {
    private func json(_ value: FieldValue) -> String {
        var json = JSONWriter()
        json.value(value)
        return String(decoding: json.bytes, as: UTF8.self)
    }

    @Test("A value is written as JSON and read back") func roundTrips() throws {
        let written: [(FieldValue, String)] = [
            (.integer(.min), "-9223372036854775808"), (.text(""), "\"\""), (.text("Köln"), "\"Köln\""), (.bytes([0]), "\"\\u0000\""),
            (.bytes([0xFF]), "{\"base64\":\"/w==\"}"), (.bytes([0xC3, 0x28, 0x41]), "{\"base64\":\"wyhB\"}"),
        ]
        for (value, text) in written {
            #expect(json(value) == text)
            #expect(FieldValue(try JSONReader.read(Array(text.utf8))) == value)
        }
        #expect(FieldValue.bytes([0xFF]).text == nil && FieldValue.integer(1).text == nil && FieldValue.text("x").text == "x")
    }

    @Test("In a row, a text with control characters is written as base 64") func compactTexts() {
        var json = JSONWriter()
        for text in ["a\nb", "a\"b"] { json.value(.text(text), isCompact: true) }
        #expect(String(decoding: json.bytes, as: UTF8.self) == #"{"base64":"YQpi"},"a\"b""#)
    }

    @Test(
        "Other JSON is not a value",
        arguments: [
            "null", "true", "1.5", "[]", "{}", "{\"base64\":1}", "{\"base64\":\"/w=\"}", "{\"base64\":\"\",\"x\":1}", "{\"text\":\"\"}",
        ])
    func otherJSON(text: String) throws { #expect(FieldValue(try JSONReader.read(Array(text.utf8))) == nil) }

    /// RFC 4648 §10.
    @Test("Base 64 has the test vectors of its standard") func vectors() {
        let vectors = ["": "", "f": "Zg==", "fo": "Zm8=", "foo": "Zm9v", "foob": "Zm9vYg==", "fooba": "Zm9vYmE=", "foobar": "Zm9vYmFy"]
        for (text, coded) in vectors {
            #expect(Base64.text(of: Array(text.utf8)) == coded)
            #expect(Base64.bytes(of: coded) == Array(text.utf8))
        }
        let all = Array(0...255 as ClosedRange<UInt8>)
        #expect(Base64.bytes(of: Base64.text(of: all)) == all)
    }

    @Test(
        "A text that is not the base 64 of any bytes is refused",
        arguments: [
            "Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm=v", "=Zm9", "====", "Zm9v\n", "Zm-v", "Zg==Zg==",
        ])
    func badBase64(text: String) { #expect(Base64.bytes(of: text) == nil) }

    @Test(
        "Base64url has one spelling of the same bytes",
        arguments: [
            ("", true), ("YQ", true), ("YWI", true), ("YWJj", true), ("-_-_", true), ("Y", false), ("YR", false), ("YWJ", false),
            ("YQ==", false), ("+/+/", false), ("YW Jj", false),
        ])
    func urlText(text: String, isCanonical: Bool) { #expect(Base64.isCanonicalURLText(Array(text.utf8)) == isCanonical) }

    @Test("Names of custom fields are 1 to 8 letters or digits") func customNames() {
        for name in ["a", "Blood", "A1b2C3d4"] { #expect(CustomField.isValidName(name)) }
        for name in ["", "too long", "ninechars", "a_b", "é"] { #expect(!CustomField.isValidName(name)) }
    }
}
