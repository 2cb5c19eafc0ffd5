"""A folder of weights that is what it says it is: every file is checked against the folder's own list before use.

`weights.json` names the model and the SHA-256 of each file. It knows files and hashes, not what the numbers mean, and
it never fetches anything.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


class DamagedWeights(RuntimeError):
    """A weight file is missing or is not the one that was published; install the package again."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A checked view of one folder."""

    folder: Path
    model_id: str
    hashes: Mapping[str, str]

    def content(self, name: str) -> bytes:
        """The file's bytes, if they are the published ones."""
        try:
            found = (self.folder / name).read_bytes()
        except OSError as problem:
            raise DamagedWeights(f"weights of {self.model_id}: {name} cannot be read; install them again") from problem
        if hashlib.sha256(found).hexdigest() != self.hashes.get(name):
            raise DamagedWeights(f"weights of {self.model_id}: {name} does not match its hash; install them again")
        return found

    def text(self, name: str) -> str:
        """A text file of the folder."""
        return self.content(name).decode("utf-8").removesuffix("\n")

    def arrays(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """An npz file of the folder."""
        with np.load(io.BytesIO(self.content(name)), allow_pickle=False) as parts:
            return {key: parts[key] for key in parts.files}


def open_weights(folder: Path) -> Weights:
    """Reads the folder's list; files are checked when they are read."""
    try:
        listed = json.loads((folder / "weights.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise DamagedWeights(f"no readable weights.json in the folder {folder.name!r}; install it again") from problem
    return Weights(folder, str(listed["model_id"]), dict(listed["sha256"]))
