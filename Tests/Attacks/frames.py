"""Frames of HTTP/2 and strings of HPACK, as bytes."""
import struct

DATA, HEADERS, RESET, SETTINGS, PING, UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload) << 8 | kind) + struct.pack(">BI", flags, stream) + payload


def text(value):
    """A string of HPACK (RFC 7541 §5.2) as it is."""
    value, rest = value.encode(), len(value) - 127
    if rest < 0:
        return bytes([len(value)]) + value
    length = b"\x7f"
    while rest >= 128:
        length += bytes([rest % 128 | 128])
        rest //= 128
    return length + bytes([rest]) + value


class Ends:
    """Counts the streams that end in what a connection receives, and the answers with a status of 200."""

    def __init__(self):
        self.rest, self.count, self.good = b"", 0, 0

    def take(self, data):
        data, place = self.rest + data, 0
        while len(data) - place >= 9:
            size, kind, flags = int.from_bytes(data[place:place + 3], "big"), data[place + 3], data[place + 4]
            if len(data) - place < 9 + size:
                break
            self.count += (kind in (DATA, HEADERS) and flags & END_STREAM) or kind == RESET
            # 200 is in HPACK's table. The size of the dynamic table, 0, may precede it.
            self.good += kind == HEADERS and data[place + 9:place + 9 + size].lstrip(b"\x20")[:1] == b"\x88"
            place += 9 + size
        self.rest = data[place:]
