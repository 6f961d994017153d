"""Attacks on one real node at full speed, with an honest client beside them that must not notice.

An attack is a function in a file of its topic beside this one, registered by `@attack`. It runs in a process of its own, gets a `Target`, and
goes on until `target.is_over`. The node runs on core 0; the attacker and the honest client share core 1, because the machine is small."""
import collections, http.client, json, math, multiprocessing, os, select, socket, subprocess, sys, threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Chaos"))
import cluster as chaos

FORK = multiprocessing.get_context("fork")
GROWTH_MAX, KEPT_MAX = 64 << 20, 32 << 20  # Bytes of memory that an attack may cost while it runs, and two seconds after it.
BACK_SECONDS, RATE, TRIES = 2, 200, 3
PORTS = {"client": "client", "cluster": "link", "ops": "ops"}
attacks = {}


class Attack:
    def __init__(self, run, port, settings, cut_within, descriptors, seconds):
        self.run, self.port, self.settings, self.cut_within = run, port, settings, cut_within
        self.descriptors, self.seconds = descriptors, seconds


def attack(ports=("client",), settings=None, cut_within=None, descriptors=None, seconds=0):
    """Registers an attack, once for each of `ports`, on a node with the environment `settings`. The name is the function's, with the port
    unless it is the clients' alone. `cut_within`: seconds after which the node must have closed each connection that the attack opened with
    `target.connect`; without it the cost of the attack has to be bounded, and the connections may live. `descriptors`: as many as the node may
    have, all in all. `seconds`: how long the attack lasts at least.

    An attack that finds that others were harmed ends with `SystemExit` and the reason."""

    def register(run):
        for port in ports:
            name = run.__name__.replace("_", "-") + ("" if tuple(ports) == ("client",) else f"@{port}")
            attacks[name] = Attack(run, port, settings or {}, cut_within, descriptors, seconds)
        return run

    return register


class Target:
    """What an attack aims at. Its process alone uses it."""

    def __init__(self, node, attack, seconds):
        self.port, self.pid = getattr(node, PORTS[attack.port]), node.process.pid
        self.client, self.link, self.ops = node.client, node.link, node.ops
        self.log = f"{node.cluster.directory}/{node.name}.log"
        self.end = time.monotonic() + seconds
        self.sent, self.opened, self.cut, self.lives = 0, 0, 0, []
        self.notes = {}

    @property
    def is_over(self):
        return time.monotonic() >= self.end

    @property
    def seconds_left(self):
        return max(self.end - time.monotonic(), 0)

    def token(self, user="mallory", **claims):
        return chaos.token(user, **claims)

    def call(self, operation, body, token, port=None, prefix="v1"):
        """The status of one call, at the clients' port unless `port` is another one."""
        return self.ask(operation, body, token, port, prefix)[0]

    def ask(self, operation, body, token, port=None, prefix="v1", method="POST"):
        """The status of one call and the bytes of its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.client, timeout=10)
        try:
            connection.request(method, f"/{prefix}/{operation}", json.dumps(body) if method == "POST" else None,
                               {"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def operate(self, operation, body, app):
        """One call of an app's operator, which must succeed."""
        status, answer = self.ask(operation, body, self.token("operator", app=app, admin=True), self.ops, "admin/v1")
        if status != 200:
            raise SystemExit(f"{operation} of app {app} was answered {status} {answer[:200]}")

    def connect(self, port=None, receive_bytes=None, address=None):
        """A connection to the attacked port that says how long the node lets it live. `receive_bytes`: the size of its receive buffer.
        `address`: another of this machine's addresses than the honest client's."""
        return Connection(self, port or self.port, receive_bytes, address)

    def pause(self, seconds):
        """Waits, and no longer than the attack lasts."""
        select.select([], [], [], min(seconds, self.seconds_left))

    def last_at_least(self, seconds):
        """The attack goes on for `seconds` from now, if it would end before."""
        self.end = max(self.end, time.monotonic() + seconds)

    def note(self, **counts):
        """Figures for the report."""
        for name, count in counts.items():
            self.notes[name] = self.notes.get(name, 0) + count

    def report(self):
        return {"sent": self.sent, "opened": self.opened, "cut": self.cut, "longest life": max(self.lives, default=0), **self.notes}


class Connection:
    """A connection of an attacker. Its methods return False, or b"", when the node has closed it, and do not raise."""

    def __init__(self, target, port, receive_bytes, address=None):
        self.target = target
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.opened_at, self.is_open = time.monotonic(), True
        target.opened += 1
        try:
            if address:
                self.socket.bind((address, 0))
            self.socket.settimeout(5)
            self.socket.connect(("127.0.0.1", port))
            self.socket.setblocking(False)
        except OSError:
            self.lost()

    def lost(self):
        """The node has closed it."""
        if self.is_open:
            self.is_open = False
            self.target.cut += 1
            self.target.lives.append(time.monotonic() - self.opened_at)
            self.socket.close()

    def close(self, by_reset=False):
        if self.is_open:
            self.is_open = False
            if by_reset:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.target.lives.append(time.monotonic() - self.opened_at)
            self.socket.close()

    def send(self, data, seconds=None, read=False):
        """Sends all of `data`, as far as the node takes it within `seconds`, or before the attack is over. Returns whether all went. `read`:
        throws away what comes meanwhile; otherwise nothing is read, and that the node has closed is known by its reset alone."""
        view, end = memoryview(data), min(self.target.end, time.monotonic() + (seconds or math.inf))
        while self.is_open and view:
            try:
                count = self.socket.send(view)
                self.target.sent += count
                view = view[count:]
            except BlockingIOError:
                left = end - time.monotonic()
                if left <= 0:
                    return False
                poll = select.poll()
                poll.register(self.socket, select.POLLOUT | select.POLLRDHUP | (select.POLLIN if read else 0))
                for _, found in poll.poll(min(left, 0.25) * 1_000):
                    if found & (select.POLLRDHUP | select.POLLHUP | select.POLLERR):
                        self.lost()
                    elif read and found & select.POLLIN:
                        self.receive(0)
            except OSError:
                self.lost()
            if time.monotonic() >= end:
                break
        return self.is_open and not view

    def send_some(self, data):
        """Sends what goes at once. Returns how much did."""
        try:
            count = self.socket.send(data)
            self.target.sent += count
            return count
        except BlockingIOError:
            return 0
        except OSError:
            self.lost()
            return 0

    def receive(self, seconds=None):
        """What comes next, within `seconds` or before the attack is over; b"" when nothing does or the connection is closed."""
        end = self.target.end if seconds is None else min(self.target.end, time.monotonic() + seconds)
        while self.is_open:
            try:
                data = self.socket.recv(1 << 18)
                if not data:
                    self.lost()
                return data
            except BlockingIOError:
                left = end - time.monotonic()
                if left <= 0:
                    return b""
                select.select([self.socket], [], [], left)
            except OSError:
                self.lost()
        return b""

    def finish(self):
        """Closes this side."""
        if self.is_open:
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                self.lost()

    def wait_until_closed(self, seconds=None):
        """Reads nothing more, and waits until the node closes the connection. Returns whether it did."""
        end = self.target.end if seconds is None else min(self.target.end, time.monotonic() + seconds)
        poll = select.poll()
        poll.register(self.socket, select.POLLRDHUP)
        while self.is_open and (left := end - time.monotonic()) > 0:
            if poll.poll(left * 1_000):
                self.lost()
        return not self.is_open


# The honest client


class Honest:
    """Reads at a steady rate on one connection, which are timed. Beside them, once a quarter of a second, it reads on a new connection and makes
    a change of which its event stream must tell.

    Times count from the moment a call was due: a node that stalls delays all that are due meanwhile."""

    def __init__(self, port, seconds):
        self.port, self.seconds = port, seconds
        self.token = chaos.token("honest")
        self.times, self.failures, self.changes = [], collections.Counter(), 0
        self.query = self.request("getUserStatus", {"userIDs": ["honest"]})

    def request(self, operation, body):
        text = json.dumps(body).encode()
        return (f"POST /v1/{operation} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self.token}\r\n"
                f"content-length: {len(text)}\r\n\r\n").encode() + text

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def call(self, connection, request):
        connection.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.receive(connection)
        head, _, body = answer.partition(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        while len(body) < length:
            body += self.receive(connection)
        if (status := int(head.split()[1])) != 200:
            self.failures[f"status {status}"] += 1

    def receive(self, connection):
        if piece := connection.recv(1 << 16):
            return piece
        raise ConnectionResetError("closed too early")

    def run(self):
        stream = self.connect()
        stream.sendall(f"GET /v1/events?platform=ios HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {self.token}\r\n\r\n".encode())
        answer = b""
        while b"onSubscriptionSyncCompleted" not in answer:
            answer += self.receive(stream)
        start = time.monotonic()
        others = [threading.Thread(target=self.read_stream, args=(stream, start + self.seconds)),
                  threading.Thread(target=self.make_changes, args=(start,))]
        for thread in others:
            thread.start()
        self.read_steadily(start)
        for thread in others:
            thread.join()
        self.times.sort()
        return {"calls": len(self.times), "failures": dict(self.failures), "p50": self.times[len(self.times) // 2],
                "p99": self.times[len(self.times) * 99 // 100], "max": self.times[-1]}

    def read_steadily(self, start):
        connection = self.connect()
        for index in range(int(self.seconds * RATE)):
            due = start + index / RATE
            select.select([], [], [], max(due - time.monotonic(), 0))
            try:
                self.call(connection, self.query)
            except (OSError, StopIteration, ValueError) as error:
                self.failures[f"call: {type(error).__name__} {error}"] += 1
                try:
                    connection.close()
                    connection = self.connect()
                except OSError:
                    continue  # The next call fails on the closed connection, and is counted.
            self.times.append(time.monotonic() - due)

    def make_changes(self, start):
        for index in range(int(self.seconds * 4)):
            due = start + index / 4 + 0.5 / RATE  # Between two reads.
            select.select([], [], [], max(due - time.monotonic(), 0))
            try:
                with self.connect() as connection:
                    self.call(connection, self.query)
                    if index % 4 == 0:  # A user may make as many as one a second.
                        self.call(connection, self.request("setSelfStatus", {"customStatus": f"c{self.changes + 1}"}))
                        self.changes += 1
            except (OSError, StopIteration, ValueError) as error:
                self.failures[f"call on a new connection: {type(error).__name__} {error}"] += 1

    def read_stream(self, connection, end):
        """Five seconds longer than the changes are made: the last one has to arrive, too."""
        connection.settimeout(0.2)
        text, told = b"", 0
        try:
            while time.monotonic() < end or (told < self.changes and time.monotonic() < end + 5):
                try:
                    text = text[-100:] + self.receive(connection)
                except TimeoutError:
                    continue
                while f'"customStatus":"c{told + 1}"'.encode() in text:
                    told += 1
        except OSError as error:
            self.failures[f"event stream: {type(error).__name__} {error}"] += 1
        if told < self.changes:
            self.failures[f"event stream: told of {told} of {self.changes} changes"] += 1


# Measuring


def beside_the_node():
    """The clients' core is not the node's, where there are two."""
    if len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(0, {1})


def at_the_node(attack):
    """Puts the node on a core of its own, and before others that use the core, if that is allowed: their turns are not to be taken for its."""
    prefix = ("prlimit", f"--nofile={attack.descriptors}") if attack.descriptors else ()
    # Not in real time: the kernel takes a twentieth of each second from a thread that runs all the time, and of two threads of the node one
    # would wait for the other.
    # Where the kernel shares a core among sessions first (sched_autogroup_enabled), a nice value counts only within the node's session.
    first = ("setsid", "sh", "-c", 'echo -19 2> /dev/null > /proc/self/autogroup; exec nice -n -19 "$@"', "sh")
    is_allowed = subprocess.run([*first, "sh", "-c", "test $(nice) -lt 0"], stderr=subprocess.DEVNULL).returncode == 0
    prefix += first if is_allowed else ()
    return prefix + (("taskset", "-c", "0") if len(os.sched_getaffinity(0)) > 1 else ())


class Child:
    """A function in a process of its own, and what it returned."""

    def __init__(self, run, goes_first=False):
        reader, writer = FORK.Pipe(False)
        self.reader, self.process = reader, FORK.Process(target=self.main, args=(run, writer, goes_first))
        self.process.start()
        writer.close()

    @staticmethod
    def main(run, writer, goes_first):
        beside_the_node()
        if goes_first:
            try:  # Its times are to be the node's, not those of the attacker that it shares the core with.
                os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
            except PermissionError:
                pass  # Then the baseline, with the same load on the core, has to do.
        writer.send(run())

    def result(self, seconds=60):
        try:
            if not self.reader.poll(seconds):
                raise SystemExit(f"not within {seconds} s: the end of an attack or of the honest client")
            return self.reader.recv()
        except EOFError:
            raise SystemExit("an attack or the honest client failed, see above") from None
        finally:
            self.process.kill()
            self.process.join()


class Memory:
    """Resident bytes of the node."""

    def __init__(self, pid):
        self.pid = pid

    def now(self, field="VmRSS"):
        for line in open(f"/proc/{self.pid}/status"):
            if line.startswith(field + ":"):
                return int(line.split()[1]) << 10
        raise SystemExit("the node has died")

    def begin(self):
        with open(f"/proc/{self.pid}/clear_refs", "w") as file:
            file.write("5")
        self.before = self.now()

    def growth(self):
        return self.now("VmHWM") - self.before

    def kept(self, seconds):
        """What is not given back after `seconds`; less as soon as it is little."""
        end = time.monotonic() + seconds
        while (kept := self.now() - self.before) > KEPT_MAX and time.monotonic() < end:
            select.select([], [], [], 0.05)
        return kept


def spin(end):
    while time.monotonic() < end:
        pass


def processor_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_quiet(node, seconds):
    """Figures of the honest client without an attack, while something else uses the attacker's core."""
    honest = Child(lambda: Honest(node.client, seconds).run(), goes_first=True)
    load = Child(lambda: spin(time.monotonic() + seconds + 0.5))
    figures = honest.result()
    load.result()
    return figures


def measure(node, attack, seconds, slack):
    """Figures of one run, and the reasons why they are wrong: those that noise explains, and those that it does not."""
    seconds = max(seconds, attack.seconds)
    baseline = measure_quiet(node, max(seconds / 2, 1.5))
    for _ in range(2):
        if baseline["p99"] > 2 * slack and not baseline["failures"]:  # Somebody else uses the core; a high bound proves little.
            baseline = min(baseline, measure_quiet(node, max(seconds / 2, 1.5)), key=lambda figures: figures["p99"])
    memory = Memory(node.process.pid)
    memory.begin()
    cpu = processor_seconds(node.process.pid)

    def strike():
        target = Target(node, attack, seconds)
        try:
            attack.run(target)
        except SystemExit as reason:
            return target.report(), str(reason)
        return target.report(), None

    honest = Child(lambda: Honest(node.client, seconds).run(), goes_first=True)
    attacker = Child(strike)
    struck, harm = attacker.result(seconds + 60)
    growth, cpu, kept = memory.growth(), processor_seconds(node.process.pid) - cpu, memory.kept(BACK_SECONDS)
    client = honest.result()

    wrong, slow = [harm] if harm else [], []
    if growth > GROWTH_MAX:
        wrong.append(f"grew by {growth >> 20} MB, at most {GROWTH_MAX >> 20} MB are right")
    if kept > KEPT_MAX:
        wrong.append(f"keeps {kept >> 20} MB for {BACK_SECONDS} s after the end, at most {KEPT_MAX >> 20} MB are right")
    if client["failures"]:
        wrong.append(f"honest client: {client['failures']}")
    if baseline["failures"]:
        wrong.append(f"honest client without an attack: {baseline['failures']}")
    if attack.cut_within is not None and struck["longest life"] > attack.cut_within:
        wrong.append(f"a connection lived for {struck['longest life']:.1f} s, at most {attack.cut_within} s are right")
    bound = max(2 * baseline["p99"], baseline["p99"] + slack)
    if client["p99"] > bound:
        slow.append(f"honest p99 {client['p99'] * 1e3:.1f} ms, at most {bound * 1e3:.1f} ms are right")
    figures = (f"+{growth / (1 << 20):.0f} MB, kept {max(kept, 0) / (1 << 20):.0f} MB, node {cpu / seconds:.2f} cores, p50 "
               f"{baseline['p50'] * 1e3:.2f} → {client['p50'] * 1e3:.2f} ms, p99 {baseline['p99'] * 1e3:.2f} → {client['p99'] * 1e3:.2f} ms, "
               f"max {client['max'] * 1e3:.0f} ms; attacker: {show(struck)}")
    return figures, wrong, slow


def show(report):
    parts = [f"{report['sent'] / 1e6:.1f} MB sent"]
    parts += [f"{name} {value:.2f}" if isinstance(value, float) else f"{name} {value}" for name, value in report.items() if name != "sent"]
    return ", ".join(parts)


def run(name, seconds, slack):
    """Runs an attack on a new node, again where the machine may have been too busy. Returns whether all was right."""
    attack, start = attacks[name], time.monotonic()
    for tried in range(1, TRIES + 1):
        with chaos.Cluster(0, **attack.settings) as cluster:
            node = chaos.Node(cluster, "n1").start(prefix=at_the_node(attack))
            cluster.nodes.append(node)
            cluster.wait_for_members(1)
            figures, wrong, slow = measure(node, attack, seconds, slack)
            if node.process.poll() is not None:
                wrong.append(f"the node ended with {node.process.returncode}")
        is_right = not wrong and not slow
        print(f"{'ok  ' if is_right else 'FAIL'} {name}: {figures}", flush=True)
        for reason in wrong + slow:
            print(f"     {reason}", flush=True)
        if is_right or wrong:
            return is_right
    return False
