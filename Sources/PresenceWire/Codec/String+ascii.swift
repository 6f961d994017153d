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
        var offset = 0
        while offset + 8 <= count {
            all |= loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            offset += 8
        }
        while offset < count {
            all |= UInt64(self[offset])
            offset += 1
        }
        return all & 0x8080_8080_8080_8080 == 0
    }
}
