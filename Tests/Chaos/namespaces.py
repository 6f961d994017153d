"""Nodes in network namespaces of their own, for scripts that cut the links between nodes. Clients reach each node all the time.

Needs root, iproute2 and /dev/net/tun. While a `Network` is open, this process and what it starts are in the namespace of the clients."""
import ctypes, os, shutil, subprocess, sys, tempfile
from cluster import ROLLCALL, Node, until
from wire import Wire

SECRET = "a secret of the test, 32 bytes or so"
CLONE_NEWNET = 0x40000000


def sh(command):
    subprocess.run(command, shell=True, check=True)


def obstacle():
    """Why this process cannot make namespaces; nothing if it can."""
    if os.geteuid() != 0:
        return "only root can make namespaces"
    if not shutil.which("ip"):
        return "no iproute2"
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        return str(error)
    return subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True).stderr.strip()


class Place(Node):
    """A node in the namespace of a place. Places count from 1."""

    def __init__(self, network, place):
        self.network, self.place, self.name, self.process = network, place, f"n{place}", None
        self.host, self.client, self.link, self.ops = f"10.77.0.{place}", 7600, 7601, 7602
        self.log = f"{network.directory}/{place}.log"

    def start(self, name=None, contact=1, **settings):
        """`contact`: the place of the node that this one joins through."""
        self.name = name or self.name
        environment = dict(
            os.environ, ROLLCALL_APPS="default", ROLLCALL_JWT_DEFAULT_HS256=SECRET, ROLLCALL_CLUSTER_SECRET=SECRET, **settings)
        self.process = self.network.inside(
            self.network.spaces[self.place - 1], ROLLCALL, "serve", "--node-id", self.name,
            "--data-dir", f"{self.network.directory}/{self.place}", "--loops", "1", "--listen", f"{self.host}:{self.client}",
            "--ops-listen", f"{self.host}:{self.ops}", "--cluster-listen", f"10.78.0.{self.place}:{self.link}",
            "--join", f"10.78.0.{contact}:{self.link}", env=environment, stdout=subprocess.DEVNULL, stderr=open(self.log, "a"))
        return self


class Network:
    """`name` begins the names of its namespaces. This process's ID follows, so that two scripts may run at once."""

    def __init__(self, name, count):
        self.directory = tempfile.mkdtemp(prefix=f"rollcall-{name}-")
        name = f"{name}-{os.getpid()}"
        self.hub, self.spaces = f"{name}-hub", [f"{name}-{place}" for place in range(1, count + 1)]
        self.nodes, self.processes, self.wire = [Place(self, place) for place in range(1, count + 1)], [], None
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY)

    def __enter__(self):
        try:
            hub = self.hub
            sh(f"ip netns add {hub}; ip -n {hub} link set lo up; ip -n {hub} link add clients type bridge; "
               f"ip -n {hub} link set clients up; ip -n {hub} addr add 10.77.0.100/24 dev clients")
            for place, space in enumerate(self.spaces, 1):
                port = f"cli{place}"
                sh(f"ip netns add {space}; ip -n {space} link set lo up; "
                   f"ip -n {hub} link add {port} type veth peer name clients netns {space}; ip -n {hub} link set {port} master clients up; "
                   f"ip -n {space} link set clients up; ip -n {space} addr add 10.77.0.{place}/24 dev clients")
            self.wire = Wire(self.spaces)
            with open(f"/run/netns/{hub}") as entry:
                move_to(entry.fileno())
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, kind, *_):
        for process in self.processes:
            process.kill()
            process.wait()
        if self.wire:
            self.wire.close()
        move_to(self.home)
        os.close(self.home)
        for space in [self.hub, *self.spaces]:
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL)
        if kind is None:
            shutil.rmtree(self.directory, ignore_errors=True)
        else:
            print(f"logs are in {self.directory}", file=sys.stderr)

    def inside(self, space, *command, **options):
        self.processes.append(subprocess.Popen(["ip", "netns", "exec", space, *command], **options))
        return self.processes[-1]

    def members(self):
        return [int(node.members()) for node in self.nodes]

    def start(self, **settings):
        """Starts all nodes, and waits until all are members."""
        for node in self.nodes:
            node.start(**settings)
        until(f"{len(self.nodes)} members", lambda: self.members() == [len(self.nodes)] * len(self.nodes))

    def cut(self, place):
        """Cuts a node off from all others. `self.wire.set()` heals."""
        others = [node.place for node in self.nodes if node.place != place]
        self.wire.set(drop=[pair for other in others for pair in ((place, other), (other, place))])


def move_to(namespace):
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
