import HTTP2
import PresenceCore

extension API {
    /// The operation of a path `/v1/<operation>`.
    static func operation(ofPath path: UnsafeBufferPointer<UInt8>) -> Operation? {
        for (index, known) in paths.enumerated() where path.equals(known) { return Operation(rawValue: index) }
        return nil
    }

    private static let paths = Operation.allCases.map { Array("/v1/\($0.name)".utf8) }

    /// Whether the answer to a request may have half a megabyte: see ``HTTP2/HTTPServerDelegate/mayHaveLargeAnswer(_:body:)``.
    ///
    /// A profile has up to 20 KB, and a status with events up to 3 KB. A page of friends has up to 600 KB, and the list of 3,000
    /// subscriptions more than a megabyte, whatever the request says.
    static func mayHaveLargeAnswer(toPath path: UnsafeBufferPointer<UInt8>, body: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let kind = largeAnswers.first(where: { path.equals($0.path) }) else { return false }
        // A user takes four bytes at least, with quotes and a comma. Further commas, in names, do no harm.
        guard kind.usersMin > 0, body.count >= 4 * kind.usersMin else { return kind.usersMin == 0 }
        return body.count { $0 == UInt8(ascii: ",") } >= kind.usersMin - 1
    }

    /// The operations whose answers may have half a megabyte, and the users in a request from which they may.
    private static let largeAnswers: [(path: [UInt8], usersMin: Int)] = [
        (paths[Operation.getUsersProfile.rawValue], 10),
        (paths[Operation.getUserStatus.rawValue], 150),
        (paths[Operation.subscribeUserStatus.rawValue], 150),
        (paths[Operation.getFriendList.rawValue], 0),
        (paths[Operation.getSubscribedUserStatus.rawValue], 0),
    ]
}
