"""The `toolcrib` command as people run it: a subprocess with an environment, and what it printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = str(Path(sys.executable).with_name("toolcrib"))
CALL_S = 60.0


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Shell:
    """An environment to run `toolcrib` in."""

    environment: dict[str, str]

    def run(self, *arguments: str, stdin: str = "") -> Done:
        done = subprocess.run(
            [COMMAND, *arguments], env=self.environment, input=stdin, capture_output=True, text=True, timeout=CALL_S
        )
        assert "Traceback" not in done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def with_(self, **environment: str) -> Shell:
        return Shell({**self.environment, **environment})


@dataclass(frozen=True, slots=True)
class Server:
    address: str
    data: Path

    @property
    def endpoint(self) -> str:
        return f"{self.address}/api/projects/default"


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("TOOLCRIB_")}
