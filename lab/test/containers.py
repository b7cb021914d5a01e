#!/usr/bin/env -S python3 -B
"""lab/test/containers.py [--engines] [BINARY]: servers in containers, captured by name, against the servers' own counters.

Two network namespaces have a Redis on the same port, in control groups of their own, with the files that Docker and containerd (for
Kubernetes) keep of their containers: made by hand, in a mount and a network namespace of this test's own. Takes root's rights; seconds.

  --engines   the same with containers of real engines, as far as they are installed and run here: podman, Docker, runc

Ends with a line like that of cargo test.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import testing
from testing import OVERHEAD, REDIS, ask, check, connect, finish, must, network, payload, redis_counters, require_root, run, skip, wait_for, workload

ENGINES = "--engines" in sys.argv
PORT = 25001
SERVER = [*REDIS, "--bind", "0.0.0.0", "--port", str(PORT)]
RIGHTS = ["net_raw", "bpf", "perfmon", "sys_ptrace", "dac_read_search", "sys_admin"]


class Asking:
    """One connection to a Redis, on which it is asked for its own counters: they do not count as of the load."""

    def __init__(self, address):
        self.socket = connect((address, PORT))
        self.last = redis_counters(self.socket)

    def since(self):
        """What the server has done since the last question, without the two questions themselves."""
        before, self.last = self.last, redis_counters(self.socket)
        grown = {key: self.last[key] - count for key, count in before.items() if key.startswith("total_")}
        return {
            "get": self.last["calls"].get("get", 0) - before["calls"].get("get", 0),
            "in": grown["total_net_input_bytes"] - len("INFO everything\r\n"),
            "out": grown["total_net_output_bytes"] - before["length"],
            "reads": grown["total_reads_processed"] - 1,
            "writes": grown["total_writes_processed"] - 1,
        }

    def clients(self):
        """How many connections the server has."""
        return ask(self.socket, b"INFO clients\r\n", until=b"\r\n\r\n").partition(b"connected_clients:")[2].split()[0]


def capture(folder, *options, **more):
    return testing.capture(pathlib.Path(folder) / "run", *options, **more)


def load(address, requests):
    return f"redis-benchmark -h {address} -p {PORT} -q -t get -n {requests} -c 5"


def measured(name, asking, record, status, pids, container):
    """The record has what this server did, by its own account, and nothing of another one."""
    did = asking.since()
    check(f"{name}: complete", (status, record["exit"]), (0, 0))
    check(f"{name}: requests, as the server says", workload(record, "GET"), did["get"])
    check(f"{name}: bytes, as the server says", (payload(record, "request"), payload(record, "response")), (did["in"], did["out"]))
    server = record["counters"]["server"]
    if "unavailable" in server:
        return check(f"{name}: counters", server["unavailable"], "there")
    check(f"{name}: the server's processes alone", set(server["pids"]) <= set(pids) and bool(server["pids"]))
    moved = server["socket"]
    # A read that finds the end of a connection gives no bytes.
    calls = moved["recv_calls"] + record["tcp"]["connections"], moved["send_calls"]
    check(f"{name}: reads and writes, as the server says", calls, (did["reads"], did["writes"]))
    check(f"{name}: the sockets' bytes", (moved["recv_bytes"], moved["send_bytes"]), (did["in"], did["out"]))
    check(f"{name}: nothing of another server", (server["coverage"], server["captured_share"]), (1.0, 1.0))
    check(f"{name}: its name in the record", [it["name"] for it in server["containers"]], [container])


def pair(folder, label, places):
    """Two servers on the same port under load at the same time: each is captured by its name."""
    loads = [load(address, requests) for (_, _, address, _, _), requests in zip(places, (4000, 2500))]
    both = ["sh", "-c", f"{loads[0]} & {loads[1]}; wait"]
    asked = [Asking(address) for _, _, address, _, _ in places]
    for number, (name, container, _, pids, _) in enumerate(places):
        status, record, said = capture(folder, "--container", name, command=both)
        if record is None:
            check(f"{label} {name}: captured", said, "")
            continue
        measured(f"{label} {name}", asked[number], record, status, pids(), container)
        asked[1 - number].since()
        check(f"{label} {name}: its interface", (record["environment"]["interface"]["name"], record["environment"]["container"]["name"]),
              ("eth0", container))
    return asked


# ---------------------------------------------------------------------------------------------------------------------
# By hand


def groups():
    """A hierarchy of control groups in which groups can be made."""
    for place in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/pids"):
        folder = pathlib.Path(place) / f"overhead-test-{os.getpid()}"
        with contextlib.suppress(OSError):
            folder.mkdir()
            if (folder / "cgroup.procs").exists():
                return folder
            folder.rmdir()
    return None


class Hand:
    def __init__(self, folder, top):
        self.folder, self.top, self.processes, self.made = folder, top, [], [top]

    def start(self, namespace, group, *words):
        """A process in a namespace and in a group of this path."""
        path = self.top
        for part in group.split("/"):
            path = path / part
            if not path.exists():
                path.mkdir()
                self.made.append(path)
        script = f"echo $$ >{path}/cgroup.procs; exec \"$@\""
        log = open(self.folder / "log", "ab")
        process = subprocess.Popen(["nsenter", f"--net=/run/netns/{namespace}", "sh", "-c", script, "sh", *map(str, words)], stdin=subprocess.PIPE,
                                   stdout=log, stderr=log, cwd=self.folder)
        self.processes.append(process)
        return process

    def end(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
        for path in reversed(self.made):
            path.rmdir()


def identity(digit):
    return digit * 12 + "0" * 52


def docker(container, name, pid):
    """As Docker 20.10 leaves it, cut down to what is read."""
    folder = pathlib.Path("/var/lib/docker/containers") / container
    folder.mkdir(parents=True)
    state = {"Running": True, "Paused": False, "Pid": pid, "ExitCode": 0}
    (folder / "config.v2.json").write_text(json.dumps({"ID": container, "Name": f"/{name}", "State": state, "Config": {"Labels": {}}}))


def containerd(container, kind, name, pod, pid):
    """As containerd's plugin for Kubernetes leaves it."""
    folder = pathlib.Path("/run/containerd/io.containerd.runtime.v2.task/k8s.io") / container
    folder.mkdir(parents=True)
    cri = "io.kubernetes.cri"
    notes = {f"{cri}.container-type": kind, f"{cri}.sandbox-name": pod, f"{cri}.sandbox-namespace": "shop"}
    if kind == "container":
        notes[f"{cri}.container-name"] = name
    (folder / "config.json").write_text(json.dumps({"ociVersion": "1.0.2", "annotations": notes}))
    (folder / "init.pid").write_text(str(pid))


def podman(container, name):
    folder = pathlib.Path("/var/lib/containers/storage/overlay-containers")
    folder.mkdir(parents=True)
    (folder / "containers.json").write_text(json.dumps([{"id": container, "names": [name], "metadata": json.dumps({"name": name})}]))


def by_hand(folder):
    top = groups()
    if top is None:
        return skip("by hand", "no control group can be made here")
    for place in ("/run", "/var/lib"):
        must("mount", "-t", "tmpfs", "-o", "mode=755", "overhead-test", place)
    must("ip", "link", "set", "lo", "up")
    lab = Hand(folder, top)
    try:
        for number, name in enumerate(("one", "two", "three"), 1):
            network(name, f"veth{number}", f"10.251.{number}")
        one = lab.start("one", f"docker/{identity('a')}", *SERVER)
        sandbox = lab.start("two", f"kubepods/burstable/pod7c3e-11/{identity('5')}", "sleep", 600)
        two = lab.start("two", f"kubepods/burstable/pod7c3e-11/{identity('b')}", *SERVER)
        three = lab.start("three", f"libpod_parent/libpod-{identity('c')}", "sh", "-c", f"while read line; do {load('10.251.1.2', 3000)}; done")
        docker(identity("a"), "cache", one.pid)
        containerd(identity("5"), "sandbox", "", "basket-0", sandbox.pid)
        containerd(identity("b"), "container", "redis", "basket-0", two.pid)
        podman(identity("c"), "shop-app")
        must("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
        places = [("cache", "cache", "10.251.1.2", lambda: [one.pid], "docker"),
                  ("shop/basket-0/redis", "redis", "10.251.2.2", lambda: [two.pid], "containerd")]
        asked = pair(folder, "by hand", places)
        names(folder)
        loopback(folder, asked[0], one)
        screen(asked[0])
        without(folder, asked[0], one)
        client(folder, asked[0], one, three)
        doctor(folder)
        rights(folder)
    finally:
        lab.end()


def names(folder):
    one = ["redis-benchmark", "-h", "10.251.2.2", "-p", str(PORT), "-q", "-t", "get", "-n", "100"]
    for name in ("basket-0", "shop/basket-0", "basket-0/redis", identity("b")[:6], "redis"):
        status, record, said = capture(folder, "--container", name, "--no-bpf", command=one)
        found = record and (workload(record, "GET"), record["environment"]["container"])
        wanted = {"name": "redis", "id": identity("b")[:12], "engine": "containerd", "pod": "basket-0", "namespace": "shop"}
        check(f"the name {name}", found, (100, wanted))
        check(f"the name {name}: in the table", "eth0 of container shop/basket-0/redis" in said)
    status, record, said = capture(folder, "--container", "nobody")
    check("no such name: fails, and says which there are", (status, record, "cache (docker aaaaaaaaaaaa)" in said
          and "shop/basket-0/redis (containerd bbbbbbbbbbbb)" in said and "shop-app (podman cccccccccccc)" in said), (1, None, True))
    check("no such name: one line", len(said.strip().splitlines()), 1)
    done = run([OVERHEAD, "capture", "-D", "--container", "cache"])
    check("-D: the interfaces of the container", ("10.251.1.2" in done.stdout, "10.251.1.1" in done.stdout), (True, False))
    status, record, said = capture(folder, "--container", "cache", "-i", "eth7", command=["true"])
    check("no such interface there: named with those there are", (status, "choose one of" in said and "veth1" not in said), (1, True))


def loopback(folder, asking, server):
    """The same connection on the loopback of two namespaces."""
    asking.since()
    words = load("127.0.0.1", 2000)
    both = ["sh", "-c", f"ip netns exec two {words} & ip netns exec one {words}; wait"]
    status, record, _ = capture(folder, "--container", "cache", "-i", "lo", command=both)
    measured("on loopback", asking, record, status, [server.pid], "cache")


def screen(asking):
    requests, clients = "-q -t get -n 1000000 -c 5".split(), asking.clients()
    loads = [subprocess.Popen(["redis-benchmark", "-h", address, "-p", str(PORT), *requests], stdout=subprocess.DEVNULL)
             for address in ("10.251.1.2", "10.251.2.2")]
    try:
        done = run([OVERHEAD, "top", "--container", "cache", "--by", "server", "--once", "--interval", "500ms"])
    finally:
        for process in loads:
            process.kill()
            process.wait()
    # The server still answers the last requests of the clients that were killed.
    wait_for(lambda: asking.clients() == clients, "the end of the connections")
    asking.since()
    check("top: the container in the title", "eth0 of container cache" in done.stdout)
    check("top: its server, and no other's", (f"10.251.1.2:{PORT}" in done.stdout, "10.251.2.2" in done.stdout), (True, False))


def without(folder, asking, server):
    """A capture on this end of the cable names the container as well."""
    status, record, _ = capture(folder, "-i", "veth1", "--db", "redis", "--port", PORT, command=load("10.251.1.2", 1000).split())
    measured("without --container", asking, record, status, [server.pid], "cache")
    text = (folder / "run/report.md").read_text()
    check("without --container: named in the report", "server in container cache (docker aaaaaaaaaaaa)" in text)
    again = run([OVERHEAD, "analyze", folder / "run"])
    check("without --container: read again", again.returncode, 0)


def client(folder, asking, server, three):
    asking.since()
    process = subprocess.Popen([OVERHEAD, "capture", "--container", "shop-app", "--port", str(PORT), "--db", "redis", "-o", folder / "run",
                                "--force", "--format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
    line = process.stderr.readline()
    check("a client's container: announced", "capturing on eth0 of container shop-app" in line, True)
    three.stdin.write(b"go\n")
    three.stdin.flush()
    time.sleep(3)
    process.send_signal(2)
    process.communicate()
    record = json.loads((folder / "run/run.json").read_text())
    measured("a client's container", asking, record, process.returncode, [server.pid], "cache")
    role = record["counters"]["client"]
    check("a client's container: its name", [it["name"] for it in role.get("containers", [])], ["shop-app"])
    check("a client's container: the sockets' bytes", role["socket"]["send_bytes"], payload(record, "request"))


def doctor(folder):
    done = run([OVERHEAD, "doctor"])
    text = done.stdout.split("Databases that listen here", 1)[-1]
    check("doctor: in 80 columns", [line for line in text.splitlines() if len(line) > 80], [])
    for words in ("in container cache (docker aaaaaaaaaaaa)", "in container shop/basket-0/redis (containerd", f"0.0.0.0:{PORT}", "on eth0 of the container's network namespace"):
        check(f"doctor: {words}", words in " ".join(text.split()))
    commands = re.findall(rf"^ +(?:sudo )?(overhead capture --container .* --port {PORT})$", text, re.MULTILINE)
    check("doctor: a command for each", len(commands), 2)
    for command, address in zip(commands, ("10.251.1.2", "10.251.2.2")):
        status, record, _ = capture(folder, *command.split()[2:], command=load(address, 200).split())
        check(f"doctor: {command}", (status, workload(record, "GET")), (0, 200))


def rights(folder):
    if not shutil.which("setpriv"):
        return skip("rights", "no setpriv")
    for missing, wanted in ((None, None), ("sys_admin", "cap_sys_admin"), ("sys_ptrace", "cap_sys_ptrace"), ("net_raw", "cap_net_raw")):
        left = ",".join(f"+{right}" for right in RIGHTS if right != missing)
        prefix = ["setpriv", "--bounding-set", f"-all,{left}", "--inh-caps", f"-all,{left}", "--"]
        command = load("10.251.1.2", 100).split()
        status, record, said = capture(folder, "--container", "cache", command=command, prefix=prefix)
        if missing is None:
            check("rights: these six are enough", (status, record and "syscalls" in record["counters"]["server"]), (0, True))
        else:
            check(f"rights: without {wanted} it says so", (status, wanted in said), (1, True))
    if not shutil.which("setcap"):
        return skip("rights of another user", "no setcap (package libcap2-bin)")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        os.chmod(place, 0o777)
        mine = shutil.copy(OVERHEAD, place)
        if run(["setcap", ",".join(f"cap_{right}" for right in RIGHTS) + "=ep", mine]).returncode:
            return skip("rights of another user", "this file system keeps no capabilities")
        other = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
        command = load("10.251.1.2", 100).split()
        status, record, said = capture(place, "--container", "cache", command=command, prefix=other, program=mine)
        check("another user: container by name", (status, record and record["environment"]["container"]["name"]), (0, "cache"))
        check("another user: counters of the server", bool(record and "syscalls" in record["counters"]["server"]))


# ---------------------------------------------------------------------------------------------------------------------
# Engines


def image(folder):
    """The root of a container: Redis, and the libraries that it needs."""
    root = folder / "root"
    for program in ("redis-server", "sleep"):
        path = pathlib.Path(os.path.realpath(shutil.which(program)))
        files = [path, *re.findall(r"(/[^ ]+)", must("ldd", path))]
        for file in map(pathlib.Path, files):
            place = root / ("bin" if file == path else str(file.parent).lstrip("/"))
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(file), place / (program if file == path else file.name))
    for name in ("proc", "sys", "dev", "tmp", "etc"):
        (root / name).mkdir(exist_ok=True)
    must("tar", "-C", root, "-cf", folder / "root.tar", ".")
    return folder / "root.tar"


# Servers ask for 1,024 files here: in some virtual machines nobody may have more than there are already.
LIMITS = ["--ulimit", "nofile=1024:1024"]


def engine(folder, name, words, tar):
    made = [f"overhead-test-{name}-{number}" for number in "12"]
    tag = "localhost/overhead-test:redis" if name == "podman" else "overhead-test:redis"
    done = run([*words, "import", tar, tag])
    if done.returncode:
        return skip(name, done.stderr.strip().splitlines()[-1] if done.stderr else "it does not import an image")
    try:
        for container in made:
            more = [*LIMITS, "--ulimit", "nproc=1024:1024"] if name == "podman" else LIMITS
            started = run([*words, "run", "-d", "--name", container, *more, tag, "/bin/redis-server", *SERVER[1:]])
            if started.returncode:
                return skip(name, started.stderr.strip().splitlines()[-1])
        inspect = lambda container, what: must(*words, "inspect", "-f", what, container).strip()
        address = lambda container: inspect(container, "{{.NetworkSettings.IPAddress}}")
        pid = lambda container: int(inspect(container, "{{.State.Pid}}"))
        places = [(container, container, address(container), lambda container=container: [pid(container)], name) for container in made]
        pair(folder, name, places)
        number = inspect(made[1], "{{.Id}}")
        status, record, _ = capture(folder, "--container", number[:8], "--no-bpf", command=load(places[1][2], 100).split())
        found = record["environment"]["container"]
        check(f"{name}: by its id", (status, found), (0, {"name": made[1], "id": number[:12], "engine": name}))
        said = run([OVERHEAD, "doctor"]).stdout
        check(f"{name}: doctor", [f"--container {container} --db redis --port {PORT}" in said for container in made], [True, True])
    finally:
        run([*words, "rm", "-f", *made])
        run([*words, "rmi", tag])


def engines(folder):
    tar = image(folder)
    if shutil.which("podman"):
        runtime = ["--runtime", "runc"] if shutil.which("runc") else []
        engine(folder, "podman", ["podman", *runtime], tar)
    else:
        skip("podman", "it is not installed")
    if shutil.which("docker") and run(["docker", "info"]).returncode == 0:
        engine(folder, "docker", ["docker"], tar)
    else:
        skip("docker", "no daemon answers")
    if shutil.which("runc"):
        low_level(folder)
    else:
        skip("runc", "it is not installed")


def low_level(folder):
    """A bundle that runc runs without an engine."""
    bundle = folder / "bundle"
    bundle.mkdir()
    must("runc", "spec", cwd=bundle)
    spec = json.loads((bundle / "config.json").read_text())
    spec["root"] = {"path": str(folder / "root"), "readonly": True}
    spec["process"].update(terminal=False, args=["/bin/redis-server", *SERVER[1:]], cwd="/tmp", rlimits=[])
    spec["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"})
    (bundle / "config.json").write_text(json.dumps(spec))
    name = f"overhead-test-{os.getpid()}"
    log = open(folder / "runc.log", "wb")
    process = subprocess.Popen(["runc", "run", name], cwd=bundle, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    time.sleep(1)
    if process.poll() is not None:
        return skip("runc", (folder / "runc.log").read_text().strip().splitlines()[-1])
    try:
        pid = json.loads(must("runc", "state", name))["pid"]
        # It has a network namespace without any cable: all it has is loopback.
        inside = ["nsenter", "-t", str(pid), "-n"]
        must(*inside, "ip", "link", "set", "lo", "up")
        command = [*inside, *load("127.0.0.1", 500).split()]
        status, record, said = capture(folder, "--container", name, command=command)
        found = record and (status, workload(record, "GET"), record["counters"]["server"]["pids"], record["environment"]["container"])
        check("runc: captured by its name", found, (0, 500, [pid], {"name": name, "id": name, "engine": "runc"}))
    finally:
        run(["runc", "kill", name, "KILL"])
        process.wait()
        run(["runc", "delete", name])


def main():
    require_root("redis-server", "redis-benchmark", "ip", "unshare", namespaces=[] if ENGINES else ["--mount", "--net"])
    with tempfile.TemporaryDirectory(prefix="overhead-containers-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        (engines if ENGINES else by_hand)(pathlib.Path(folder))
    finish()


main()
