"""The grad mode of a block that runs in parts: entered again where it was left in the middle, it is as it was there."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch


class Block:
    """A manager of a grad mode, which remembers the mode it was left with: ordinary Python inside may have set it."""

    def __init__(self, manager: AbstractContextManager[Any]) -> None:
        self.manager = manager
        self.mode: bool | None = None

    def __enter__(self) -> None:
        self.manager.__enter__()
        if self.mode is not None:
            torch.set_grad_enabled(self.mode)

    def __exit__(self, *error: Any) -> None:
        self.mode = torch.is_grad_enabled()
        self.manager.__exit__(*error)
