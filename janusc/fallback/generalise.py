"""What calls that no specialisation takes have in common: the assumptions to give up, and whether that is worth it.

One specialisation for each kind of input is the fastest code, and with two kinds of one thing there are two of them.
With three, or with kinds of several things, there would be one for each combination; so the third is made for all of
them, by giving up what the guards that failed had assumed. It replaces the others, unless more of the function would
have to run as ordinary Python than in them.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping
from typing import Any

from janusc.lowering.ir import Chain, HostRange
from janusc.runtime.audit import Broken, broken_guards
from janusc.typeinfer.profile import KINDS, Profile
from janusc.types import type_of

FEW = 2
"""Specialisations that are made before the next is one for all."""

TRIES = 4
"""Conversions for all with one profile: what one call doesn't show, such as the items of an empty list, another may."""


def bind(function: types.FunctionType, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by the parameters of the code, whatever signature the function claims to have; or TypeError."""
    bare = types.FunctionType(function.__code__, {}, "bare", function.__defaults__, function.__closure__)
    bare.__kwdefaults__ = function.__kwdefaults__
    bound = inspect.signature(bare).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def binds(function: types.FunctionType, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether the arguments fit the parameters of the code, whatever signature the function claims to have."""
    try:
        bind(function, args, kwargs)
    except TypeError:
        return False
    return True


def give_up(
    profile: Profile,
    chains: Iterable[Chain],
    function: types.FunctionType,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    keep: bool = False,
) -> list[bool]:
    """Write into the profile what the guards of these chains may no longer assume, and say of each whether that is all.

    ``keep``: only the kinds that were met are written down, for the time when they will be given up.
    """
    arguments = bind(function, args, kwargs)
    learnt = [[_learn(profile, b, keep) for b in broken_guards(chain, function, arguments)] for chain in chains]
    if not keep:
        profile.vary_noted()  # what one of the calls before was otherwise in, the next may be too
    return [bool(guards) and all(guards) for guards in learnt]


def _learn(profile: Profile, broken: Broken, keep: bool) -> bool:
    """Give up one assumption; False where it is of a kind that a specialisation can't do without."""
    if "@" in broken.site:  # of a place: what it assumed of a value is not assumed again
        if not keep:
            profile.refute(broken.site)
        return True
    if broken.kind not in ("type", "is", "among") or not broken.site:
        return False
    value, expected = broken.args
    wanted = expected if isinstance(expected, tuple) else (type(None) if expected is None else expected,)
    if not all(isinstance(c, type) and c in KINDS for c in (type(value), *wanted)):
        return False
    for cls in wanted:
        profile.note_kind(broken.site, cls)
    profile.note_kind(broken.site, type(value), type_of(value, 1))
    if not keep:
        profile.vary(broken.site)
    return True


def host_ranges(chain: Chain) -> int:
    """How much of a chain is ordinary Python."""
    return sum(isinstance(step, HostRange) for step in chain.steps)
