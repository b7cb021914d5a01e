#!/usr/bin/env python3
"""lab/test/files/page/lossy.py FROM.pcap TO.pcap: the same capture without every seventh of its frames, as one is that could not keep up.

Both files are pcap in this machine's byte order.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "lib"))

from traffic import HEADER, RECORD, packets


def main():
    source, target = sys.argv[1:]
    out = bytearray(Path(source).read_bytes()[: HEADER.size])
    for number, (seconds, fraction, frame, wire) in enumerate(packets(source), 1):
        if number % 7:
            out += RECORD.pack(seconds, fraction, len(frame), wire) + frame
    Path(target).write_bytes(out)


if __name__ == "__main__":
    main()
