"""A process that has everything imported and forks a server whenever it is told to.

Started servers are real processes with real files; only the imports are saved, so that a hundred of them can be
started and killed within one test. Run as `python zygote.py DATA PORT`: every line on stdin waits for the end of the
last server, starts one and is answered by its process id.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from toolcrib import app, settings


def main() -> None:
    config = settings.load(None, Path(sys.argv[1]), {"port": int(sys.argv[2])})
    pid = 0
    for _ in sys.stdin:
        if pid:
            os.waitpid(pid, 0)  # until it is gone for good, and its port and locks with it
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os._exit(app.serve(config))
        print(pid, flush=True)


if __name__ == "__main__":
    main()
