import Testing

@testable import PresenceNode

/// The lines of the log about receivers of webhooks that fail.
@Suite struct WebhookFailuresTests {
    @Test("Each cause is logged once for each URL, and again after an accepted delivery") func causes() {
        var failures = WebhookFailures()
        let (first, second) = ("https://a.example/", "https://b.example/")
        let logged = [
            failures.failed("app", first, cause: "500"), failures.failed("app", first, cause: "500"),
            failures.failed("app", first, cause: "no answer"), failures.failed("app", second, cause: "500"),
            failures.failed("other", second, cause: "500"),
        ]
        #expect(logged == [true, false, true, true, true])
        let accepted = [failures.accepted("app"), failures.accepted("app")]
        let isLoggedAgain = failures.failed("app", second, cause: "500")
        #expect(accepted == [true, false] && isLoggedAgain)
    }

    @Test("Causes that vary do not fill the log") func varying() {
        var failures = WebhookFailures()
        var loggedCount = 0
        for number in 0..<100 where failures.failed("app", "https://a.example/", cause: "cause \(number)") { loggedCount += 1 }
        #expect(loggedCount == 8)
    }

    @Test("A logged URL has no query, no user and no password") func masked() {
        #expect(WebhookFailures.masked("https://a.example:8443/hook?key=secret") == "https://a.example:8443/hook")
        #expect(WebhookFailures.masked("https://user:word@a.example/#x") == "https://a.example/")
    }
}
