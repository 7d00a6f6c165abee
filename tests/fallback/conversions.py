"""Conversions to order: fake specialisations, so that the state machine is tested on its own."""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any

from janusc.diagnostics import Diagnostic
from janusc.lowering.ir import Chain
from janusc.sentinels import MISS


@dataclass(frozen=True)
class Made:
    run: Any
    chain: Chain = Chain("made", ())
    source: str = "def made(): ...\n"
    notes: tuple[Diagnostic, ...] = ()
    guard_count: int = 1
    places: tuple = ()


@dataclass
class Fake:
    """A converter whose graphs fit calls like the one they were made for; keeps a log of what it was asked.

    ``key`` tells kinds of calls apart. ``failure`` is raised instead of converting. ``body`` replaces the graph's work.
    """

    key: Any = lambda *args, **kwargs: None
    failure: Exception | None = None
    body: Any = None
    asked: list[Any] = field(default_factory=list)
    listeners: list[Any] = field(default_factory=list)

    def __call__(self, parsed, function, args, kwargs, profile, options, *, listener, enter=None):
        assert type(function) is types.FunctionType and parsed.code is function.__code__
        self.asked.append((args, dict(kwargs)))
        self.listeners.append(listener)
        if self.failure is not None:
            raise self.failure
        kind, body, key = self.key(*args, **kwargs), self.body, self.key

        def run(function, /, *args, **kwargs):
            if key(*args, **kwargs) != kind:
                return MISS
            if body is not None:
                return body(listener, function, *args, **kwargs)
            return function(*args, **kwargs)

        return Made(run)
