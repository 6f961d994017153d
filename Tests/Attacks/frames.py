"""Frames of HTTP/2 and strings of HPACK, as bytes."""
import struct

HEADERS, RESET, SETTINGS, UPDATE = 1, 3, 4, 8
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
