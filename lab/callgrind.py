"""Instructions that a program executes, as callgrind counts them."""

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path


def instructions(command):
    """Returns how many instructions the command executes."""
    done = callgrind(command, "--callgrind-out-file=/dev/null")
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def by_thread(command):
    """Returns how many instructions each thread of the command executes, in the order in which they were started."""
    with tempfile.TemporaryDirectory(prefix="callgrind.") as work:
        callgrind(command, f"--callgrind-out-file={work}/out", "--separate-threads=yes")
        return [int(re.search(r"^totals: (\d+)", path.read_text(), re.MULTILINE).group(1))
                for path in sorted(Path(work).glob("out-*"))]


def callgrind(command, *options):
    """Runs the command under valgrind."""
    done = subprocess.run(["valgrind", "--tool=callgrind", *options, *map(str, command)],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    # Valgrind takes the kernel's vDSO out of the process, and rustix looks for it where our own CPU time is asked for: once,
    # when all frames are dissected. The program ends there; what was counted until then is what is asked for here.
    if done.returncode != 0 and "rustix::backend::vdso" not in done.stderr:
        raise RuntimeError(f"{command} failed under valgrind:\n{done.stderr}")
    return done


def per_frame(binary, capture, *options):
    """Returns the instructions per frame of the binary, which has these options of `analyze`, or of tcpdump's copy where there is
    none, without start and end."""
    def count(frames):
        if binary is None:
            return instructions(["tcpdump", "-r", capture.path, "-c", str(frames), "-w", "/dev/null"])
        return instructions(capture.analyze(binary, "-c", str(frames), *options))
    return (count(capture.counted) - count(1)) / (capture.counted - 1)


@dataclass(frozen=True)
class Division:
    """What several threads execute for a frame: the one that reads, counts and divides, and of two that dissect the one with the most to do, and
    both together."""

    reads: float
    most: float
    both: float

    def at_best(self, alone):
        """Returns how many times as quick as one, which executes `alone`, two dissecting threads can be on two processors."""
        return alone / max(self.reads, self.most, (self.reads + self.both) / 2)


def division(binary, capture):
    """Returns how the instructions for a frame are divided among threads."""
    whole, start = (by_thread(capture.analyze(binary, "-c", str(frames), threads=2)) for frames in (capture.counted, 1))
    reads, *dissect = ((one - other) / (capture.counted - 1) for one, other in zip(whole, start))
    return Division(reads, max(dissect), sum(dissect))
