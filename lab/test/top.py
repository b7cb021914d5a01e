#!/usr/bin/env -S python3 -B
"""lab/test/top.py [BINARY]: the screen of `overhead top` in a terminal of 80x24, live under load and out of a capture: what it shows,
what keys do, and that the terminal is as before in the end, however it ends.

Starts a server of its own on port 21611, and ends with a line like that of cargo test. Live parts need root's rights.
"""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
from testing import OVERHEAD, ROOT, Redis, check, connect, finish, skip

PORT = int(os.environ.get("OVERHEAD_TOP_PORT", "21611"))
FIXTURE = ROOT / "fixtures/redis-get-set/capture.pcap"
ESCAPES = re.compile(rb"\x1b(\[[0-9;?]*[A-Za-z]|[()][A-Z0-9]|[=>78])")
COLOURS = re.compile(rb"\x1b\[[0-9;]*(3[0-7]|38;[0-9;]+|9[0-7])m")


class Terminal:
    def __init__(self, *words, rows=24, columns=80, **environment):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        keep = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [OVERHEAD, "top", *[str(word) for word in words]], stdin=self.slave, stdout=self.slave, stderr=self.slave,
            env={**keep, "TERM": "xterm-256color", **environment}, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.output = b""

    def resize(self, rows, columns):
        self.size = (rows, columns)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        """Takes in what comes for so long; returns the text of it."""
        begun, start = time.monotonic(), len(self.output)
        while (left := begun + seconds - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                self.output += os.read(self.master, 65536)
        return self.text(start)

    def wait_for(self, word, seconds=10):
        deadline = time.monotonic() + seconds
        while word not in self.text() and time.monotonic() < deadline and self.process.poll() is None:
            self.read(0.05)
        return word in self.text()

    def text(self, start=0):
        return ESCAPES.sub(b" ", self.output[start:]).decode(errors="replace")

    def press(self, keys, seconds=0.5):
        os.write(self.master, keys.encode())
        return self.read(seconds)

    def shows(self, word, seconds=10):
        """Whether the whole screen, which is drawn anew where the terminal has another size, comes to have a word on it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            rows, columns = self.size
            self.resize(49 - rows, columns)
            if word in self.read(0.5):
                return True
        return False

    def hang_up(self):
        """Takes the terminal away, with no signal that could be of help: as a lost connection does. Returns its status; None where it does not end."""
        os.close(self.master)
        os.close(self.slave)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        return self.process.returncode

    def end(self, how=None):
        """Ends it by a key or a signal; returns its status."""
        if isinstance(how, str):
            os.write(self.master, how.encode())
        elif how is not None:
            self.process.send_signal(how)
        deadline = time.monotonic() + 10
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read(0.05)
        if self.process.poll() is None:
            self.process.kill()
        status = self.process.wait()
        self.read(0.05)
        return status

    def is_restored(self):
        """The screen of before is back, the cursor is there, and the terminal is as it was."""
        left, came = self.output.rfind(b"\x1b[?1049l"), self.output.rfind(b"\x1b[?1049h")
        return left > came >= 0 and b"\x1b[?25h" in self.output[came:] and termios.tcgetattr(self.slave) == self.before

    def holds_back(self, wanted):
        """Whether every thread holds a signal back."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/status")
        masks = [int(re.search(r"^SigBlk:\s*(\w+)", task.read_text(), re.M)[1], 16) for task in tasks]
        return bool(masks) and all(mask >> wanted - 1 & 1 for mask in masks)


def replay_tests():
    terminal = Terminal(FIXTURE, "--db", "redis", "--port", "7379", "--speed", "1000", "--interval", "200ms")
    check("replay: it comes to its end", terminal.wait_for("ended"))
    for word in ("operations", "GET", "SET", "p99", "q end"):
        check(f"replay: it shows {word}", word in terminal.text())
    terminal.press("t")
    check("replay: help", "order by bytes" in terminal.press("?"))
    terminal.press("\x1b", 0.3)
    check("replay: a text to be found", "without 'set'" in terminal.press("/set\r"))
    # Keys are lost where the signal of another size comes together with them.
    check("replay: no thread takes the signal of another size", terminal.holds_back(signal.SIGWINCH))
    check("replay: a small terminal", (terminal.resize(8, 40), "GET" in terminal.press("\x1b", 0.5))[1])
    check("replay: q ends it", (terminal.end("q"), terminal.is_restored()), (0, True))

    coloured = COLOURS.search(terminal.output) is not None
    terminal = Terminal(FIXTURE, "--db", "redis", "--port", "7379", "--speed", "1000", "--interval", "200ms", NO_COLOR="1")
    terminal.wait_for("ended")
    terminal.press("?")
    check("NO_COLOR: no colours, and colours without it", (COLOURS.search(terminal.output), coloured), (None, True))
    check("SIGTERM: the terminal is as before", (terminal.end(signal.SIGTERM), terminal.is_restored()), (0, True))
    for name, how in (("SIGINT", signal.SIGINT), ("SIGHUP", signal.SIGHUP), ("Ctrl-C", "\x03")):
        terminal = Terminal(FIXTURE, "--speed", "1000")
        terminal.wait_for("ended")
        check(f"{name}: the terminal is as before", (terminal.end(how), terminal.is_restored()), (0, True))

    paused = Terminal(FIXTURE, "--db", "redis", "--port", "7379", "--speed", "0.01", "--interval", "100ms")
    paused.wait_for("op")
    check("held: the screen says so", "held" in paused.press("p"))
    check("held: nothing comes meanwhile", paused.read(0.5).strip(), "")
    paused.end("q")

    # The status is that of what was read so far, which may be nothing before the first operation.
    gone = Terminal(FIXTURE, "--speed", "0.01")
    gone.wait_for("GET")
    check("a terminal that is gone ends it", gone.hang_up(), 0)

    missing = Terminal("/no/such/file.pcap")
    missing.read(0.5)
    check("a file that is not there is named before there is a screen", (missing.end(), b"1049h" in missing.output, "/no/such/file.pcap" in missing.text()), (1, False, True))


def once_tests():
    done = subprocess.run([OVERHEAD, "top", FIXTURE, "--once"], capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"})
    rows = [line for line in done.stdout.splitlines() if re.match(r" (GET|SET)\b", line)]
    check("once: plain text of a capture", (done.returncode, "\x1b" in done.stdout, len(rows)), (0, False, 2))


def work(over):
    """Asks the server some thousand times a second, until it is over."""
    requests = [b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n"]
    with socket.create_connection(("127.0.0.1", PORT)) as client:
        while not over.is_set():
            for request in requests:
                client.sendall(request)
                client.recv(100)
            time.sleep(0.0005)


def live_tests(folder, ends):
    client = connect(Redis(ends, folder, PORT).address)
    over = threading.Event()
    load = threading.Thread(target=work, args=(over,))
    load.start()
    ends.callback(lambda: (over.set(), load.join()))
    here = ["-i", "lo", "--db", "redis", "--port", PORT, "--interval", "300ms", "-B", "64M"]
    terminal = Terminal(*here)
    check("live: operations are there", terminal.wait_for("GET"))
    terminal.read(0.7)
    check("live: no thread takes the signal of another size", terminal.holds_back(signal.SIGWINCH))
    # A name that would change the title of the terminal.
    for _ in range(10):
        client.sendall(b"*3\r\n$3\r\nSET\r\n$20\r\n\x1b]0;pwned\x07\x1b[31mhello\r\n$1\r\nx\r\n")
        client.recv(100)
    for name in ("statements", "connections", "clients", "servers", "operations"):
        terminal.press("g", 0.7)
        check(f"live: rows are {name}", terminal.shows(f" {name} "))
    check("live: no name steers the terminal", b"\x1b]" in terminal.output, False)
    check("live: q ends it", (terminal.end("q"), terminal.is_restored()), (0, True))
    # Long enough for an operation on a busy machine.
    words = ["2s" if word == "300ms" else str(word) for word in here]
    done = subprocess.run([OVERHEAD, "top", *words, "--once", "--by", "client"], capture_output=True, text=True)
    check("live: once", (done.returncode, " 127.0.0.1 " in done.stdout), (0, True))


def main():
    try:
        pty.openpty()
    except OSError:
        skip("all", "this machine has no /dev/pts")
        finish()
    replay_tests()
    once_tests()
    if os.geteuid() != 0 or not shutil.which("redis-server"):
        skip("live", "captures need root's rights, and redis-server")
    else:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
            live_tests(folder, ends)
    finish()


main()
