#!/usr/bin/env python3
"""lab/test/files/guard/run_workflow.py WORKFLOW ACTION.yml OVERHEAD [--skip STEP]… [--replace OLD=NEW]…: the steps of a workflow's only job, one after the other,
in the current folder, as a runner of GitHub would run them: those of the action that it uses, with the workflow's inputs, and
its own commands. Actions of others (checking out, keeping files) are left out. Ends with the status of the step that fails.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

OURS = "./overhead"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def value(expression: str, inputs: dict[str, str], temp: str) -> str:
    """What an expression stands for, of the few forms that the action has."""
    for choice in expression.split(" || "):
        if choice.startswith("inputs."):
            found = inputs[choice.removeprefix("inputs.")]
        elif choice == "runner.temp":
            found = temp
        elif choice.startswith("format('{0}"):
            found = choice.split("'")[1].replace("{0}", temp)
        else:
            raise SystemExit(f"run_workflow.py: {expression}: not known here")
        if found:
            return found
    return ""


def applies(condition: str | None, inputs: dict[str, str]) -> bool:
    if condition is None or condition == "always()":
        return True
    name, wanted = re.fullmatch(r"inputs\.(\w+) == '(.*)'", condition).groups()
    return inputs[name] == wanted


def run(step: dict, inputs: dict[str, str], temp: str) -> None:
    if "run" not in step or not applies(step.get("if"), inputs):
        return
    filled = {name: EXPRESSION.sub(lambda it: value(it[1], inputs, temp), str(text)) for name, text in step.get("env", {}).items()}
    print(f"step: {step.get('name', step['run'])}", flush=True)
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
    status = subprocess.run(command, env={**os.environ, **filled}, check=False).returncode
    if status:
        sys.exit(status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workflow", type=Path)
    parser.add_argument("action", type=Path)
    parser.add_argument("overhead")
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("--replace", action="append", default=[], metavar="OLD=NEW")
    options = parser.parse_args()
    text = options.workflow.read_text()
    for old, new in (replacement.split("=", 1) for replacement in options.replace):
        assert old in text, old
        text = text.replace(old, new)
    (job,) = yaml.safe_load(text)["jobs"].values()
    action = yaml.safe_load(options.action.read_text())
    temp = os.environ.get("RUNNER_TEMP", "/tmp")
    for step in job["steps"]:
        if step.get("name") in options.skip:
            continue
        if not step.get("uses", "").startswith(OURS):
            run(step, {}, temp)
            continue
        given = {name: str(text) for name, text in step["with"].items()}
        unknown = given.keys() - action["inputs"].keys()
        missing = {name for name, it in action["inputs"].items() if it.get("required")} - given.keys()
        if unknown or missing:
            raise SystemExit(f"run_workflow.py: inputs unknown {sorted(unknown)}, missing {sorted(missing)}")
        inputs = {name: str(it.get("default", "")) for name, it in action["inputs"].items()}
        for inner in action["runs"]["steps"]:
            run(inner, {**inputs, **given, "overhead": options.overhead}, temp)


main()
