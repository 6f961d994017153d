import NIOCore
import PresenceWire
import Testing

@testable import PresenceNode

/// The addresses to which webhooks are delivered.
@Suite struct WebhookRulesTests {
    private let strict = WebhookRules()
    private let development = WebhookRules(allowsLoopback: true)
    private let open = WebhookRules(allowsPrivate: true)

    private func problem(_ ip: String, _ rules: WebhookRules) throws -> String? {
        rules.problem(of: try SocketAddress(ipAddress: ip, port: 443), isPlain: false)
    }

    @Test(
        "A private, link-local or reserved address is refused, also in its other forms",
        arguments: [
            "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "127.0.0.1", "0.0.0.0",
            "198.18.0.1",
            "224.0.0.1", "255.255.255.255", "::1", "::", "fd00::1", "fe80::1", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe",
            "2002:a00:1::", "2001:db8::1", "::10.0.0.1",
        ])
    func special(ip: String) throws {
        #expect(try problem(ip, strict) != nil)
        #expect(try problem(ip, open) == nil)
    }

    @Test("A public address is allowed", arguments: ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8"])
    func global(ip: String) throws { #expect(try problem(ip, strict) == nil) }

    @Test("Without TLS only loopback of a development node is allowed") func plain() throws {
        let (loopback, other) = (try SocketAddress(ipAddress: "127.0.0.1", port: 80), try SocketAddress(ipAddress: "8.8.8.8", port: 80))
        #expect(development.problem(of: loopback, isPlain: true) == nil)
        for rules in [strict, open] { #expect(rules.problem(of: loopback, isPlain: true) != nil) }
        for rules in [strict, open, development] { #expect(rules.problem(of: other, isPlain: true) != nil) }
    }

    @Test(
        "The URL alone shows that a receiver cannot be used",
        arguments: [
            "http://app.example.com/x", "https://10.0.0.1/", "https://[::1]:8443/", "https://[fd00::1]/", "http://localhost/",
            "https://localhost/",
            "https://169.254.169.254/latest/meta-data",
        ])
    func url(text: String) { #expect(strict.problem(of: text) != nil) }

    @Test("A URL of a public host is allowed, and of loopback in development") func allowedURL() {
        #expect(strict.problem(of: "https://app.example.com:8443/rollcall?x=1") == nil)
        #expect(development.problem(of: "http://localhost:8080/") == nil && development.problem(of: "http://127.0.0.1:8080/") == nil)
        #expect(strict.problem(ofPolicy: Array(#"{"settings":{"webhook.url":"https://10.0.0.1/"}}"#.utf8)) != nil)
        #expect(strict.problem(ofPolicy: Array(#"{"settings":{"webhook.url":""}}"#.utf8)) == nil)
        #expect(strict.problem(ofPolicy: Array(#"{"preset":"zim"}"#.utf8)) == nil)
    }
}
