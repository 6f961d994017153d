/// The source of the addresses by which connections are counted, limited and paced.
public enum ClientAddresses: Sendable {
    /// The peers of the connections.
    case ofConnections
    /// The header of the PROXY protocol with which each connection begins: see ``ProxyHeaderReader``.
    case ofProxyHeaders
}
