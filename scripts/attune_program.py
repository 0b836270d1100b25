"""The built program, for scripts that write tables of its answers. Only Python's own library."""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def find_attune():
    if os.environ.get("ATTUNE_PROGRAM"):
        return os.environ["ATTUNE_PROGRAM"]
    for build in ("release", "dev", "portable", "demo"):
        path = os.path.join(ROOT, "build", build, "cli", "attune")
        if os.access(path, os.X_OK):
            return path
    sys.exit("no attune is built: cmake --preset release && cmake --build --preset release")


def ask(*words):
    """The answer of `attune WORDS --json`, with the exit code."""
    done = subprocess.run([find_attune(), *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        return done.returncode, {"error": {"message": done.stderr.strip() or "no answer"}}
