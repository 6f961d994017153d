import SwiftUI

/// Shows who is online. It says so when the list may be out of date.
struct ContactListView: View {
    let contacts: Contacts
    @Environment(\.scenePhase) private var phase

    var body: some View {
        VStack {
            if contacts.isOffline { Text("Offline. These statuses were known last.").font(.caption) }
            if let problem = contacts.problem { Text(problem).font(.caption) }
            List(contacts.rows) { row in
                HStack {
                    Circle().fill(row.isOnline ? Color.green : Color.gray).frame(width: 10, height: 10)
                    Text(row.id)
                    Text(row.text).foregroundStyle(.secondary)
                }
                .opacity(contacts.isOffline ? 0.5 : 1)
            }
        }
        .task { await contacts.follow() }
        .onChange(of: phase, initial: true) { _, phase in
            switch phase {
            case .active: Task { await contacts.enterForeground() }
            case .background: Task { await contacts.enterBackground() }
            default: break
            }
        }
    }
}
