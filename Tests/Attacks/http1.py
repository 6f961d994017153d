"""Attacks over HTTP/1.1."""
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
