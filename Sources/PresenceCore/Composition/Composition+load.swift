import PresenceWire

extension Composition {
    /// The part of this node in the answer of `clusterLoad`, as a JSON object.
    ///
    /// The counts are those since the start of the node, of all apps. The state of the webhook is that of one app.
    func loadText(for app: String) -> [UInt8] {
        var json = JSONWriter(reserving: 512)
        json.object { json in
            json.member("node", cluster.own.id.rawValue)
            json.member("startedAt", Int64(clamping: cluster.own.generation))
            json.member("usersOnline", Int64(owner.users.onlineCount))
            json.member("usersOnlineOfApp", Int64(owner.users.onlineCount(of: app)))
            json.member("sessions", Int64(edge.sessions.count - edge.sessions.listenersCount))
            json.member("listeners", Int64(edge.sessions.listenersCount))
            json.member("logins", Int64(clamping: edge.loginsCount))
            json.member("logouts", Int64(clamping: owner.counters.logouts))
            json.member("lost", Int64(clamping: owner.counters.sessionsDisconnected))
            json.key("webhook")
            json.object { json in
                let url = owner.policies.policy(of: .policyUser(of: app)).webhook.url
                let failures = webhooks.failures(of: app, at: url)
                json.member("isCircuitOpen", failures.isOpen)
                json.member("failuresInARow", Int64(failures.count))
                json.member("bytesWaiting", Int64(owner.webhookBacklog.bytesCount(of: app)))
            }
            json.key("webhooksOfAllApps")
            json.object { json in
                json.member("accepted", Int64(clamping: webhooks.counters.accepted))
                json.member("failed", Int64(clamping: webhooks.counters.failed))
                json.member("events", Int64(clamping: webhooks.counters.events))
                json.member("expired", Int64(clamping: owner.counters.webhookEventsExpired))
                json.member("full", Int64(clamping: owner.counters.webhookEventsDropped))
                json.member("backlog", Int64(clamping: owner.counters.webhookEventsBeyondBacklog))
            }
        }
        return json.bytes
    }
}
