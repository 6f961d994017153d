"""System clocks of nodes that a script sets, by a shim in C. They work with the release binary."""
import base64, json, mmap, os, shutil, struct, subprocess, time
from cluster import ROLLCALL, ROOT


class Clock:
    """The system clock of a node."""

    def __init__(self, shim, path):
        with open(path, "w+b") as file:
            file.write(bytes(mmap.PAGESIZE))
            file.flush()
            self.page = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        self.prefix = ["env", f"LD_PRELOAD={shim}", f"CLOCK_SHIM_FILE={path}"]

    def jump_to(self, seconds):
        struct.pack_into("<q", self.page, 0, seconds * 1_000)


def check_shim(clock):
    """Whether the binary's calls reach the shim: a token tells the time at which it was issued."""
    clock.jump_to(3_600)
    text = subprocess.run([*clock.prefix, ROLLCALL, "token", "--user", "x"], capture_output=True, text=True, check=True).stdout
    clock.jump_to(0)
    part = text.split(".")[1]
    ahead = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["iat"] - time.time()
    if not 3_590 < ahead < 3_610:
        raise SystemExit(f"the shim does not shift the clock of {ROLLCALL}: {ahead} s")


def give_clocks(cluster):
    """Gives each node of a cluster that has not started a clock of its own. Returns the clocks by the names of the nodes."""
    shim = f"{cluster.directory}/clock-shim.so"
    source = os.path.join(ROOT, "Tests", "Chaos", "clock-shim.c")
    subprocess.run([shutil.which("cc") or "clang", "-O2", "-shared", "-fPIC", "-o", shim, source], check=True)
    clocks = {node.name: Clock(shim, f"{cluster.directory}/{node.name}.clock") for node in cluster.nodes}
    for node in cluster.nodes:
        node.prefix = clocks[node.name].prefix
    check_shim(clocks[cluster.nodes[0].name])
    return clocks
