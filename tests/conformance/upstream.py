"""Start programs that say where they listen, and end them: the fixture upstream, or any other child."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue

START_S = 60.0
STOP_S = 10.0
FIXTURE = Path(__file__).with_name("fixture.py")


@contextmanager
def fixture_upstream(*flags: str) -> Iterator[str]:
    """The address of a fixture upstream of its own."""
    with announced([sys.executable, str(FIXTURE), *flags], r"listens on (\S+)") as url:
        yield url


@contextmanager
def announced(
    command: Sequence[str], saying: str, environment: dict[str, str] | None = None, cwd: Path | None = None
) -> Iterator[str]:
    """What the first line matching `saying` has in its group; the child ends with the block."""
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd=cwd
    )
    lines: Queue[str | None] = Queue()
    reader = threading.Thread(target=_read, args=(child, lines), daemon=True)
    reader.start()
    try:
        yield _wait_for(saying, lines)
    finally:
        child.terminate()
        try:
            child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(STOP_S)
        reader.join(STOP_S)


def _read(child: subprocess.Popen[bytes], lines: Queue[str | None]) -> None:
    """Read to the end, so that a talkative child never blocks on a full pipe."""
    assert child.stdout is not None
    with child.stdout as said:
        for line in said:
            lines.put(line.decode(errors="replace"))
    lines.put(None)


def _wait_for(saying: str, lines: Queue[str | None]) -> str:
    said: list[str] = []
    try:
        while (line := lines.get(timeout=START_S)) is not None:
            if found := re.search(saying, line):
                return found[1]
            said.append(line)
    except Empty:
        raise AssertionError(f"nothing like {saying!r} within {START_S} s:\n{''.join(said)}") from None
    raise AssertionError(f"it ended before it said {saying!r}:\n{''.join(said)}")
