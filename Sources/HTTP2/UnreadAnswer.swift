import NIOCore

/// An answer that holds memory because its peer has not read all of it.
struct UnreadAnswer {
    /// The arrival of the request, or the time since which nothing of the answer was sent.
    let since: NIODeadline
    let bytesCount: Int
    let connection: HTTPServerConnection
    /// Nil if the answer waits for the socket.
    let stream: StreamID?
}

extension HTTPLoop {
    /// Ends the oldest unread answers, if such answers hold at least half of the bytes that the connections hold.
    ///
    /// A client whose answer is young may be about to read it. The connections end up a sixteenth below ``HTTPLimits/heldBytesMax``, so
    /// that the next small answer does not need another look at all of them.
    func endUnreadAnswers() {
        var answers: [UnreadAnswer] = []
        for connection in connections { connection.appendUnread(to: &answers) }
        guard answers.reduce(0, { $0 + $1.bytesCount }) >= sharedLimits.heldBytes / 2 else { return }
        answers.sort { $0.since < $1.since }
        let targetBytes = limits.heldBytesMax - limits.heldBytesMax / 16
        for answer in answers {
            guard sharedLimits.heldBytes > targetBytes else { return }
            answer.connection.endUnread(answer.stream)
        }
    }
}
