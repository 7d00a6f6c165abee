"""How many lines a conversion goes through, told beforehand: what is unrolled or inlined counts again each time."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from janusc.lowering.iterate import UNROLL_BUDGET
from janusc.lowering.loops import FEW
from janusc.typeinfer.extent import Extents, ForLoop, Place
from janusc.typeinfer.profile import KINDS, Profile
from janusc.types import ANY, HostType, TupleType, Type, type_name

AGAIN = 4
"""So many lines that a conversion goes through again take as long as one at first: most of what it finds is known."""

_PLAIN = frozenset(map(type_name, KINDS))


def count_lines(extents: Extents, profile: Profile) -> int:
    """The lines of all functions that calls run through, for what the profile knows of their loops.

    Those that are gone through again, in another pass of a loop that is unrolled, count as fewer.
    """
    functions = extents.items()
    loops = {loop.site: loop for extent, _ in functions for loop in extent.loops}
    passes = {site: _passes(loop, profile) for site, loop in loops.items()}
    parts = {site for site, loop in loops.items() if loop.parts}
    apart = parts | {site for site, count in passes.items() if count > 1}
    first = all_copies = 0
    for extent, places in functions:
        repeated = sum(loop.lines * (passes[loop.site] - 1) * _times(loop.around, passes) for loop in extent.loops)
        first += extent.lines
        all_copies += _count_copies(places, apart, parts) * (extent.lines + repeated)
    return first + (all_copies - first) // AGAIN


def _count_copies(places: list[Place], apart: set[str], parts: set[str]) -> int:
    """How often a function will be converted that was called at these places: once where a loop stays one.

    Once as well where the loop is run inside of itself: such a function is converted once for all of its calls.
    """
    found = set()
    for place in places:
        sites = [site for site, _ in place if site not in parts]
        if len(sites) == len(set(sites)):
            found.add(tuple((site, number) for site, number in place if site in apart))
    return max(1, len(found))


def _times(loops: Iterable[str], passes: dict[str, int]) -> int:
    return prod(passes.get(site, 1) for site in loops)


def _passes(loop: ForLoop, profile: Profile) -> int:
    """How often the body of a loop will be converted."""
    trips = profile.trip_count(loop.site)
    if not isinstance(trips, int) or trips * loop.weight > UNROLL_BUDGET or profile.is_refuted(loop.site):
        return 1
    unrolled = loop.fixed or trips <= FEW or _has_objects(profile.type_at(loop.items))
    return max(1, trips) if unrolled else 1


def _has_objects(items: Type | None) -> bool:
    """Whether items of a type are, or hold, more than tensors and plain values: then each is known by itself."""
    if isinstance(items, TupleType):
        return any(map(_has_objects, items.items))
    return items == ANY or (isinstance(items, HostType) and items.name not in _PLAIN)
