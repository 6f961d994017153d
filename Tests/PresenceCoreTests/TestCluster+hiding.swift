import PresenceWire
import Testing

@testable import PresenceCore

extension TestCluster {
    /// Logs a user out while the last call, which hides the user from a viewer, waits. Then logs the user in again.
    ///
    /// Expects that the logout ends the wait, and that the viewer sees the logout and nothing after it.
    mutating func expectLogoutEndsWait(
        of user: String, calledOn node: Int, shownTo viewer: Int, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        advance(.milliseconds(500))
        logOut(user)
        advance(.milliseconds(50))
        let seen = clients[viewer].view[user]?["statusType"]?.textValue
        let codes = lastAnswer(on: node)?.outcomes?.map(\.code)
        #expect(seen == "UNLOGINED" && codes == [.done], sourceLocation: sourceLocation)
        let events = clients[viewer].events.count
        login(user, on: 1)
        setStatus(user, "back", on: 1)
        advance(.seconds(3))
        #expect(clients[viewer].events.count == events && record(of: user).statusType == .online, sourceLocation: sourceLocation)
    }
}
