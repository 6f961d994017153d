import Foundation
import NIOSSL

/// Certificates and keys in PEM files. An error names the file and the reason.
enum PEMFile {
    /// A file that has no certificate or no key.
    struct Unusable: Error, CustomStringConvertible {
        let path: String
        let problem: String
        /// Whether a key was to be read, and not a certificate.
        var isOfKey = false

        var description: String { "\(path): \(problem)" }
    }

    /// Reads a chain of certificates, or those of authorities.
    static func certificates(_ path: String) throws(Unusable) -> [NIOSSLCertificate] {
        let bytes = try read(path, isOfKey: false)
        guard let certificates = try? NIOSSLCertificate.fromPEMBytes(bytes), !certificates.isEmpty else {
            throw Unusable(path: path, problem: "has no certificate in PEM")
        }
        return certificates
    }

    /// Reads a private key.
    static func key(_ path: String) throws(Unusable) -> NIOSSLPrivateKey {
        let bytes = try read(path, isOfKey: true)
        guard let key = try? NIOSSLPrivateKey(bytes: bytes, format: .pem) else {
            throw Unusable(path: path, problem: "has no private key in PEM without a passphrase", isOfKey: true)
        }
        return key
    }

    private static func read(_ path: String, isOfKey: Bool) throws(Unusable) -> [UInt8] {
        do { return Array(try Data(contentsOf: URL(fileURLWithPath: path))) } catch {
            throw Unusable(path: path, problem: FileErrorText.problem(error, "cannot be read"), isOfKey: isOfKey)
        }
    }
}
