import PresenceClient
import Testing

/// The addresses of a client.
@Suite struct AddressTests {
    @Test(
        "An address that is not a URL with a scheme is refused by name when the client is made",
        arguments: ["localhost:7600", "127.0.0.1:7600", "presence.example.com", "", "ftp://n0", "https://"])
    func wrong(address: String) throws {
        let error = try #require(throws: PresenceError.self) {
            try PresenceClient(ClientConfiguration(addresses: ["http://n0", address]) { "token" })
        }
        #expect(error.code == .badParameter)
        #expect(error.detail.hasPrefix("addresses: \"\(address)\" is not a URL with http:// or https://"))
    }

    @Test(
        "An address with credentials, a query or a fragment is refused by name when the client is made",
        arguments: ["ann:secret@n0", "ann@n0:7600", "@n0", "n0?a=1", "n0/?", "n0/path?a=1", "n0#top", "n0/#", "n0/path#top"])
    func credentials(rest: String) throws {
        let address = "https://\(rest)"
        let error = try #require(throws: PresenceError.self) {
            try PresenceClient(ClientConfiguration(addresses: ["http://n0", address]) { "token" })
        }
        #expect(error.code == .badParameter)
        #expect(error.detail.hasPrefix("addresses: \"\(address)\" is not a URL like http://HOST or https://HOST/PATH"))
    }

    @Test("An address with a port or a path is right", arguments: ["n0", "n0/", "n0:7600", "[::1]:7600", "n0/presence/@a/"])
    func right(rest: String) throws {
        _ = try PresenceClient(ClientConfiguration(addresses: ["HTTPS://\(rest)"]) { "token" })
    }
}
