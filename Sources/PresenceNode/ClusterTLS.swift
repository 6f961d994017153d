import NIOSSL

/// TLS between nodes: each shows a certificate and trusts those that the cluster's authority signed. Names are not compared, because
/// nodes are found by addresses that change; who holds a certificate of this authority is a node.
struct ClusterTLS: Sendable {
    let listener: NIOSSLContext
    let caller: NIOSSLContext

    /// Nil without files; throws a ``ConfigurationError`` for files that are no certificate, key and authority.
    init?(_ configuration: NodeConfiguration) throws {
        guard let certificate = configuration.clusterTLSCertificate, let key = configuration.clusterTLSKey,
            let authority = configuration.clusterTLSAuthority
        else { return nil }
        do {
            let chain = try NIOSSLCertificate.fromPEMFile(certificate).map { NIOSSLCertificateSource.certificate($0) }
            let privateKey = NIOSSLPrivateKeySource.privateKey(try NIOSSLPrivateKey(file: key, format: .pem))
            let roots = NIOSSLTrustRoots.certificates(try NIOSSLCertificate.fromPEMFile(authority))
            var listening = TLSConfiguration.makeServerConfigurationWithMTLS(
                certificateChain: chain, privateKey: privateKey, trustRoots: roots)
            listening.certificateVerification = .noHostnameVerification
            listening.applicationProtocols = ["h2"]
            listener = try NIOSSLContext(configuration: listening)
            var calling = TLSConfiguration.makeClientConfiguration()
            calling.certificateChain = chain
            calling.privateKey = privateKey
            calling.trustRoots = roots
            calling.certificateVerification = .noHostnameVerification
            calling.applicationProtocols = ["h2"]
            caller = try NIOSSLContext(configuration: calling)
        } catch {
            throw ConfigurationError(
                setting: "cluster-tls-certificate",
                problem: "\(certificate), \(key) and \(authority) are not a certificate, its key and an authority in PEM: \(error)")
        }
    }
}
