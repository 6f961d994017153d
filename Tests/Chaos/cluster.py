"""Real nodes for the chaos scripts: started on free ports, killed by their id, stopped at the end."""
import base64, hashlib, hmac, http.client, json, os, random, select, shutil, socket, subprocess, sys, tempfile, time
import urllib.error, urllib.request

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ROLLCALL = os.environ.get("ROLLCALL", os.path.join(ROOT, ".build-release", "release", "rollcall"))


SLACK = float(os.environ.get("SLACK", 1))  # For slow machines.
SLOTS = 65_536  # Slots of the ring.
given = set()  # Ports that were given out, and may not be listened on yet.


def free_ports(count):
    """Below the range from which the kernel takes ports for connections: one of those may be gone before it is listened on."""
    ports = []
    while len(ports) < count:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in given:
            given.add(port)
            ports.append(port)
    return ports


def token(user, app="default", admin=False, secret="rollcall development key, never in earnest!", issued_ago=None, issued_at=None):
    """What `rollcall token` prints, for the development key; a process for each of many users takes too long. `issued_ago`: seconds, for
    `iat`; `issued_at`: `iat` itself, which may have a fraction."""
    claims = {"sub": user, "app": app, "exp": int(time.time()) + 86_400, **({"role": "admin"} if admin else {})}
    if issued_ago is not None:
        claims["iat"] = int(time.time()) - issued_ago
    if issued_at is not None:
        claims["iat"] = issued_at
    encoded = lambda part: base64.urlsafe_b64encode(part).rstrip(b"=")
    text = b".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return (text + b"." + encoded(hmac.digest(secret.encode(), text, hashlib.sha256))).decode()


def until(what, condition, seconds=60):
    """Waits for a condition and returns how long it took; ends the script when it does not come true. SLACK is a factor of the seconds."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > seconds * SLACK:
            raise SystemExit(f"not within {seconds * SLACK:g} s: {what}")
        select.select([], [], [], 0.02)
    return time.monotonic() - start


class Node:
    host = "127.0.0.1"  # Of the ports for clients and operators.

    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.client, self.link, self.ops = free_ports(3)
        self.process = None
        self.prefix = ()  # A command that ends by becoming the one that follows it.

    def start(self, prefix=None):
        """`prefix`: in place of the node's own."""
        contacts = ",".join(f"127.0.0.1:{n.link}" for n in self.cluster.nodes if n is not self)
        log = open(f"{self.cluster.directory}/{self.name}.log", "a")
        self.process = subprocess.Popen(
            [*(self.prefix if prefix is None else prefix), ROLLCALL, "serve", "--dev", "--node-id", self.name,
             "--data-dir", f"{self.cluster.directory}/{self.name}", "--listen", f"127.0.0.1:{self.client}",
             "--cluster-listen", f"127.0.0.1:{self.link}", "--ops-listen", f"127.0.0.1:{self.ops}", "--loops", "1",
             *(["--join", contacts] if contacts else [])],
            stdout=subprocess.DEVNULL, stderr=log, env=dict(os.environ, **self.cluster.environment))
        return self

    def request(self, path, bearer, body, timeout=10):
        """The status and the answer; 0 and no answer if the node does not answer. `admin/v1/` begins the paths of the ops port."""
        port = self.ops if path.startswith("admin/") else self.client
        request = urllib.request.Request(
            f"http://{self.host}:{port}/{path}", json.dumps(body).encode(), {"authorization": f"Bearer {bearer}"})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except (OSError, http.client.HTTPException):
            return 0, {}

    def metrics(self):
        text = urllib.request.urlopen(f"http://{self.host}:{self.ops}/metrics", timeout=5).read().decode()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line and line[0] != "#"}

    def readiness(self):
        """The status and the text of /readyz; 0 and no text if nobody answers."""
        try:
            return 200, urllib.request.urlopen(f"http://{self.host}:{self.ops}/readyz", timeout=2).read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def members(self):
        """Those in its ring: the suspect are, until they are given up."""
        try:
            metrics = self.metrics()
            return sum(metrics.get(f'rollcall_members{{state="{state}"}}', 0) for state in ("alive", "suspect"))
        except OSError:
            return 0

    def listens(self):
        """Whether clients can connect. A node opens their port last."""
        try:
            socket.create_connection((self.host, self.client), 2).close()
            return True
        except OSError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def terminate(self, timeout=60):
        self.process.terminate()
        code = self.process.wait(timeout)
        if code != 0:
            raise SystemExit(f"{self.name} ended with {code} after SIGTERM")


class Cluster:
    def __init__(self, count, **environment):
        self.directory = tempfile.mkdtemp(prefix="rollcall-chaos-")
        self.environment = environment
        self.nodes, self.simulators = [], []
        self.twins = []  # Nodes beside `nodes`, which end with the cluster too.
        for index in range(count):
            self.nodes.append(Node(self, f"n{index + 1}"))

    def __enter__(self):
        try:
            for node in self.nodes:
                node.start()
            self.wait_for_members(len(self.nodes))
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, kind, *_):
        for process in self.simulators + [node.process for node in self.nodes + self.twins if node.process]:
            if process.poll() is None:
                process.kill()
                process.wait()
        if kind is None:
            shutil.rmtree(self.directory, ignore_errors=True)
        else:
            print(f"logs are in {self.directory}", file=sys.stderr)

    def wait_for_members(self, count, nodes=None, seconds=20):
        """Waits until each node counts these members, and clients can connect."""
        return until(f"{count} members at every node that serves",
                     lambda: all(node.members() == count and node.listens() for node in nodes or self.nodes), seconds)

    def own_all(self, nodes):
        """Whether these nodes own all slots, and have the rows of each."""
        seen = [node.metrics() for node in nodes]
        return sum(one["rollcall_slots_owned"] - one["rollcall_slots_acquiring"] for one in seen) == SLOTS

    def wait_for_logins(self, users):
        until(f"{users} sessions", lambda: sum(node.metrics()["rollcall_sessions"] for node in self.nodes) >= users)

    def wait_for_changes(self, count, nodes=None):
        """Until the nodes have carried out so many more changes: the load runs, and has run for a while."""
        done = lambda: sum(n.metrics().get('rollcall_operations_total{operation="setSelfStatus",code="0"}', 0) for n in nodes or self.nodes)
        before = done()
        until(f"{count} more changes", lambda: done() >= before + count)

    def simulate(self, *options, counters=False):
        targets = ",".join(f"http://127.0.0.1:{n.client}" for n in self.nodes)
        command = [ROLLCALL, "simulate", "--target", targets, "--verify", "--json", f"{self.directory}/report.json", *options]
        if counters:
            command += ["--ops", ",".join(f"http://127.0.0.1:{n.ops}" for n in self.nodes)]
        self.simulators.append(subprocess.Popen(command, stdout=open(f"{self.directory}/simulate.log", "w"), stderr=subprocess.STDOUT))
        return self.simulators[-1]

    def report(self):
        return json.load(open(f"{self.directory}/report.json"))


def show(name, report, extra=""):
    print(f"{name}: lost {report['lost']}, stale {report['stale']}, phantom {report['phantom']}, duplicate {report['duplicate']}, "
          f"views right after {report.get('secondsToConverge')} s, moves {report['moves']}, reconnects {report['reconnects']} {extra}")
    return report["lost"] + report["stale"] + report["phantom"] + report["duplicate"] == 0 and report.get("secondsToConverge") is not None
