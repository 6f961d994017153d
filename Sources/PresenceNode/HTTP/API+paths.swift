import HTTP2
import PresenceCore

extension API {
    /// The operation of a path `/v1/<operation>`.
    static func operation(ofPath path: UnsafeBufferPointer<UInt8>) -> Operation? {
        guard path.count < paths.count else { return nil }
        for known in paths[path.count] where path.equals(known.bytes) { return known.operation }
        return nil
    }

    /// The paths by their numbers of bytes. Every request is compared with a few of them.
    private static let paths: [[(bytes: [UInt8], operation: Operation)]] = {
        let all = Operation.allCases.map { (bytes: Array("/v1/\($0.name)".utf8), operation: $0) }
        return (0...(all.map(\.bytes.count).max() ?? 0)).map { count in all.filter { $0.bytes.count == count } }
    }()

    /// Whether the answer to a request may have half a megabyte: see ``HTTP2/HTTPServerDelegate/mayHaveLargeAnswer(_:body:)``.
    ///
    /// A profile has up to 20 KB, and a status with events up to 3 KB. A page of friends has up to 600 KB, and the list of 3,000
    /// subscriptions more than a megabyte, whatever the request says.
    static func mayHaveLargeAnswer(toPath path: UnsafeBufferPointer<UInt8>, body: UnsafeBufferPointer<UInt8>) -> Bool {
        // Literals take fewer instructions than a table, and every request comes by here.
        switch path.count {
        case 17: path.equals("/v1/getFriendList") || (path.equals("/v1/getUserStatus") && mayName(150, in: body))
        case 19: path.equals("/v1/getUsersProfile") && mayName(10, in: body)
        case 23: path.equals("/v1/subscribeUserStatus") && mayName(150, in: body)
        case 27: path.equals("/v1/getSubscribedUserStatus")
        default: false
        }
    }

    /// Whether a body may name so many users. Further commas, in names, do no harm.
    private static func mayName(_ usersCount: Int, in body: UnsafeBufferPointer<UInt8>) -> Bool {
        // A user takes four bytes at least, with quotes and a comma.
        body.count >= 4 * usersCount && body.count { $0 == UInt8(ascii: ",") } >= usersCount - 1
    }
}
