/// A step that ends, or may end, a session in another way than a logout or a broken stream. Numbers name clients.
public enum SessionAction: Sendable {
    /// The client logs in with a token that ends after so many seconds.
    case loginUntil(client: Int, seconds: Int)
    /// The client renews its session with a token that ends after so many seconds.
    case renew(client: Int, seconds: Int)
    /// The device opens another stream, as after a change of its network. No FIN ends the stream before.
    case loginAgain(client: Int)
}
