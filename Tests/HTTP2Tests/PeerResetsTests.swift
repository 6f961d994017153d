import Testing

@testable import HTTP2

/// The count of a peer's resets, of each stream once.
@Suite struct PeerResetsTests {
    @Test("A reset counts once, whether the peer sends it or causes it, and the server's own never")
    func resets() {
        var resets = PeerResets()
        resets.received(1)
        resets.closed(1, error: 8, wasResetHere: false)
        resets.closed(3, error: 3, wasResetHere: false)
        resets.closed(5, error: 8, wasResetHere: true)
        resets.closed(7, error: 0, wasResetHere: false)
        #expect(resets.count == 2)
        #expect(resets.take() == 2 && resets.take() == 0)
    }

    @Test("A header block that brings no request counts by its size")
    func uselessHeads() {
        var resets = PeerResets()
        for bytes in [0, 127, 128, 1_024] { resets.countUseless(headBytes: bytes) }
        #expect(resets.take() == 1 + 1 + 2 + 9)
    }
}
