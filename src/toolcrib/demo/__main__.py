"""`python -m toolcrib.demo SOURCE [PAGE_SIZE]`: one demo source on stdin and stdout, until stdin ends."""

import os
import sys

from toolcrib.demo.sources import LABELS, open_source
from toolcrib.demo.stdio import PAGE_SIZE, serve


def main(arguments: list[str]) -> int:
    """Serves the named source; the exit status."""
    if not arguments or arguments[0] not in LABELS or not all(size.isdecimal() and int(size) for size in arguments[1:]):
        print(f"usage: python -m toolcrib.demo {{{','.join(LABELS)}}} [PAGE_SIZE]", file=sys.stderr)
        return 2
    page_size = int(arguments[1]) if arguments[1:] else PAGE_SIZE
    try:
        serve(open_source(arguments[0]), sys.stdin.buffer, sys.stdout.buffer, page_size)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The interpreter would flush stdout once more at exit, into the same closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
