import NodeFixture
import Testing

extension ConformanceTests {
    /// Many sessions of one user, and which of them make room for others.
    @Suite(.serialized) struct DeviceTests {
        /// Why a session was ended; nil for one that was not.
        private func kickReason(of session: Session) -> String? {
            session.events.last { $0.name == "onKickedOffline" }?.json["reason"]?.text
        }

        private func untilReplaced(_ session: Session) async throws {
            try await session.until("the session is replaced") { events in
                events.contains { $0.name == "onKickedOffline" && $0.json["reason"]?.text == "replaced" }
            }
        }

        /// The nodes start in the order of their numbers, and so the IDs of their sessions are ordered.
        @Test("Beyond 64 sessions the one with the earliest login ends, on whichever node it is") func earliestLogin() async throws {
            let app = try await App("rollcall")
            let first = try await app.login("ann", node: 2, query: "platform=ios&deviceID=d0")
            var others: [Session] = []
            for number in 1..<64 { others.append(try await app.login("ann", node: number % 3, query: "platform=ios&deviceID=d\(number)")) }
            #expect(kickReason(of: first) == nil)
            others.append(try await app.login("ann", node: 0, query: "platform=ios&deviceID=d64"))
            try await untilReplaced(first)
            // Each later session is told a later change, so none of them was ended before it.
            #expect(try await app.call("setSelfStatus", #"{"customStatus":"here"}"#).code == 0)
            for session in others { try await session.status(of: "ann") { $0.custom == "here" } }
            #expect(others.allSatisfy { kickReason(of: $0) == nil })
            for session in others { session.close() }
        }
    }
}
