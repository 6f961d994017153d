/// Fast paths for ASCII.
///
/// Most texts are short and ASCII. Building such a string costs a fifth of validating it as UTF-8.
extension String {
    /// Makes a string of ASCII bytes.
    ///
    /// - Parameter bytes: all of them are less than 0x80.
    init(ascii bytes: UnsafeRawBufferPointer) {
        self.init(unsafeUninitializedCapacity: bytes.count) { text in
            UnsafeMutableRawBufferPointer(text).copyMemory(from: bytes)
            return bytes.count
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Whether all bytes are less than 0x80; checks eight bytes at a time.
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
