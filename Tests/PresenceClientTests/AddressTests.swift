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
}
