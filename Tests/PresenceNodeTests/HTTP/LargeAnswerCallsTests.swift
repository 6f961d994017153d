import PresenceCore
import Testing

@testable import PresenceNode

/// The requests of clients whose answers may be large.
@Suite struct LargeAnswerCallsTests {
    private func mayBeLarge(_ operation: String, _ body: String = "{}") -> Bool {
        Array("/v1/\(operation)".utf8).withUnsafeBufferPointer { path in
            Array(body.utf8).withUnsafeBufferPointer { API.mayHaveLargeAnswer(toPath: path, body: $0) }
        }
    }

    private func users(_ count: Int) -> String { "{\"userIDs\":[\((0..<count).map { "\"\($0)\"" }.joined(separator: ","))]}" }

    @Test("Profiles of ten users and more may have a large answer, and statuses of 150")
    func users() {
        #expect(!mayBeLarge("getUsersProfile") && !mayBeLarge("getUsersProfile", users(9)))
        #expect(mayBeLarge("getUsersProfile", users(10)) && mayBeLarge("getUsersProfile", users(100)))
        for operation in ["getUserStatus", "subscribeUserStatus"] {
            #expect(!mayBeLarge(operation, users(149)) && mayBeLarge(operation, users(150)))
        }
    }

    @Test("The caller's lists may have a large answer, whatever their page is, and other operations may not")
    func lists() {
        for operation in ["getFriendList", "getSubscribedUserStatus"] { #expect(mayBeLarge(operation, "") && mayBeLarge(operation)) }
        for operation in ["setSelfStatus", "checkFriends", "getUsersProfiles", ""] { #expect(!mayBeLarge(operation, users(500))) }
    }
}
