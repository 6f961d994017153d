import Testing

@testable import PresenceNode

@Suite struct ClusterSecretTests {
    let caller = ClusterSecret.nonce()
    let listener = ClusterSecret.nonce()
    let hello: [UInt8] = [1, 2, 3]

    private func isValid(_ proof: [UInt8], _ secret: String?, _ side: ClusterSecret.Side = .caller, hello: [UInt8]? = nil) -> Bool {
        ClusterSecret(secret).isValid(proof, of: side, caller: caller, listener: listener, hello: hello ?? self.hello)
    }

    @Test("A proof with the secret is valid", arguments: ["a shared secret", nil]) func valid(secret: String?) {
        let proof = ClusterSecret(secret).proof(.caller, caller: caller, listener: listener, hello: hello)
        #expect(isValid(proof, secret))
    }

    @Test("A proof of another secret, side, hello or exchange is invalid") func invalid() {
        let secret = ClusterSecret("a shared secret")
        let proof = secret.proof(.caller, caller: caller, listener: listener, hello: hello)
        #expect(!isValid(proof, "another secret"))
        #expect(!isValid(proof, nil))
        #expect(!isValid(proof, "a shared secret", .listener))
        #expect(!isValid(proof, "a shared secret", hello: [1, 2, 4]))
        #expect(!isValid(Array(proof.dropLast()), "a shared secret"))
        #expect(!isValid(secret.proof(.caller, caller: ClusterSecret.nonce(), listener: listener, hello: hello), "a shared secret"))
    }

    @Test("A contact point's name stands for all its addresses") func addresses() {
        let found = ContactPoints.resolve(HostPort(host: "localhost", port: 7601))
        #expect(found.contains(HostPort(host: "127.0.0.1", port: 7601)))
        #expect(ContactPoints.resolve(HostPort(host: "no-such-name.invalid", port: 1)).isEmpty)
    }
}
