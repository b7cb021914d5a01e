#!/usr/bin/env -S python3 -B
"""lab/test/hostile.py [BINARY]: what a local user without rights can do to a capture, `doctor` and the agent of root: files that block, have
no end or lead elsewhere, and processes with forged names. Limits of the shell, too. Each may cost names, and nothing else.

In network and mount namespaces of its own. Ends with a line like that of cargo test. Needs root's rights, redis-server, redis-benchmark.
"""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from testing import OVERHEAD, Redis, check, finish, must, require_root, run, skip, wait_for  # noqa: E402

PORT = 25500
USER = 60_001
# Hangs before this. All that is tested here ends within a second or two, optimized or not.
PATIENCE = 20
FORGED = "mallorys-cache"
FIXTURE = pathlib.Path(__file__).resolve().parents[2] / "fixtures/redis-get-set"
# A process with the name of a server, which maps a library and puts something else at the library's path.
SERVER = """
import ctypes, os, socket, sys, time
path, kind = sys.argv[1:3]
ctypes.CDLL(path)
ctypes.CDLL(None).prctl(15, b"redis-server")
os.unlink(path)
os.mkfifo(path + " (deleted)") if kind == "fifo" else os.symlink("/dev/zero", path + " (deleted)")
listener = socket.create_server(("127.0.0.1", int(sys.argv[3])))
print("ready", flush=True)
time.sleep(600)
"""


def as_user(*words):
    return ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", *map(str, words)]


def ended(*words, **options):
    """Returns the status, None for a program that hangs, what it printed and said, and how long it took."""
    started = time.monotonic()
    process = subprocess.Popen([str(word) for word in (OVERHEAD, *words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, **options)
    try:
        printed, said = process.communicate(timeout=PATIENCE)
        status = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        printed, said = process.communicate()
        status = None
    return status, printed, said, time.monotonic() - started


def unharmed(name, lab, folder):
    """`doctor` and `capture` end in time, and name no process by a user's file."""
    status, printed, _, took = ended("doctor")
    check(f"{name}: doctor ends in time, after {took:.1f} s", status is not None)
    check(f"{name}: doctor names no process of root by a user's file", FORGED in printed, False)
    status, printed, _, took = ended("capture", "-i", "lo", "--db", "redis", "--port", PORT, "--duration", "200ms", "--format", "json", "-o",
                                     folder / name.replace(" ", "-"))
    check(f"{name}: capture ends in time, after {took:.1f} s", status is not None)
    check(f"{name}: capture names no process of root by a user's file", FORGED in printed, False)


def storage(home):
    """Makes an empty storage of podman at a home; returns it."""
    folder = home / ".local/share/containers/storage"
    folder.mkdir(parents=True)
    return folder


def give(folder):
    must("chown", "-R", "-h", f"{USER}:{USER}", folder)


def engine_files(lab, folder, server):
    """A FIFO, links to one long file, and forged records in a user's storage."""
    must("mount", "-t", "tmpfs", "home", "/home")
    lab.callback(run, ["umount", "/home"])
    home = pathlib.Path("/home/mallory")
    for number, name in enumerate(("a FIFO", "a link to dev-zero", "links to a long file", "a forged list")):
        shutil.rmtree(home, ignore_errors=True)
        place = storage(home)
        first = place / "overlay-containers"
        first.mkdir()
        target = first / "containers.json"
        if number == 0:
            os.mkfifo(target)
        elif number == 1:
            target.symlink_to("/dev/zero")
        elif number == 2:
            target.write_text(json.dumps([{"id": f"{entry:x}"} for entry in range(240_000)]))
            for copy in range(300):
                (place / f"{copy}-containers").mkdir()
                (place / f"{copy}-containers/containers.json").symlink_to(target)
        else:
            target.write_text(json.dumps([{"id": FORGED, "names": [FORGED]}]))
            running = pathlib.Path("/run/containers/storage/overlay-containers") / FORGED / "userdata"
            # As if a container of root had this id.
            running.mkdir(parents=True)
            lab.callback(shutil.rmtree, running.parent)
            (running / "pidfile").write_text(str(server.process.pid))
        give(home)
        unharmed(name, lab, folder)
    shutil.rmtree(home)


def daemon(lab, folder, server):
    """A user's process with the name of Docker's daemon leads to a record of root's process."""
    place = folder / "docker"
    container = place / "containers" / ("7" * 64)
    container.mkdir(parents=True)
    state = {"Running": True, "Pid": server.process.pid}
    (container / "config.v2.json").write_text(json.dumps({"ID": container.name, "Name": f"/{FORGED}", "State": state, "Config": {"Labels": {}}}))
    give(place)
    words = ["bash", "-c", f"exec -a dockerd python3 -c 'import time; time.sleep(600)' --data-root {place}"]
    process = subprocess.Popen(as_user(*words))
    lab.callback(process.kill)
    wait_for(lambda: pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"dockerd"), "the daemon")
    unharmed("a daemon of a user", lab, folder)
    process.kill()
    process.wait()


def libraries(lab, folder):
    """A FIFO or a device has the name of a library that was deleted."""
    found = sorted(pathlib.Path("/usr/lib").glob("*-linux-gnu/libssl.so.*"))
    if not found:
        return skip("libraries", "there is no libssl")
    for number, kind in enumerate(("fifo", "zero")):
        place = folder / kind
        place.mkdir()
        shutil.copy(found[-1], place / "libssl.so.3")
        give(place)
        words = as_user("python3", "-c", SERVER, place / "libssl.so.3", kind, PORT + 1 + number)
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        lab.callback(process.kill)
        process.stdout.readline()
        limit = (2 << 30, 2 << 30)
        status, printed, said, took = ended("doctor", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit))
        check(f"a {kind} at the path of a library: doctor ends in time, after {took:.1f} s", status in (0, 1, 3))
        check(f"a {kind} at the path of a library: the process is listed", f"127.0.0.1:{PORT + 1 + number}" in printed)
        process.kill()
        process.wait()


def endless(folder):
    """Files without an end, as key logs and statements."""
    capture = next(FIXTURE.glob("capture.pcap*"))
    settings = folder / "agent.toml"
    settings.write_text('statements-file = "/dev/zero"\n')
    live = ["capture", "-i", "lo", "--db", "redis", "--port", PORT, "--duration", "1s", "-o", folder / "endless"]
    for name, wanted, words in (("key log", "--keylog /dev/zero: it is longer than 512 MiB", ["analyze", "--keylog", "/dev/zero", capture]),
                                ("key log, live", "--keylog /dev/zero: it is longer than 512 MiB", [*live, "--keylog", "/dev/zero"]),
                                ("statements", "--statements /dev/zero: it is longer than 32 MiB", ["analyze", "--statements", "/dev/zero", capture]),
                                ("the agent's statements", "/dev/zero: it is longer than 32 MiB", ["agent", "--config", settings, "--dry-run"])):
        status, _, said, _ = ended(*words)
        check(f"{name} without an end: status", status in (1, 2))
        check(f"{name} without an end: one line", (wanted in said, said.count("\n")), (True, 1))


def limits(folder):
    """Limits of the shell on memory and on files: one line, and nothing is left."""
    for name, kind, most in (("ulimit -v", resource.RLIMIT_AS, 280_000 << 10), ("ulimit -v, less", resource.RLIMIT_AS, 340_000 << 10),
                             ("ulimit -f", resource.RLIMIT_FSIZE, 200 << 10)):
        place = folder / "limited"
        words = ["capture", "-i", "lo", "--db", "redis", "--port", PORT, "--duration", "100ms", "-o", place]
        status, _, said, _ = ended(*words, preexec_fn=lambda: resource.setrlimit(kind, (most, most)))
        check(f"{name}: status", status, 1)
        check(f"{name}: one line, without a bug", (said.count("\n"), "bug" in said, "panicked" in said), (1, False, False))
        check(f"{name}: nothing is left", place.exists(), False)
        shutil.rmtree(place, ignore_errors=True)


def slow_reader(folder, server):
    """A reader of `-w -` that stops until the ring overflows: the status has a reason."""
    words = [OVERHEAD, "capture", "-i", "lo", "--db", "redis", "--port", str(PORT), "-B", "1M", "-w", "-"]
    with open(folder / "slow.err", "w+") as errors:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        process.stdout.read(4)
        must("redis-benchmark", "-q", "-p", PORT, "-t", "get", "-n", 50_000, "-c", 4)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
    said = (folder / "slow.err").read_text()
    check("a slow reader: status", process.returncode, 3)
    check("a slow reader: the reason", "overhead: warning: the kernel dropped" in said)


def archive(lab, folder):
    """A user's folder as the agent's archive, with links that lead to a file of root."""
    victim, place, settings = folder / "victim", folder / "archive", folder / "archive.toml"
    victim.write_text("precious")
    place.mkdir()
    last = int(pathlib.Path("/proc/loadavg").read_text().split()[-1])
    for pid in range(last, last + 300):
        (place / f".overhead-agent-{pid}").symlink_to(victim)
    give(place)
    settings.write_text(f'[archive]\nfolder = "{place}"\n')
    status, _, said, _ = ended("agent", "--config", settings, "--duration", "1s")
    if "needs overhead-export" in said:
        return skip("archive", "overhead-export is missing")
    check("links in the archive: status", status, 0)
    check("links in the archive: the file of root is as it was", victim.read_text(), "precious")


require_root("redis-server", "redis-benchmark", "setpriv", namespaces=["--mount", "--net"])
must("ip", "link", "set", "lo", "up")
with contextlib.ExitStack() as lab, tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    folder.chmod(0o755)
    server = Redis(lab, folder, PORT)
    engine_files(lab, folder, server)
    daemon(lab, folder, server)
    libraries(lab, folder)
    endless(folder)
    limits(folder)
    slow_reader(folder, server)
    archive(lab, folder)
finish()
