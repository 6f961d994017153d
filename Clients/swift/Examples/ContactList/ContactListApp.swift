import PresenceClient
import SwiftUI

/// An app that shows two contacts of Ann. Its back end signs the tokens.
@main struct ContactListApp: App {
    @State private var contacts: Contacts?
    @State private var problem = ""

    var body: some Scene {
        WindowGroup {
            if let contacts {
                ContactListView(contacts: contacts)
            } else {
                Text(problem).task { start() }
            }
        }
    }

    private func start() {
        do {
            let configuration = ClientConfiguration(addresses: ["https://presence.example.com"]) { try await token() }
            contacts = try Contacts(configuration, contacts: ["bob", "carl"])
        } catch { problem = "\(error)" }
    }
}

/// Asks the app's back end for a token of the user who is signed in.
private func token() async throws -> String {
    throw PresenceError(code: .tokenUnavailable, detail: "ask the back end of the app here")
}
