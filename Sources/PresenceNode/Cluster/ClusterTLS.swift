import NIOSSL

/// TLS between nodes: each shows a certificate and trusts those that the cluster's authority signed. Names are not compared, because
/// nodes are found by addresses that change; who holds a certificate of this authority is a node.
struct ClusterTLS: Sendable {
    let listener: NIOSSLContext
    let caller: NIOSSLContext

    /// - Parameter authority: the PEM file of those who sign nodes' certificates; read at the start only.
    init(_ source: CertificateSource, authority: String?) throws(ConfigurationError) {
        let roots: NIOSSLTrustRoots
        do { roots = .certificates(try NIOSSLCertificate.fromPEMFile(authority ?? "")) } catch {
            throw ConfigurationError(
                setting: "cluster-tls-ca", problem: "\(authority ?? "") is not a PEM certificate of an authority: \(error)")
        }
        var listening = TLSConfiguration.makeServerConfigurationWithMTLS(
            certificateChain: source.chain, privateKey: source.key, trustRoots: roots)
        listening.certificateVerification = .noHostnameVerification
        listening.applicationProtocols = ["h2"]
        listener = try source.context(listening)
        var calling = TLSConfiguration.makeClientConfiguration()
        calling.certificateChain = source.chain
        calling.privateKey = source.key
        calling.trustRoots = roots
        calling.certificateVerification = .noHostnameVerification
        calling.applicationProtocols = ["h2"]
        caller = try source.context(calling)
    }
}
