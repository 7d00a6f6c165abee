"""The parameters of the function that is converted, as far as its calls so far say what they are."""

from __future__ import annotations

from typing import Any

from janusc.frontend import names, parse
from janusc.frontend.parse import ParsedFunction
from janusc.lowering.abstract import DictV, Live, TupleV
from janusc.lowering.iterate import live_dict_items, live_sequence, varies
from janusc.lowering.lower_object import is_object
from janusc.lowering.lowering import Lowering
from janusc.lowering.operands import declared_type, lift
from janusc.types import ANY, HostType


def parameter(lo: Lowering, parsed: ParsedFunction, name: str, sample: Any) -> Any:
    """A parameter; an object of a class that varies from call to call may be left to a recursion to ask about."""
    place = next(p for p in names.parameter_nodes(parsed.tree.args) if p.id == name)
    site = lo.site(place, "Parameter")
    lo.profile.note_parameter(name, site)
    value = lo.builder.parameter(declared_type(lo, sample, name))
    seen = lo.profile.type_at(site)
    if seen != ANY or not (is_object(type(sample)) or type(sample) in (list, tuple)):
        return lift(lo, sample, value, name)
    return lo.left_open(value, name, sample)


def star_parameters(parsed: ParsedFunction) -> tuple[str, ...]:
    """The names of ``*args`` and ``**kwargs``, as far as a function has them."""
    extra = parsed.tree.args
    return tuple(p.id for p in (extra.vararg, extra.kwarg) if p is not None)


def star(lo: Lowering, parsed: ParsedFunction, sample: Any) -> Any:
    """``*args`` and ``**kwargs``: fresh containers of a guarded length, item by item, or of any length."""
    owner = Live(lo.builder.parameter(), sample)
    if isinstance(sample, tuple):
        vararg = parsed.tree.args.vararg
        site = parse.site(parsed, vararg, "Parameter")
        if isinstance(lo.profile.type_at(site), HostType):  # calls of several lengths were seen
            lo.of_any_length.add(id(sample))
        if varies(lo, owner, f"{site}:length"):
            return owner
        return TupleV(tuple(live_sequence(lo, owner)))
    return DictV(live_dict_items(lo, owner))
