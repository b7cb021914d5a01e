#!/usr/bin/env python3
"""lab/lib/guest.py x86_64|aarch64 KERNEL INITRAMFS LOG: boots a kernel under qemu and waits for its end.

The guest is emulated, with one CPU and no network. Its console goes to LOG, each line with the seconds since the start; lines that
begin with "@@" are for lab/test/kernels and are printed, too. Ends with 0 when the guest has said "@@ over" and powered off, with 1
when it has not, and with 75 when it hangs where the kernel patches its own code, as emulated guests now and then do: start it again.

Such a guest is silent, and its CPU goes round in `asm_exc_int3`, the handler of the breakpoint that the kernel puts where it
patches. The guest names the addresses ("@@ patching ADDRESS NAME"). A guest that is silent before its init counts as well: it
can name nothing yet.
"""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

SAMPLES = 40  # of the program counters of a silent guest
BETWEEN = 0.05  # seconds
SILENT, GIVE_UP = 30, 120  # seconds of the emulator's CPU time without a word: the guest is looked at, and ended
MEMORY = "1024"  # MiB
CLOCK = "shift=3,sleep=off"  # an instruction takes 2^shift ns
HANDLER_BYTES = 0x100  # what is looked at from the beginning of a function that the guest has named
HANGS = 75  # EX_TEMPFAIL of sysexits.h

# The emulator's cmpxchg16b, where it emulates one CPU at a time, now and then leaves wrong flags behind: qemu 7.2.
MACHINES = {
    "x86_64": ["qemu-system-x86_64", "-machine", "q35", "-cpu", "max,cx16=off"],
    "aarch64": ["qemu-system-aarch64", "-machine", "virt", "-cpu", "max,pauth-impdef=on"],
}
CONSOLES = {"x86_64": "ttyS0", "aarch64": "ttyAMA0"}
KERNEL = re.compile(r"\[ *\d+\.\d{6}\] ")
COUNTER = re.compile(r"\b[RP](?:IP|C)=\s*([0-9a-f]{16})")


class Monitor:
    """The machine protocol of qemu, as far as it is needed here."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(path)
        self.lines = self.socket.makefile()
        self.lines.readline()
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        """The answer to a command; events that come before it are of no interest."""
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while line := self.lines.readline():
            answer = json.loads(line)
            if "event" not in answer:
                return answer.get("return")
        raise OSError("qemu has closed its monitor")

    def counters(self):
        text = self.ask("human-monitor-command", **{"command-line": "info registers -a"})
        return [int(value, 16) for value in COUNTER.findall(text)]


class Guest:
    def __init__(self, machine, kernel, initramfs, log):
        self.started = time.monotonic()
        self.log = open(log, "w", encoding="utf-8", buffering=1)
        self.handlers = []
        self.reached_init = self.over = False
        self.folder = tempfile.TemporaryDirectory(prefix="overhead-guest.")
        self.monitor_path = os.path.join(self.folder.name, "qmp")
        command = MACHINES[machine] + [
            *("-accel", "tcg", "-icount", CLOCK, "-smp", "1", "-m", MEMORY, "-kernel", kernel, "-initrd", initramfs),
            *("-append", f"console={CONSOLES[machine]} quiet panic=-1 rdinit=/init"),
            *("-display", "none", "-serial", "stdio", "-nic", "none", "-no-reboot", "-nodefaults", "-no-user-config"),
            *("-qmp", f"unix:{self.monitor_path},server=on,wait=off"),
        ]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.rest = b""
        self.heard = 0

    def seconds(self):
        return time.monotonic() - self.started

    def worked(self):
        """Seconds of CPU time that the emulator has used: on a busy host, the guest's silence is measured by these."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            user, system = file.read().rsplit(")", 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def listen(self):
        """Waits up to a second for words of the guest; false when there will be no more."""
        if not select.select([self.process.stdout], [], [], 1)[0]:
            return True
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        if not data:
            return False
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self.take(line.decode(errors="replace").rstrip("\r"))
        return True

    def take(self, line):
        self.log.write(f"{self.seconds():8.2f} {line}\n")
        # The kernel's own words may go on where nothing else does: "soft lockup".
        if not KERNEL.search(line):
            self.heard = self.worked()
        if not line.startswith("@@ "):
            return
        self.reached_init = True
        match line.split()[1:]:
            case ["patching", address, _]:
                self.handlers.append(int(address, 16))
                return
            case ["over"]:
                self.over = True
        print(f"{self.seconds():.2f} {line}", flush=True)

    def patches(self):
        """True for a silent guest whose CPUs do nothing but handle the breakpoints of code that is being patched."""
        if not self.reached_init:
            return True
        monitor = Monitor(self.monitor_path)
        for _ in range(SAMPLES):
            counters = monitor.counters()
            self.log.write(f"{self.seconds():8.2f} silent, at {' '.join(f'{at:#x}' for at in counters)}\n")
            if any(start <= at < start + HANDLER_BYTES for at in counters for start in self.handlers):
                return True
            time.sleep(BETWEEN)
        return False

    def end(self):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


def main():
    guest = Guest(*sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        looked = False
        while guest.listen():
            silent = guest.worked() - guest.heard
            if silent < SILENT:
                looked = False
            elif silent > GIVE_UP:
                print(f"{guest.seconds():.2f} @@ silent for {silent:.0f} s of CPU time, and not because it patches its code", flush=True)
                return 1
            elif not looked:
                looked = True
                if guest.patches():
                    where = "where it patches its code" if guest.reached_init else "before its init"
                    print(f"{guest.seconds():.2f} @@ hangs {where}", flush=True)
                    return HANGS
        return 0 if guest.process.wait() == 0 and guest.over else 1
    finally:
        guest.end()


sys.exit(main())
