import NIOSSL

/// TLS between nodes: each side presents a certificate and trusts certificates that the cluster's authority signed.
///
/// Names are not compared, because the addresses of nodes change. Every holder of a certificate of the authority is a node.
struct ClusterTLS: Sendable {
    let listener: NIOSSLContext
    let caller: NIOSSLContext

    /// - Parameter authority: the PEM file of the authority; read only at the start.
    init(_ source: CertificateSource, authority: String?) throws(ConfigurationError) {
        let roots: NIOSSLTrustRoots
        do { roots = .certificates(try PEMFile.certificates(authority ?? "")) } catch {
            throw ConfigurationError(setting: "cluster-tls-ca", problem: error.description)
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
