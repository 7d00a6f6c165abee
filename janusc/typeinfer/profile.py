"""The record of what a function did: types, branches, trip counts per site, and the assumptions that turned out false.

Everything here only climbs: a type joins upwards, a set of outcomes or of refuted sites grows, a trip count goes from
one number to "varies". That is what bounds the number of conversions.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Union

import torch

from janusc.locks import make_lock
from janusc.types import Constant, TensorType, TupleType, Type, join, type_name

Trips = Union[int, Literal["varies"]]
KINDS: tuple[type, ...] = (
    type(None), bool, int, float, complex, str, list, tuple, dict, torch.Tensor, torch.nn.Parameter,
)  # fmt: skip
"""The types that one thing may have now and then, without a specialisation for each of them."""

MANY = 3
"""The types of one argument in the first calls from which on it is one that may be of any of them."""

_BY_NAME = {type_name(cls): cls for cls in KINDS}
_MOST_UNROLLED = 4
_MOST_CLASSES = 16


@dataclass(frozen=True)
class Snapshot:
    """A profile at one moment; two that are equal lead to the same conversion."""

    types: MappingProxyType[str, Type]
    outcomes: MappingProxyType[str, frozenset[bool]]
    trips: MappingProxyType[str, Trips]
    refuted: frozenset[str]
    varying: frozenset[tuple[str, frozenset[type]]] = frozenset()


class Profile:
    """The observations of one function and the user code it calls, by site; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = make_lock()
        self._types: dict[str, Type] = {}
        self._outcomes: dict[str, frozenset[bool]] = {}
        self._trips: dict[str, Trips] = {}
        self._refuted: set[str] = set()
        self.recursive: set[str] = set()  # the keys of functions that a conversion found to call themselves
        self._kinds: dict[str, dict[type, Type | None]] = {}
        self._varying: set[str] = set()
        self._met: dict[str, dict[type, Type]] = {}
        self._unrolled: dict[str, int] = {}
        self._classes: weakref.WeakValueDictionary[str, type] = weakref.WeakValueDictionary()
        self._met_at: dict[str, dict[str, None]] = {}
        self._calls = 0

    @property
    def calls(self) -> int:
        """How many calls have been profiled."""
        return self._calls

    def count_call(self) -> None:
        """One more call has been profiled."""
        with self._lock:
            self._calls += 1

    def observe(self, site: str, seen: Type) -> None:
        """Join the type of a value seen at a site."""
        known = self._types.get(site)
        if known == seen:
            return
        with self._lock:
            known = self._types.get(site)
            self._types[site] = seen if known is None else join(known, seen)
            kinds, cls = self._met.setdefault(site, {}), _class_of(seen)
            kinds[cls] = join(kinds[cls], seen) if cls in kinds else seen

    def meet(self, name: str, cls: type, site: str) -> None:
        """A value at a site was of this class, which types know by its name; the class is not kept alive."""
        names = self._met_at.get(site, {})
        if self._classes.get(name) is not cls or (name not in names and len(names) < _MOST_CLASSES):
            with self._lock:
                self._classes[name] = cls
                self._met_at[site] = {**names, name: None}

    def classes_at(self, site: str) -> list[type]:
        """The classes that values at a site were of, as far as they are still there."""
        found = (self._classes.get(name) for name in self._met_at.get(site, ()))
        return [cls for cls in found if cls is not None]

    def class_named(self, name: str) -> type | None:
        """The class of values of a type with this name."""
        return self._classes.get(name)

    def branch(self, site: str, outcome: bool) -> None:
        """A test came out as ``outcome``."""
        known = self._outcomes.get(site)
        if known is not None and outcome in known:
            return
        with self._lock:
            self._outcomes[site] = self._outcomes.get(site, frozenset()) | {outcome}

    def trips(self, site: str, count: int) -> None:
        """A loop ran its body ``count`` times."""
        with self._lock:
            self._trips[site] = count if self._trips.get(site, count) == count else "varies"

    def may_unroll(self, site: str) -> bool:
        """Whether a loop that runs now so often and now so, was written out a few times only; counts this one."""
        with self._lock:
            self._unrolled[site] = self._unrolled.get(site, 0) + 1
            return self._unrolled[site] <= _MOST_UNROLLED

    def refute(self, site: str) -> bool:
        """An assumption made at a site was false; it is never made again. Whether that was news."""
        with self._lock:
            news = site not in self._refuted
            self._refuted.add(site)
            return news

    def note_kind(self, what: str, cls: type, seen: Type | None = None) -> None:
        """An argument, attribute or item was of this class (one of KINDS) at a conversion."""
        with self._lock:
            kinds = self._kinds.setdefault(what, {})
            known = kinds.get(cls)
            kinds[cls] = known if seen is None else seen if known is None else join(known, seen)

    def note_parameter(self, name: str, site: str) -> None:
        """Take a parameter that was of many types in the calls so far for one that varies."""
        kinds = self._met.get(site, {})
        if len(kinds) >= MANY and all(cls in KINDS for cls in kinds):
            for cls, seen in kinds.items():
                self.note_kind(name, cls, seen)
            self.vary(name)

    def vary_noted(self) -> None:
        """The same for all that was of several classes at the conversions so far."""
        with self._lock:
            self._varying.update(what for what, kinds in self._kinds.items() if len(kinds) > 1)

    def vary(self, what: str) -> None:
        """Nothing is assumed any longer of the class of an argument, attribute or item, but that it was seen before."""
        with self._lock:
            self._varying.add(what)

    def kinds_at(self, what: str) -> dict[type, Type | None]:
        """The classes of something that varies, with what is known of each; empty where it does not vary."""
        return dict(self._kinds[what]) if what in self._varying else {}

    def varies(self) -> bool:
        """Whether something was seen to vary."""
        return bool(self._varying)

    def fork(self) -> Profile:
        """A copy, to try out what follows from giving up some more."""
        copy = Profile()
        copy.join(self)
        return copy

    def join(self, other: Profile) -> None:
        """Take over what another profile, made from this one, has in addition."""
        with self._lock:
            self._types.update(other._types)
            self._classes.update(other._classes)
            self._met_at.update(other._met_at)
            self._unrolled.update(other._unrolled)
            for site, outcomes in other._outcomes.items():
                self._outcomes[site] = self._outcomes.get(site, frozenset()) | outcomes
            self._trips.update(other._trips)
            self._refuted |= other._refuted
            self.recursive |= other.recursive
            self._kinds.update({what: dict(kinds) for what, kinds in other._kinds.items()})
            self._varying |= other._varying
            for site, met in other._met.items():
                self._met[site] = {**self._met.get(site, {}), **met}

    def type_at(self, site: str) -> Type | None:
        """The join of the types seen at a site, or None where it was never reached."""
        return self._types.get(site)

    def outcomes(self, site: str) -> frozenset[bool]:
        """The outcomes of a test seen so far."""
        return self._outcomes.get(site, frozenset())

    def trip_count(self, site: str) -> Trips | None:
        """The one trip count of a loop, "varies", or None where it was never reached."""
        return self._trips.get(site)

    def is_refuted(self, site: str) -> bool:
        """Whether an assumption at the site turned out false."""
        return site in self._refuted

    def spurious(self) -> frozenset[str]:
        """The lines, as ``host:file:line``, where graphs kept raising what eager runs did not."""
        return frozenset(site for site in self._refuted if site.startswith("host:"))

    def snapshot(self) -> Snapshot:
        """A frozen copy."""
        with self._lock:
            return Snapshot(
                MappingProxyType(dict(self._types)),
                MappingProxyType(dict(self._outcomes)),
                MappingProxyType(dict(self._trips)),
                frozenset(self._refuted),
                frozenset((what, frozenset(self._kinds[what])) for what in self._varying),
            )


def _class_of(seen: Type) -> type:
    """The class of values of a type; ``object`` where it is none of KINDS."""
    if isinstance(seen, TensorType):
        return torch.Tensor
    if isinstance(seen, TupleType):
        return tuple
    return _BY_NAME.get(seen.host if isinstance(seen, Constant) else str(seen), object)
