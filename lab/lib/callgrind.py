"""Instructions that a program executes, as callgrind counts them."""

import re
import subprocess


def instructions(command, statuses=(0,), seconds=None):
    """Returns how many instructions the command executes, which ends with one of these statuses, within so many seconds."""
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *map(str, command)], timeout=seconds,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
    # Valgrind takes the kernel's vDSO out of the process, and rustix looks for it where our own CPU time is asked for: once,
    # when all frames are dissected. The program ends there; what was counted until then is what is asked for here.
    if done.returncode not in statuses and "rustix::backend::vdso" not in done.stderr:
        raise RuntimeError(f"{command} failed under valgrind:\n{done.stderr}")
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def per_frame(binary, capture, *options):
    """Returns the instructions per frame of the binary, which has these options of `analyze`, or of tcpdump's copy where there is
    none, without start and end."""
    def count(frames):
        if binary is None:
            return instructions(["tcpdump", "-r", capture.path, "-c", str(frames), "-w", "/dev/null"])
        return instructions(capture.analyze(binary, "-c", str(frames), *options))
    return (count(capture.counted) - count(1)) / (capture.counted - 1)
