import HTTP2
import Logging
import NIOConcurrencyHelpers
import NIOSSL

/// The certificates of a node for clients and for other nodes.
///
/// They are read at the start and by ``reload(_:)``. New connections use the new certificates; open connections continue.
final class Certificates: Sendable {
    /// TLS of the client port; nil without files.
    let clients: NIOSSLContext?
    /// TLS of the cluster port and of links to other nodes; nil without files.
    let cluster: ClusterTLS?
    private let sources: [CertificateSource]

    /// Throws a ``ConfigurationError`` for files that are not a certificate and its key.
    init(_ configuration: NodeConfiguration) throws {
        let source = try CertificateSource(
            "tls-certificate", certificate: configuration.tlsCertificate, key: configuration.tlsKey)
        let clusterSource = try CertificateSource(
            "cluster-tls-certificate", certificate: configuration.clusterTLSCertificate, key: configuration.clusterTLSKey)
        clients = try source.map { source in
            var tls = TLSConfiguration.makeServerConfiguration(certificateChain: source.chain, privateKey: source.key)
            tls.applicationProtocols = ["h2", "http/1.1"]
            return try source.context(tls)
        }
        cluster = try clusterSource.map { try ClusterTLS($0, authority: configuration.clusterTLSAuthority) }
        sources = [source, clusterSource].compactMap { $0 }
    }

    /// Reads the files again and logs the result. Invalid files change nothing.
    func reload(_ logger: Logger) {
        if sources.isEmpty { logger.notice("no certificates are configured, so none are reloaded") }
        for source in sources { source.reload(logger) }
    }
}

/// A certificate and its key, in two PEM files.
struct CertificateSource {
    /// The setting that names the certificate, for errors.
    let setting: String
    /// The contents of the files at the start.
    let chain: [NIOSSLCertificateSource]
    let key: NIOSSLPrivateKeySource
    private let certificateFile: String
    private let keyFile: String
    /// The certificate and the key of new connections.
    private let newest: NIOLockedValueBox<NIOSSLContextConfigurationOverride>

    /// Nil without files.
    init?(_ setting: String, certificate: String?, key keyFile: String?) throws(ConfigurationError) {
        guard let certificate, let keyFile else { return nil }
        self.setting = setting
        (certificateFile, self.keyFile) = (certificate, keyFile)
        do { (chain, key) = try Self.read(certificate, keyFile) } catch { throw Self.failure(error, setting) }
        newest = NIOLockedValueBox(Self.override(chain, key))
    }

    /// The error of a start. It names the setting of the file.
    private static func failure(_ problem: PEMFile.Unusable, _ setting: String) -> ConfigurationError {
        let named = problem.isOfKey ? setting.replacing("certificate", with: "key") : setting
        return ConfigurationError(setting: named, problem: problem.description)
    }

    /// The reason why TLS does not take a certificate and a key that were read.
    private static func unusable(_ certificate: String, _ key: String, _ error: any Error) -> PEMFile.Unusable {
        if let error = error as? NIOSSLError, error == NIOSSLError.failedToLoadPrivateKey {
            return PEMFile.Unusable(path: key, problem: "is not the key of \(certificate)", isOfKey: true)
        }
        return PEMFile.Unusable(path: certificate, problem: "cannot be used: \(ConnectionErrorText.text(error))")
    }

    private static func read(
        _ certificate: String, _ key: String
    ) throws(PEMFile.Unusable) -> (chain: [NIOSSLCertificateSource], key: NIOSSLPrivateKeySource) {
        let chain = try PEMFile.certificates(certificate).map { NIOSSLCertificateSource.certificate($0) }
        return (chain, .privateKey(try PEMFile.key(key)))
    }

    private static func override(_ chain: [NIOSSLCertificateSource], _ key: NIOSSLPrivateKeySource) -> NIOSSLContextConfigurationOverride {
        var override = NIOSSLContextConfigurationOverride()
        override.certificateChain = chain
        override.privateKey = key
        return override
    }

    /// Returns a context whose connections use the certificate that was read last.
    func context(_ configuration: TLSConfiguration) throws(ConfigurationError) -> NIOSSLContext {
        var configuration = configuration
        configuration.sslContextCallback = { [newest] _, promise in promise.succeed(newest.withLockedValue { $0 }) }
        do { return try NIOSSLContext(configuration: configuration) } catch {
            throw Self.failure(Self.unusable(certificateFile, keyFile, error), setting)
        }
    }

    func reload(_ logger: Logger) {
        let files: Logger.Metadata = ["setting": "\(setting)", "certificate": "\(certificateFile)", "key": "\(keyFile)"]
        do {
            let (chain, key) = try Self.read(certificateFile, keyFile)
            // A context is made of a certificate and its own key only.
            do { _ = try NIOSSLContext(configuration: .makeServerConfiguration(certificateChain: chain, privateKey: key)) } catch {
                throw Self.unusable(certificateFile, keyFile, error)
            }
            newest.withLockedValue { $0 = Self.override(chain, key) }
            logger.notice("certificate reloaded; new connections use it", metadata: files)
        } catch {
            let problem: Logger.Metadata = ["problem": "\(error)"]
            logger.error(
                "certificate not reloaded; the previous certificate stays in use", metadata: files.merging(problem) { $1 })
        }
    }
}
