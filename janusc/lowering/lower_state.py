"""Names, attributes and items: reads from outside under guards, own writes kept in the store, the commit at the end."""

from __future__ import annotations

import builtins
from typing import Any

import gast
import torch

from janusc.lowering import codes, ops
from janusc.lowering.abstract import Frame, IterableV, Known, Live, Sym, Unbound
from janusc.lowering.apart import Apart
from janusc.lowering.ir import Arg, Const, Value
from janusc.lowering.lowering import Lowering, expression
from janusc.lowering.namespaces import ANY_KEY, REGISTERED, namespaces, refuse_stale
from janusc.lowering.operands import SCALARS, check_bound, declared_type, escape, known_arg, lift, sample_type
from janusc.lowering.store import Slot, own_dict, parts

# ---- reads by path


def read(lo: Lowering, owner: Value, kind: str, key: Any, sample: Any, what: str) -> Any:
    """One step of an access path in the guards, lifted; read once per segment and path."""
    memo = (owner, kind, key)
    if memo not in lo.memo:
        type_ = declared_type(lo, sample, what)
        if kind == "attr":
            value = lo.builder.guard(ops.READ_ATTR, key, (owner,), type_, lo.span())
        else:
            value = lo.builder.guard(ops.READ_ITEM, "", (owner, known_arg(lo, key)), type_, lo.span())
        lo.memo[memo] = lift(lo, sample, value, what)
    return lo.memo[memo]


def raw_attr(lo: Lowering, owner: Any, name: str) -> Value:
    """A guards read that is not lifted: a dictionary on the way to something else."""
    memo = (owner, "raw", name)
    if memo not in lo.memo:
        lo.memo[memo] = lo.builder.guard(ops.READ_ATTR, name, (owner,), span=lo.span())
    value: Value = lo.memo[memo]
    return value


def module_entry(lo: Lowering, module: Value, name: str) -> Value:
    """An instance attribute of a module, not lifted, by way of its ``__dict__``: ``Module.__getattr__`` is slow."""
    state = raw_attr(lo, module, "__dict__")
    memo = (state, "raw item", name)
    if memo not in lo.memo:
        lo.memo[memo] = lo.builder.guard(ops.READ_ITEM, "", (state, Const(name)), span=lo.span())
    value: Value = lo.memo[memo]
    return value


def check_once(lo: Lowering, kind: str, args: tuple[Arg, ...], what: str) -> None:
    """A guard that is not repeated within the segment; a check in the body is one of its place."""
    if not lo.builder.is_early(*args):
        lo.check(kind, args, what, lo.span())
        return
    memo = (args[0], f"check {kind}", args[1:])
    if memo not in lo.memo:
        lo.memo[memo] = True
        lo.check(kind, args, what, lo.span())


# ---- names


@expression(gast.Name)
def lower_name(lo: Lowering, node: Any) -> Any:
    return load(lo, node.id)


def find_slot(lo: Lowering, name: str) -> Slot | None:
    """The local slot a name means in the current frame, or None for a free or global name."""
    frame: Frame | None = lo.frame
    if name in lo.frame.global_names:
        return None
    while frame is not None:
        if is_local(frame, name):
            return ("local", frame.id, name)
        frame = frame.parent
    return None


def is_local(frame: Frame, name: str) -> bool:
    """Whether a name is a variable of this frame; the flags of structured jumps are."""
    return (name in frame.locals and name not in frame.nonlocal_names) or name.startswith("_jc_")


def root_frame(frame: Frame) -> Frame:
    while frame.parent is not None:
        frame = frame.parent
    return frame


def load(lo: Lowering, name: str) -> Any:
    slot = find_slot(lo, name)
    if slot is not None:
        value = lo.fetch(slot)
        if value is Unbound:
            raise lo.refuse(codes.UNBOUND_NAME, f"{name} is not bound here")
        if isinstance(value, Sym):
            check_bound(lo, value)
        return value
    frame = root_frame(lo.frame)
    code = frame.function.sample.__code__
    if name in code.co_freevars and name not in lo.frame.global_names:
        return load_cell(lo, frame, code.co_freevars.index(name), name)
    return load_global(lo, frame, name)


def load_cell(lo: Lowering, frame: Frame, index: int, name: str) -> Any:
    cell = frame.function.sample.__closure__[index]
    slot = ("cell", id(cell), "")
    if slot in lo.store:  # an own write, if this path leads to the same cell again
        note_read(lo, slot, Live(cell_value(lo, frame, index), cell))
        return lo.store[slot]
    try:
        sample = cell.cell_contents
    except ValueError:
        raise lo.refuse(codes.UNBOUND_NAME, f"{name} is not bound yet") from None
    if frame.is_library:
        return fixed(lo, sample, name)
    owner = cell_value(lo, frame, index)
    note_read(lo, slot, Live(owner, cell))
    return read(lo, owner, "attr", "cell_contents", sample, name)


def cell_value(lo: Lowering, frame: Frame, index: int) -> Value:
    closure = raw_attr(lo, frame.function.value, "__closure__")
    memo = (closure, "raw", index)
    if memo not in lo.memo:
        lo.memo[memo] = lo.builder.guard(ops.READ_ITEM, "", (closure, Const(index)), span=lo.span())
    value: Value = lo.memo[memo]
    return value


def load_global(lo: Lowering, frame: Frame, name: str) -> Any:
    names = frame.function.sample.__globals__
    slot = ("global", id(names), name)
    if slot in lo.store:
        value = lo.store[slot]
        if value is Unbound:
            raise lo.refuse(codes.UNBOUND_NAME, f"{name} is not bound")
        if not frame.is_library:
            note_read(lo, slot, Live(raw_attr(lo, frame.function.value, "__globals__"), names))
        return value
    if frame.is_library and name in names and type(names[name]) in (*SCALARS, type(None)):
        return library_flag(lo, names, name)
    if frame.is_library:
        return fixed(lo, names[name] if name in names else getattr(builtins, name), name)
    owner = raw_attr(lo, frame.function.value, "__globals__")
    if name in names:
        note_read(lo, slot, Live(owner, names))
        return read(lo, owner, "item", name, names[name], name)
    if hasattr(builtins, name):
        check_once(lo, "absent", (owner, Const(name)), name)
        return lower_builtin_name(lo, name)
    raise lo.refuse(codes.UNBOUND_NAME, f"{name} is not defined")


def lower_builtin_name(lo: Lowering, name: str) -> Any:
    """A builtin, guarded to be the one it is."""
    value = getattr(builtins, name)
    memo = ("builtins", "item", name)
    if memo not in lo.memo:
        lo.memo[memo] = True
        held = raw_attr(lo, lo.builder.ref(builtins), name)
        lo.check("is", (held, known_arg(lo, value)), name, lo.span())
    return Known(value)


def library_flag(lo: Lowering, names: dict[str, Any], name: str) -> Any:
    """A number or text among the globals of torch's own files: a setting, which may change."""
    memo = (id(names), "flag", name)
    if memo not in lo.memo:
        ref = lo.builder.ref(names, "globals_of_torch")
        value = lo.builder.guard(ops.READ_ITEM, "", (ref, Const(name)), sample_type(names[name]), lo.span())
        lo.memo[memo] = lift(lo, names[name], value, name)
    return lo.memo[memo]


def fixed(lo: Lowering, sample: Any, name: str) -> Any:
    """A name read inside torch's own files: taken as it is."""
    if isinstance(sample, (torch.Tensor, torch.nn.Module, list, dict, set)):
        raise lo.refuse(codes.LIBRARY_STATE, f"library state {name} is read")
    return Known(sample)


# ---- aliasing of what is written

ANY_NAME = "*"  # in place of the name, for a read of all attributes at once


def note_read(lo: Lowering, slot: Slot, owner: Live) -> None:
    """Remember that a slot was read through this path, for the aliasing guards."""
    refuse_stale(lo, slot, owner)
    lo.reads.setdefault((slot[0], slot[2]), {})[owner.value] = owner


def alias_guards(lo: Lowering) -> None:
    """For every written slot: the other paths met the same object, or not, as in the call at hand.

    Two paths that were one object then must be so again; two objects of one type must not have become one.
    """
    apart = Apart()
    for slot, owner in list(lo.written.items()):
        readers = {**lo.reads.get((slot[0], slot[2]), {}), **lo.reads.get((slot[0], ANY_NAME), {})}
        if slot[0] == "global":
            for module in lo.module_reads.get(slot[2], {}).values():
                value = raw_attr(lo, lo.builder.ref(module), "__dict__")
                readers[value] = Live(value, vars(module))
        for other in list(readers.values()):
            if other.value is owner.value or type(other.sample) is not type(owner.sample):
                continue
            if slot[0] == "attr" and hasattr(owner.sample, "__dict__") and not isinstance(owner.sample, type):
                places = tuple(raw_attr(lo, o.value, "__dict__") for o in (owner, other))
                same = owner.sample.__dict__ is other.sample.__dict__
            else:
                places, same = (owner.value, other.value), owner.sample is other.sample
            if same:
                check_once(lo, "is", places, "aliasing")
            else:
                apart.add(*places)
    namespace_guards(lo, apart)
    contents = list(lo.reads.get(("content", ""), {}).values())
    changed_guards(lo, contents)
    apart.emit(lo)


def changed_guards(lo: Lowering, contents: list[Live]) -> None:
    """What was changed and is known at run time only was none of the containers that were read by path."""
    site = lo.site(lo.node, "aliasing")
    unsaved: dict[Value, None] = {}
    for changed in lo.written_lists:
        alike = [other.value for other in contents if type(other.sample) is changed.pytype]
        if alike and lo.profile.is_refuted(site):
            raise lo.refuse(codes.ASSIGNMENT, "a list or dict that is changed may be another one that is read")
        if lo.builder.is_visible(changed.value):
            for value in alike:
                check_once(lo, "is_not", (value, changed.value), site)
        else:  # of a loop or branch: whatever it was, it was saved before
            unsaved.update(dict.fromkeys(alike))
    for name, classes in lo.set_at_run_time.items():
        readers = {**lo.reads.get(("attr", name), {}), **lo.reads.get(("attr", ANY_NAME), {})}
        found = [other for other in readers.values() if type(other.sample) in classes]
        if found and lo.profile.is_refuted(site):
            raise lo.refuse(codes.ASSIGNMENT, "an object that is changed may be another one that is read")
        for other in found:
            slots = own_dict(other.sample) is None
            unsaved[other.value if slots else raw_attr(lo, other.value, "__dict__")] = None
    if unsaved:
        lo.builder.check("unsaved", tuple(unsaved), site, lo.span())


def namespace_guards(lo: Lowering, apart: Apart) -> None:
    """A dictionary that was none of the names met in this call must not have become one."""
    tables = [o for o in lo.reads.get(("content", ""), {}).values() if type(o.sample) is dict]
    for slot, owner in list(lo.written.items()):
        if slot[0] == "content" and type(owner.sample) is dict:
            names = lo.written_keys.get(owner.value, {ANY_KEY})
            for (kind, name), readers in list(lo.reads.items()):
                if kind in ("attr", "global") and (ANY_KEY in names or name == ANY_NAME or name in names):
                    for reader in list(readers.values()):
                        _differ(lo, (kind, 0, name), reader, owner, apart)
        elif slot[0] in ("attr", "global"):
            for table in tables:
                _differ(lo, slot, owner, table, apart)


def _differ(lo: Lowering, slot: Slot, holder: Live, table: Live, apart: Apart) -> None:
    """The dictionaries that may hold a name are not this one, unless they are in the call at hand."""
    held = namespaces(slot, holder)
    if not held or any(d is table.sample for d in held):
        return
    values = [holder.value] if slot[0] == "global" else [raw_attr(lo, holder.value, "__dict__")]
    if slot[0] == "attr" and isinstance(holder.sample, torch.nn.Module):
        values += [
            module_entry(lo, holder.value, name) for name in REGISTERED if slot[2] in holder.sample.__dict__[name]
        ]
    for value in values:
        apart.add(value, table.value)


# ---- attributes


@expression(gast.Attribute)
def lower_attribute(lo: Lowering, node: Any) -> Any:
    from janusc.lowering.lower_attr import get_attribute
    from janusc.lowering.profiled import expect

    return get_attribute(lo, expect(lo, lo.expr(node.value), node.value), node.attr)


# ---- writes


def refuse_iterator(lo: Lowering, abstract: Any) -> None:
    """An iterator that is kept would have to remember how far it is."""
    if any(isinstance(p, IterableV) and p.kind != "range" for p in parts(abstract)):
        raise lo.refuse(codes.LOOP, "an iterator is kept")


def store_name(lo: Lowering, name: str, abstract: Any) -> None:
    refuse_iterator(lo, abstract)
    slot = find_slot(lo, name)
    if slot is not None:
        lo.store[slot] = abstract
        return
    frame = root_frame(lo.frame)
    code = frame.function.sample.__code__
    if frame.is_library:
        raise lo.refuse(codes.LIBRARY_STATE, f"library code writes {name}")
    if name in code.co_freevars and name not in lo.frame.global_names:
        index = code.co_freevars.index(name)
        owner = Live(cell_value(lo, frame, index), frame.function.sample.__closure__[index])
        write(lo, ("cell", id(owner.sample), ""), owner, abstract)
        return
    names = frame.function.sample.__globals__
    owner = Live(raw_attr(lo, frame.function.value, "__globals__"), names)
    write(lo, ("global", id(names), name), owner, abstract)


def write(lo: Lowering, slot: Slot, owner: Live, abstract: Any) -> None:
    """An own write, visible to later reads of this transaction, committed at its end in the order of first writes."""
    refuse_iterator(lo, abstract)
    note_read(lo, slot, owner)
    lo.store[slot] = abstract
    lo.written.setdefault(slot, owner)
    lo.holders[slot] = owner


def is_kept(lo: Lowering, made: Any) -> bool:
    """Whether somebody outside holds, or will hold, what was made in the call."""
    return id(made) in lo.tuples or any(p is made for slot in lo.written for p in parts(lo.store.get(slot)))


def commit(lo: Lowering) -> None:
    """The WRITE nodes at the end of the body: everything written, on the real objects."""
    alias_guards(lo)
    ready: list[tuple[Slot, Live, Arg]] = []
    for slot, owner in lo.written.items():
        if slot[0] == "content":  # changed at once, not at the end
            continue
        value = lo.store.get(slot, Unbound)
        if value is Unbound:
            raise lo.refuse(codes.PARTIAL_WRITE, f"{slot[2] or 'a variable'} is deleted")
        if isinstance(value, Sym) and value.maybe_unbound:
            raise lo.refuse(codes.PARTIAL_WRITE, f"{slot[2]} is set on one path only")
        ready.append((slot, owner, escape(lo, value)))
    for slot, owner, value in ready:
        kind, _, name = slot
        if kind == "attr":
            lo.builder.emit(ops.WRITE_ATTR, name, (owner.value, value), types=())
        elif kind == "global":
            lo.builder.emit(ops.WRITE_ITEM, "", (owner.value, Const(name), value), types=())
        else:
            lo.builder.emit(ops.WRITE_CELL, "", (owner.value, value), types=())
