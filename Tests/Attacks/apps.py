"""Attacks by users, operators and webhook receivers of app b, which may cost the users of other apps nothing.

Each attack asks beside it, once a second, whether another app still gets what it asks for, and fails when that app does not."""
import collections, json, select, socket, socketserver, struct, threading, time
from frames import DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, SETTINGS, UPDATE, Ends, frame, text
from harness import attack

APP = "b"
LONG = "u" * 50  # The beginning of user IDs that fill an export.
MUCH = (1 << 31) - 1  # The largest window.
GET, POST = 0x82, 0x83  # Methods, in HPACK's table.


def head(stream, method, path, token, flags):
    """HEADERS of a request with a token."""
    fields = bytes([method, 0x86, 0x04]) + text(path) + b"\x01\x01x\x00" + text("authorization") + text(f"Bearer {token}")
    return frame(HEADERS, END_HEADERS | flags, stream, fields)


def call(stream, path, body, token):
    """A call over HTTP/2."""
    data = json.dumps(body).encode()
    return head(stream, POST, path, token, 0) + frame(DATA, END_STREAM, stream, data)


def begin(window):
    """The beginning of a connection whose streams and which itself have this window, at most 2³¹ - 1."""
    opened = frame(UPDATE, payload=struct.pack(">I", window - 65_535)) if window > 65_535 else b""
    return PREFACE + frame(SETTINGS, payload=struct.pack(">HI", 4, window)) + opened


def request(path, body, token):
    """A request over HTTP/1.1."""
    data = json.dumps(body).encode()
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def answers(connection, requests):
    """Sends requests over HTTP/1.1 at once, and counts the answers by their status."""
    counts, received = collections.Counter(), b""
    if connection.send(b"".join(requests), read=False):
        while received.count(b"HTTP/1.1 ") < len(requests) and (data := connection.receive(5)):
            received += data
    for line in received.split(b"HTTP/1.1 ")[1:]:
        counts[int(line[:3])] += 1
    return counts


class Others:
    """The calls of another app, once a second."""

    def __init__(self, target, ask):
        self.target, self.ask, self.due, self.refused, self.count = target, ask, time.monotonic() + 1, collections.Counter(), 0

    def look(self):
        if time.monotonic() < self.due:
            return
        self.due, self.count = time.monotonic() + 1, self.count + 1
        if (answer := self.ask()) != 200:
            self.refused[answer] += 1

    def finish(self, what):
        """Ends the attack if another app was refused; `what` are its calls."""
        if self.refused:
            raise SystemExit(f"{what} of another app were not answered 200: {dict(self.refused)} of {self.count}")


# What one user asks for


@attack()
def blocks_of_unknown_users(target):
    """Five users block and unblock users whom nobody knows, a hundred in a call, as often as they may and beyond. Another app's user blocks,
    and unblocks, as before."""
    tokens, other = [target.token(f"blocker{number}", app=APP) for number in range(5)], target.token("careful")
    block = lambda operation: target.call(operation, {"userIDs": ["nobody"]}, other)
    others = Others(target, lambda: max(block("addBlackList"), block("deleteBlackList")))
    connections = [target.connect() for _ in tokens]
    number = 0
    while not target.is_over:
        for place, token in enumerate(tokens):
            if not connections[place].is_open:
                connections[place] = target.connect()
            users = {"userIDs": [f"unknown{number + index}" for index in range(100)]}
            number += 100
            counts = answers(connections[place], [request(f"/v1/{name}", users, token) for name in ("addBlackList", "deleteBlackList")])
            target.note(done=counts[200], refused=counts.total() - counts[200])
        others.look()
    for connection in connections:
        connection.close()
    others.finish("blocks")


def large_profiles(target):
    """Makes a hundred profiles of 15 KB in app b. Returns their users."""
    names = [f"F{number}" for number in range(20)]
    target.operate("setAppPolicy", {"settings": {"profile.customFields": {name: "string" for name in names}}}, APP)
    users, operator = [f"large{number}" for number in range(100)], target.token("operator", app=APP, admin=True)
    values = {f"Custom_{name}": ('"' if place < 6 else "x") * 500 for place, name in enumerate(names)}
    values |= {name: "x" * 500 for name in ("Nick", "FaceUrl", "Location", "SelfSignature")}
    connection = target.connect()
    for user in users:
        counts = answers(connection, [request("/v1/modifySelfProfile", {"asUser": user, "values": values}, operator)])
        if counts[200] != 1:
            raise SystemExit(f"the profile of {user} was not changed: {dict(counts)}")
    connection.close()
    return users


def unread_profiles(target, users_count, answers_count):
    """Each of `users_count` users has a connection, asks on it for `answers_count` answers of 1.5 MB, reads none, and shows by PINGs that it
    lives. A user whose connection is closed begins again."""
    profiles = {"userIDs": large_profiles(target)}
    other = target.token("modest")
    others = Others(target, lambda: target.call("getUsersProfile", {"userIDs": ["modest"]}, other))
    tokens, connections = [target.token(f"greedy{number}", app=APP) for number in range(users_count)], [None] * users_count
    while not target.is_over:
        for place, token in enumerate(tokens):
            if connections[place]:
                connections[place].send(frame(PING, payload=b"01234567"), seconds=0.05)
                if connections[place].is_open:
                    continue
            connections[place] = target.connect(receive_bytes=4_096)
            calls = (call(number, "/v1/getUsersProfile", profiles, token) for number in range(1, 2 * answers_count, 2))
            if connections[place].send(begin(MUCH) + b"".join(calls), seconds=1):
                target.note(asked=answers_count)
        others.look()
        target.pause(0.2)
    for connection in connections:
        if connection:
            connection.close()
    others.finish("profiles")


@attack()
def unread_profiles_of_8_users(target):
    """960 answers of 1.5 MB wait at a time."""
    unread_profiles(target, 8, 120)


@attack()
def unread_profiles_of_50_users(target):
    """A thousand answers of 1.5 MB wait at a time, twenty for each user."""
    unread_profiles(target, 50, 20)


# What one operator asks for


@attack(ports=("ops",), seconds=17)
def unread_exports(target):
    """An operator of app b begins eight exports of 2,000 users, and reads none of them. The connections live, and take nothing.

    An operator of another app may export within fifteen seconds, whatever the first one does."""
    sessions = []
    for first in (0, 999):
        sessions.append(target.connect(port=target.client))
        logins = [head(2 * number + 1, GET, "/v1/events?platform=web", target.token(f"{LONG}{first + number}", app=APP), END_STREAM)
                  for number in range(999)]
        sessions[-1].send(begin(MUCH) + b"".join(logins), read=True)
        sessions[-1].receive(0.5)
    operator, other = target.token("operator", app=APP, admin=True), target.token("operator", admin=True)
    exports = [target.connect() for _ in range(8)]
    for export in exports:
        export.send(begin(0) + head(1, GET, "/admin/v1/export", operator, END_STREAM))
    begun, waited = time.monotonic(), None
    while not target.is_over and (waited is None or time.monotonic() < begun + 10):
        for export in exports:
            export.send(frame(PING, payload=b"01234567"), seconds=0.05, read=True)
        if waited is None and target.ask("export", None, other, target.ops, "admin/v1", "GET")[0] == 200:
            waited = time.monotonic() - begun
        for session in sessions:
            session.receive(0)
        target.pause(0.5)
    for connection in sessions + exports:
        connection.close()
    if waited is None:
        raise SystemExit("an operator of another app got no export while those of app b were not read")
    target.note(seconds_until_another_export=waited)


@attack(ports=("ops",), seconds=20)
def kicks_of_another_app(target):
    """A back end of app b kicks 100,000 users that nobody has seen. A kick of the honest app stays: the kicked user's earlier token is void."""
    earlier = target.token("kicked", issued_ago=60)
    target.operate("kick", {"userID": "kicked"}, "default")
    is_void = lambda: target.call("getUserStatus", {"userIDs": ["kicked"]}, earlier) == 401
    if not is_void():
        raise SystemExit("the kicked user's token still opens the node")
    others = Others(target, lambda: 200 if is_void() else "a void token was valid")
    operator, number, stream, connection = target.token("operator", app=APP, admin=True), 0, 1, None
    target.last_at_least(50)
    while number < 100_000 and not target.is_over:
        if connection is None or not connection.is_open:
            connection, ends, stream = target.connect(), Ends(), 1
            connection.send(begin(MUCH))
        kicks = [call(stream + 2 * place, "/admin/v1/kick", {"userID": f"user{number + place}"}, operator) for place in range(500)]
        number, stream, wanted, good = number + len(kicks), stream + 2 * len(kicks), ends.count + len(kicks), ends.good
        connection.send(b"".join(kicks), read=False)
        while connection.is_open and ends.count < wanted and not target.is_over:
            ends.take(connection.receive(1))
        target.note(kicks=ends.good - good, refused=len(kicks) - ends.good + good)
        others.look()
    if connection:
        connection.close()
    others.finish("void tokens")
    if not is_void():
        raise SystemExit("a kick of another app has made a void token valid again")


# Receivers of webhooks


class Receivers:
    """Receivers of webhooks at addresses of this machine, each of which is another one to a node. `answer` gets the socket of an attempt and
    returns whether the connection stays open. `arrived` has the time at which each text of app `other` came."""

    def __init__(self, target, answer):
        self.target, self.port, self.servers, self.arrived = target, 0, [], {}
        arrived = self.arrived

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                try:
                    while line := self.rfile.readline():
                        app, length = line.split()[1].decode().strip("/"), 0
                        while (field := self.rfile.readline()).strip():
                            name, _, value = field.partition(b":")
                            length = int(value) if name.lower() == b"content-length" else length
                        body = self.rfile.read(length)
                        if app == "other":
                            for event in json.loads(body)["events"]:
                                arrived[event["userStatus"]["customStatus"]] = time.monotonic()
                            self.wfile.write(b"HTTP/1.1 204 No Content\r\n\r\n")
                        elif not answer(self.connection):
                            return
                except OSError:
                    return  # The node has closed the connection.

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, allow_reuse_address, request_queue_size = True, True, 64

        self.start = lambda address: Server(address, Handler)

    def serve(self, app, number):
        """Starts the receiver of an app at the address of this number."""
        server = self.start((f"127.0.0.{number}", self.port))
        self.servers.append(server)
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = {"webhook.url": f"http://127.0.0.{number}:{self.port}/{app}", "webhook.secret": "a secret of the receivers"}
        self.target.operate("setAppPolicy", {"settings": settings}, app)


def webhooks(target, apps_count, users_count, answer, are_new=False):
    """The back ends of `apps_count` apps change the status of each of their users once a second, or of as many new users if `are_new`. Their
    receivers answer by `answer`. The events of another app arrive within five seconds."""
    receivers = Receivers(target, answer)
    apps = [f"b{number}" for number in range(apps_count)]
    for number, app in enumerate(["other", *apps], 1):
        receivers.serve(app, number)
    target.last_at_least(8)  # Also where the settings took a while.
    operators = {app: target.token("operator", app=app, admin=True) for app in ["other", *apps]}
    connection, sent, turn = target.connect(port=target.client), {}, 0
    while not target.is_over:
        turn += 1
        due = time.monotonic() + 1
        for app in ["other", *apps]:
            if not connection.is_open:
                connection = target.connect(port=target.client)
            first = turn * users_count if are_new else 0
            users = ["u0"] if app == "other" else [f"u{first + number}" for number in range(users_count)]
            counts = answers(connection, [request("/v1/setSelfStatus", {"asUser": user, "customStatus": f"turn {turn}"}, operators[app])
                                          for user in users])
            if app == "other" and counts[200]:
                sent[f"turn {turn}"] = time.monotonic()
            target.note(changes=counts[200], refused=counts.total() - counts[200])
        target.pause(max(due - time.monotonic(), 0))
    connection.close()
    end = time.monotonic() + 5
    while len(receivers.arrived) < len(sent) and time.monotonic() < end:
        select.select([], [], [], 0.1)
    late = {text: receivers.arrived.get(text, end + 9) - at for text, at in sent.items()}
    target.note(slowest_event_of_another_app=max(late.values(), default=0))
    if not late or max(late.values()) > 5:
        raise SystemExit(f"of {len(late)} events of another app {sum(seconds > 5 for seconds in late.values())} arrived late or not at all")


@attack()
def webhook_bodies_that_never_end(target):
    """Of forty apps, whose receivers accept each delivery by a status of 200. Half of the bodies come at full speed, the others stop after a
    byte."""
    start, chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", b"10000\r\n" + b"x" * 65_536 + b"\r\n"

    def answer(connection):
        connection.sendall(start)
        if int(connection.getsockname()[0].rsplit(".", 1)[1]) % 2:
            connection.recv(1)
        else:
            while True:
                connection.sendall(chunk)

    webhooks(target, 40, 10, answer)


@attack()
def webhook_receivers_of_300_milliseconds(target):
    """Of eighty apps, more than a node keeps connections to."""

    def answer(connection):
        select.select([], [], [], 0.3)
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        return True

    webhooks(target, 80, 3, answer)


@attack()
def webhook_receivers_that_fail(target):
    """Of four apps with a hundred new users a second, whose events wait for their receivers."""

    def answer(connection):
        connection.sendall(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
        return True

    webhooks(target, 4, 100, answer, are_new=True)
