/// A user's ID as a key, compared byte by byte like in nodes.
///
/// Two texts that Unicode calls equivalent are equal Swift strings, but two users.
package struct UserKey: Hashable, Sendable {
    package let id: String

    package init(_ id: String) { self.id = id }

    package static func == (left: UserKey, right: UserKey) -> Bool { left.id.utf8.elementsEqual(right.id.utf8) }

    package func hash(into hasher: inout Hasher) {
        var id = id
        id.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}
