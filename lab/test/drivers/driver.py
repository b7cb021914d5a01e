"""What the programs in Python share; it is put beside each."""

import importlib.metadata
import json
import sys

PORT, *MORE = [int(sys.argv[1]), *sys.argv[2:]]


def say(driver, asked, errors, **more):
    """Prints what was asked, and waits for the end of standard input."""
    said = {"driver": f"{driver} {importlib.metadata.version(driver)}", "asked": asked, "errors": errors, **more}
    print(json.dumps(said), flush=True)
    sys.stdin.read()
