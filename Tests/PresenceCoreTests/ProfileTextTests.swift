import PresenceWire
import Testing

@testable import PresenceCore

/// Answers with profiles that are copied from rows.
@Suite struct ProfileTextTests {
    private static let texts = [
        "", "Ann", "K\u{F6}ln \u{1F600}", "a \"quote\", a \\ and a /", "line\nfeed", String(repeating: "x", count: 1_500),
    ]

    private static let values: [FieldValue] =
        texts.map { .text($0) } + [.bytes([0xFF, 0x00, 0xC3]), .bytes([]), .integer(0), .integer(-5), .integer(.max)]

    private func user(_ name: String) -> UserID { UserID(app: "default", id: name) }

    /// The answer for a row, as a client reads it.
    private func answer(_ text: ProfileText, _ version: Version = .zero) throws -> JSONValue {
        var json = JSONWriter()
        text.write(of: user("ann"), version, Policy().chain, into: &json)
        return try JSONReader.read(json.bytes)
    }

    private func row(_ profile: Profile) -> [UInt8] { Row(profile, of: user("ann"), key: "", version: .zero).value ?? [] }

    @Test("A field has the value of the row in the answer, whatever bytes it has", arguments: values)
    func copies(value: FieldValue) throws {
        var profile = Profile()
        if case .bytes = value { profile.set("SelfSignature", to: value, at: Version(milliseconds: 5, counter: 0, node: 1)) }
        profile.set("Custom_Blood", to: value, at: Version(milliseconds: 6, counter: 1, node: 1))
        profile.set("Nick", to: .text("Ann"), at: Version(milliseconds: 7, counter: 0, node: 1))
        let text = try #require(ProfileText(row(profile)))
        let answer = try answer(text)
        #expect(answer["nick"] == .string("Ann"))
        #expect(answer["selfSignature"].flatMap { FieldValue($0) } == profile["SelfSignature"] ?? .bytes([]))
        let isShown = value != .bytes([])
        #expect(answer["custom"]?["Blood"].flatMap { FieldValue($0) } == (isShown ? value : nil), "an empty value removes the field")
    }

    @Test("A user without a profile has empty fields, and the allowType of the app") func absent() throws {
        let answer = try answer(ProfileText())
        #expect(answer["userID"] == .string("ann") && answer["nick"] == .string("") && answer["level"] == .integer(0))
        #expect(answer["allowType"] == .string(Policy().chain.defaultAllowType.profileValue) && answer["custom"] == .object([]))
    }

    @Test("A row with white space is read and written again, and has the same answer") func otherWriter() throws {
        let spaced = Array(#"{ "Nick": ["Ann", "000000000005000000000001"] }"#.utf8)
        #expect(ProfileText(spaced) == nil)
        let row = Row(user: user("ann"), kind: .profile, key: "", version: Version(milliseconds: 9, counter: 0, node: 1), value: spaced)
        let answer = try answer(ProfileText(of: Profile(row), user("ann")))
        #expect(answer["nick"] == .string("Ann"))
    }
}
