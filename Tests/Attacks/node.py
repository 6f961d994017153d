"""Attacks on what a node does with connections and requests that are well formed."""
import os, select, socket, struct, time
from frames import END_HEADERS, END_STREAM, HEADERS, PREFACE, RESET, SETTINGS, UPDATE, Ends, frame, text
from harness import attack


def request(stream, path, method=0x82, **fields):
    """HEADERS of a request without a body."""
    block = bytes([method, 0x86, 0x04]) + text(path) + b"\x01\x01x"
    block += b"".join(b"\0" + text(name) + text(value) for name, value in fields.items())
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, block)


def begin():
    """A connection that takes all that comes."""
    return PREFACE + frame(SETTINGS, payload=struct.pack(">HI", 4, 0x7FFF_FFFF)) + frame(UPDATE, payload=struct.pack(">I", 0x7FFF_0000))


@attack(ports=("client", "cluster", "ops"), descriptors=512)
def connections(target):
    """As many as there are, from another address than the honest client's, and a new one for each that is closed. They say nothing."""
    held, poll = {}, select.poll()
    while not target.is_over:
        taken = socket.socket()
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        taken.bind(("127.0.0.2", 0))
        try:
            taken.settimeout(1)
            taken.connect(("127.0.0.1", target.port))
            target.note(connections=1)
        except OSError:
            taken.close()
            continue
        held[taken.fileno()] = taken
        poll.register(taken, select.POLLRDHUP)
        for descriptor, _ in poll.poll(0 if len(held) < 5_000 else 100):
            poll.unregister(descriptor)
            held.pop(descriptor).close()
            target.note(refused=1)
    target.note(held=len(held))


@attack(ports=("ops",))
def metrics_pages(target):
    """As many at a time as four connections may ask for, and all are read."""
    connections = [target.connect() for _ in range(4)]
    ends, next_stream = [Ends() for _ in connections], 1
    for connection in connections:
        connection.send(begin())
    while not target.is_over:
        for place, connection in enumerate(connections):
            if not connection.is_open:
                connections[place], ends[place] = target.connect(), Ends()
                connections[place].send(begin())
        numbers = range(next_stream, next_stream + 2 * 999, 2)
        next_stream = numbers[-1] + 2
        for connection in connections:
            connection.send(b"".join(request(number, "/metrics") for number in numbers), read=False, seconds=1)
        for connection, end in zip(connections, ends):
            wanted = end.count + 999
            while connection.is_open and end.count < wanted and not target.is_over:
                end.take(connection.receive(1))
            target.note(pages=end.count - wanted + 999)
        target.note(rounds=1)


@attack()
def logins(target):
    """One user opens streams and resets them, fewer on a connection than it takes as a flood of resets; then a new connection."""
    tokens = "Bearer " + target.token()
    login = [request(number, "/v1/events?platform=web", authorization=tokens) + frame(RESET, stream=number, payload=b"\0\0\0\x08")
             for number in range(1, 2 * 1_900, 2)]
    while not target.is_over:
        connection = target.connect()
        connection.send(begin())
        for place in range(0, len(login), 50):
            if not connection.send(b"".join(login[place:place + 50]), read=True):
                break
            target.note(logins=50)
        connection.receive(0.1)
        connection.close()


@attack()
def logins_that_last(target):
    """The same, but each session is open before it is reset."""
    tokens = "Bearer " + target.token()
    while not target.is_over:
        connection = target.connect()
        connection.send(begin())
        for number in range(1, 2 * 1_900, 2 * 50):
            numbers = range(number, number + 2 * 50, 2)
            if not connection.send(b"".join(request(one, "/v1/events?platform=web", authorization=tokens) for one in numbers), read=True):
                break
            connection.receive(0.05)
            if not connection.send(b"".join(frame(RESET, stream=one, payload=b"\0\0\0\x08") for one in numbers), read=True):
                break
            target.note(logins=50)
        connection.close()


@attack()
def token_spellings(target):
    """Thirty tokens, each with the last characters, the padding and the spellings of the word Bearer that other readers take as the same."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    words = ["".join(c.upper() if number >> place & 1 else c for place, c in enumerate("bearer")) for number in range(64)]
    tokens = [target.token(f"mallory{number}") for number in range(30)]
    accepted = []
    while not target.is_over:
        wrong = [tokens[0][:-1] + digits[digits.index(tokens[0][-1]) ^ bits] for bits in range(1, 4)] + [tokens[0] + "="]
        accepted += [spelling for spelling in wrong if target.call("getUserStatus", {"userIDs": ["u0"]}, spelling) != 401]
        connection = target.connect()
        connection.send(begin())
        number = 1
        for token in tokens:
            others = [token[:-1] + digits[digits.index(token[-1]) ^ bits] for bits in range(4)]
            spellings = [f"{word} {other}{'=' * padding}" for word in words for other in others for padding in (0, 1)]
            fields = [request(number + 2 * place, "/v1/events?platform=" + "x" * 100, authorization=spelling)
                      for place, spelling in enumerate(spellings)]
            number += 2 * len(fields)
            for place in range(0, len(fields), 64):
                if not connection.send(b"".join(fields[place:place + 64]), read=True):
                    break
                target.note(spellings=64)
        connection.receive(0.1)
        connection.close()
    if accepted:
        raise SystemExit(f"other spellings of a token were accepted: {len(accepted)}")


@attack()
def tickets(target):
    """One user requests stream tickets without end. Another user's requests succeed meanwhile, and after it."""
    token, other = target.token(), target.token("ticket holder")
    body = b"POST /v1/streamTicket HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 2\r\n\r\n{}" % token.encode()
    refused, due = [], 0
    while not target.is_over:
        connection = target.connect()
        for _ in range(40):
            if not connection.send(body * 50, read=True):
                break
            target.note(tickets=50)
            if time.monotonic() >= due:
                due = time.monotonic() + 1  # A user may request 100 in 30 s.
                refused += [status for status in [target.call("streamTicket", {}, other)] if status != 200]
        connection.close()
    refused += [status for status in [target.call("streamTicket", {}, other)] if status != 200]
    if refused:
        raise SystemExit(f"another user's requests for tickets were answered {refused}")


@attack(ports=("cluster",), settings={"ROLLCALL_CLUSTER_SECRET": "the secret of this cluster"})
def wrong_proofs(target):
    """Each under a name of its own, with line feeds and escape codes: what they would write into the log is bounded."""
    before = os.path.getsize(target.log)
    number = 0
    while not target.is_over:
        connection = target.connect()
        for _ in range(500):
            number += 1
            card = f"node\n\x1b[31m{number}".encode().ljust(64, b"x")
            body = b"".join(f"POST /cluster/v1/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(part)}\r\n\r\n".encode() + part
                            for path, part in (("hello", b""), ("proof", bytes(64) + card)))
            if not connection.send(body, read=True):
                break
            target.note(proofs=1)
        connection.close()
    written = os.path.getsize(target.log) - before
    target.note(logged_bytes=written)
    if written > 4_096:
        raise SystemExit(f"{written} bytes went into the log")
