"""`python -m bench [NAME …]`: every benchmark of this folder, or the named ones, one after the other.

A benchmark is a module with a `main()`; each runs in a process of its own, so that none measures what another left
behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def benchmarks() -> dict[str, Path]:
    modules = sorted(path for path in HERE.glob("*.py") if not path.stem.startswith("_"))
    return {path.stem: path for path in modules if "\ndef main(" in path.read_text("utf-8")}


def main() -> int:
    known = benchmarks()
    wanted = sys.argv[1:] or list(known)
    if unknown := [name for name in wanted if name not in known]:
        print(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    failed = list[str]()
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(HERE)]))
    environment = {**os.environ, "PYTHONPATH": path}
    for name in wanted:
        began = time.monotonic()
        print(f"\n===== {name} (python -m bench.{name})", flush=True)
        command = [sys.executable, "-m", f"bench.{name}"]
        if subprocess.run(command, cwd=HERE.parent, env=environment, check=False).returncode:
            failed.append(name)
        print(f"===== {name}: {time.monotonic() - began:.0f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
