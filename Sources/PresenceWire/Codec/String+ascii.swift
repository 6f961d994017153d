/// Most texts are ASCII, and short: made so, they cost a fifth of what checking them as any UTF-8 does.
extension String {
    /// - Parameter bytes: all of them less than 0x80.
    init(ascii bytes: UnsafeRawBufferPointer) {
        self.init(unsafeUninitializedCapacity: bytes.count) { text in
            UnsafeMutableRawBufferPointer(text).copyMemory(from: bytes)
            return bytes.count
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Eight bytes at a time.
    var isASCII: Bool {
        var all: UInt64 = 0
        var place = 0
        while place + 8 <= count {
            all |= loadUnaligned(fromByteOffset: place, as: UInt64.self)
            place += 8
        }
        while place < count {
            all |= UInt64(self[place])
            place += 1
        }
        return all & 0x8080_8080_8080_8080 == 0
    }
}
