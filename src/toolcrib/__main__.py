"""`python -m toolcrib` is the `toolcrib` command."""

import sys

from toolcrib.cli.main import run

sys.exit(run())
