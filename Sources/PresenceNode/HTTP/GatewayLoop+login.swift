import HTTP2
import PresenceCore

extension GatewayLoop {
    /// A request for an event stream.
    struct Login {
        /// Whether the client asks with HEAD. Then no session begins.
        let isHead: Bool
        let query: [UInt8]
        /// The field `Last-Event-ID`.
        let lastEventID: String
        let work: Work
        let connection: HTTPServerConnection
        let span: RequestSpan?

        /// The ticket in the query. A query that breaks a rule has none.
        var ticket: String? { (try? EventStreamQuery(query))?.ticket }
    }
}
