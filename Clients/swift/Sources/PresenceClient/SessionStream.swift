/// An event stream of a client, open or about to open.
struct SessionStream {
    var task: Task<Void, Never>?
    /// Ends the stream if the node has sent no event by then.
    var deadline: Task<Void, Never>?
    let address: Int
    var session: Session?
    var isMultiplexed = false
    /// The time of the last piece, or of the opening, on the client's stopwatch.
    var heardAt: Duration
    /// The pieces of the stream that have arrived.
    var piecesCount = 0
    /// Whether the node may be frozen: it does not answer a call, or has sent no comment in time, and the stream is silent since then.
    var isDoubted = false
    /// The token with which the stream was opened, or last renewed.
    var token: String?
    /// The notices that the token ends, since the last renewal.
    var noticesCount = 0
    /// Renews the session while its token ends.
    var renewal: Task<Void, Never>?

    /// Shows the node from time to time that this client runs.
    var signs: Task<Void, Never>?

    /// A piece of the stream has arrived.
    mutating func heard(at time: Duration) {
        (heardAt, isDoubted) = (time, false)
        piecesCount &+= 1
    }

    /// Ends all that works for the stream.
    func cancel() { for work in [task, deadline, renewal, signs] { work?.cancel() } }
}

/// The custom status that a login sets.
struct LoginStatus {
    let text: String
    /// The number of the login among the calls that set the custom status.
    let call: UInt64
}
