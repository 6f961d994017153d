"""Attacks over HTTP/1.1."""
import select

from harness import attack

PATHS = {"client": "/openapi.json", "cluster": "/x", "ops": "/metrics"}


def requests(target, fields="", body="", count=2_000):
    path = next(path for name, path in PATHS.items() if target.port == getattr(target, {"cluster": "link"}.get(name, name)))
    method = "POST" if body else "GET"
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{fields}{length}\r\n{body}".encode() * count


def flood(target, data, receive_bytes=None):
    """Sends `data` again and again and reads nothing; begins again when the node closes the connection."""
    while not target.is_over:
        connection = target.connect(receive_bytes=receive_bytes)
        while connection.send(data):
            pass
        if connection.is_open:
            connection.wait_until_closed()
        connection.close()


@attack(ports=("client", "cluster", "ops"))
def pipelined_requests(target):
    flood(target, requests(target))


@attack(ports=("client", "cluster", "ops"))
def pipelined_expectations(target):
    """Each asks for a 100 first."""
    flood(target, requests(target, "Expect: 100-continue\r\n", "{}"))


@attack()
def bytes_after_upgrade(target):
    """Whatever the client would speak instead of HTTP/1.1."""
    while not target.is_over:
        connection = target.connect()
        connection.send(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
        while connection.send(b"x" * 1_000_000, read=True):
            pass
        connection.close()


@attack()
def bytes_after_connect(target):
    while not target.is_over:
        connection = target.connect()
        connection.send(b"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n")
        while connection.send(b"x" * 1_000_000, read=True):
            pass
        connection.close()


def crowd(target, count, data):
    """`count` connections that each send `data`, as far as the node takes it, and read nothing."""
    poll, left = select.poll(), {}
    for _ in range(count):
        connection = target.connect(receive_bytes=4_096)
        if connection.is_open:
            left[connection.socket.fileno()] = (connection, memoryview(data))
            poll.register(connection.socket, select.POLLOUT | select.POLLRDHUP)
    while not target.is_over and left:
        for file, found in poll.poll(100):
            connection, rest = left[file]
            if found & select.POLLOUT and rest:
                sent = connection.send_some(rest)
                left[file] = (connection, rest[sent:])
                if sent == len(rest):
                    poll.modify(file, select.POLLRDHUP)
            if found & ~select.POLLOUT or not connection.is_open:
                poll.unregister(file)
                del left[file]
                connection.lost()
    for connection, _ in left.values():
        connection.close()


@attack(ports=("client", "ops"))
def crowd_that_reads_nothing(target):
    crowd(target, 300, requests(target))


@attack()
def crowd_that_asks_for_little(target):
    """Answers of some hundred bytes: none is the same as another, and the node holds each for itself."""
    crowd(target, 1_500, b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n" * 2_000)


@attack(ports=("client", "cluster", "ops"))
def unfinished_bodies(target):
    crowd(target, 300, b"POST /v1/getUserStatus HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 990_000)


@attack()
def unfinished_chunks(target):
    crowd(target, 300, b"POST /v1/getUserStatus HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"10\r\n0123456789abcdef\r\n" * 45_000)


@attack()
def unfinished_headers(target):
    crowd(target, 1_000, b"GET / HTTP/1.1\r\nHost: x\r\n" + b"x: " + b"y" * 15_000)


@attack(ports=("client", "cluster", "ops"))
def unfinished_headers_of_many_who_leave(target):
    """What a closed connection held must be free at once, not when its deadline is over."""
    data = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"x: " + b"y" * 15_000
    while not target.is_over:
        connection = target.connect()
        connection.send(data)
        connection.close(by_reset=True)


@attack()
def requests_and_then_fin(target):
    """Many send what the kernel takes and close their side: the node is told at once, and could read it all."""
    data = requests(target, count=1_500)
    while not target.is_over:
        connections = [target.connect(receive_bytes=4_096) for _ in range(50)]
        for connection in connections:
            connection.send(data, seconds=0)
            connection.finish()
        connections[0].wait_until_closed(0.5)
        for connection in connections:
            connection.close()


@attack(ports=("client", "cluster", "ops"))
def bytes_that_are_no_request(target):
    while not target.is_over:
        connection = target.connect()
        connection.send(b"\x16\x03\x01" * 5_000)
        connection.wait_until_closed(0.5)
        connection.close()


@attack()
def reader_that_keeps_up(target):
    """No attack, but what a back end may do: some requests at a time, and all answers are read."""
    body = '{"userIDs":["mallory"]}'
    call = (f"POST /v1/getUserStatus HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {target.token()}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
    connection = target.connect()
    while not target.is_over:
        connection.send(call)
        target.note(answers=connection.receive().count(b"HTTP/1.1 200"))
