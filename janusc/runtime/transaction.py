"""The transaction: an undo log, and what is deferred to the commit.

Comes in: the state that emitted code is about to change. Goes out: the same state, as if the body had never run. A log
entry is a function with its arguments; they run last in, first out.
"""

from __future__ import annotations

import builtins
import operator
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import CellType
from typing import Any, TypeVar

import torch

from janusc import torch_private
from janusc.sentinels import UNBOUND
from janusc.typeinfer import callees

UndoLog = list[tuple[Callable[..., Any], tuple[Any, ...]]]
Hook = Callable[..., bool]
Prints = list[tuple[tuple[str, ...], dict[str, Any]]]
C = TypeVar("C", bound=Callable[..., Any])


class Deopt(Exception):
    """An assumption failed inside a body; ``site`` says which, None that there is none to refute."""

    def __init__(self, site: str | None) -> None:
        super().__init__(site)
        self.site = site


# ---- content of tensors and containers, kept before an in-place change ------------------------------------------


def _restore_tensor(alias: torch.Tensor, content: torch.Tensor, version: int | None) -> None:
    with torch.inference_mode() if alias.is_inference() else torch.no_grad():
        alias.copy_(content)
    torch_private.set_version(alias, version)


def save_tensor(undo: UndoLog, tensor: torch.Tensor) -> None:
    """Keep the elements of a tensor.

    The restoring goes through a detached alias made now, so a change of the tensor's own shape or strides does not
    matter. Expanded dimensions are cut to one element: torch refuses to write several elements at one address.
    Its version goes back with them: a graph of autograd's that saved the tensor may yet run backward.
    Into a sparse tensor nothing can be copied back that its aliases see, and copying a quantized or nested one warns of
    itself, so what changes one of those runs eagerly.
    """
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested or tensor.dtype is torch.complex32:
        raise Deopt(None)
    alias = tensor.detach()
    if 0 in alias.stride():
        for dim in (d for d, stride in enumerate(alias.stride()) if stride == 0 and alias.size(d) > 1):
            alias = alias.narrow(dim, 0, 1)
    undo.append((_restore_tensor, (alias, alias.clone(), torch_private.version_of(alias))))


def _restore_list(target: list[Any], content: list[Any]) -> None:
    list.__setitem__(target, slice(None), content)


def save_list(undo: UndoLog, target: list[Any]) -> None:
    """Keep the items of a list."""
    undo.append((_restore_list, (target, list(target))))


def _truncate_list(target: list[Any], length: int) -> None:
    list.__delitem__(target, slice(length, None))


def save_length(undo: UndoLog, target: list[Any]) -> None:
    """Keep the length of a list that will only grow at its end."""
    undo.append((_truncate_list, (target, len(target))))


def _restore_dict(target: dict[Any, Any], content: list[tuple[Any, Any]]) -> None:
    # An OrderedDict keeps its order beside the dict it derives from.
    base: Any = OrderedDict if isinstance(target, OrderedDict) else dict
    base.clear(target)
    for key, value in content:
        base.__setitem__(target, key, value)


def save_dict(undo: UndoLog, target: dict[Any, Any]) -> None:
    """Keep the entries of a dictionary and their order."""
    undo.append((_restore_dict, (target, list(target.items()))))


def _restore_set(target: set[Any], content: Iterable[Any]) -> None:
    set.clear(target)
    set.update(target, content)


def save_set(undo: UndoLog, target: set[Any]) -> None:
    """Keep the members of a set and their order, which is as it came about; one that can't be made again is for eager.

    Where the members go depends on the room there is, and that on how many there were at a time.
    """
    order = list(target)
    for content in (set(target), order):
        made = set(content)
        if made.__sizeof__() == target.__sizeof__() and all(map(operator.is_, made, order)):
            undo.append((_restore_set, (target, content)))
            return
    raise Deopt(None)


def _restore_deque(target: deque[Any], content: list[Any]) -> None:
    deque.clear(target)
    deque.extend(target, content)


def save_deque(undo: UndoLog, target: deque[Any]) -> None:
    """Keep the items of a deque."""
    undo.append((_restore_deque, (target, list(target))))


def _truncate_deque(target: deque[Any], length: int) -> None:
    while len(target) > length:
        deque.pop(target)


def save_deque_length(undo: UndoLog, target: deque[Any]) -> None:
    """Keep the length of a deque that will grow by one at its end; all of it where that pushes an item out."""
    if len(target) == target.maxlen:
        save_deque(undo, target)
    else:
        undo.append((_truncate_deque, (target, len(target))))


def _put_back(target: deque[Any], length: int, add: Callable[[deque[Any], Any], None], item: Any) -> None:
    if len(target) < length:
        add(target, item)


def save_last(undo: UndoLog, target: deque[Any]) -> None:
    """Keep the last item of a deque, which will be taken."""
    if target:
        undo.append((_put_back, (target, len(target), deque.append, target[-1])))


def save_first(undo: UndoLog, target: deque[Any]) -> None:
    """Keep the first item of a deque, which will be taken."""
    if target:
        undo.append((_put_back, (target, len(target), deque.appendleft, target[0])))


def is_saved(undo: UndoLog, *containers: Any) -> bool:
    """Whether what one of these holds was kept, so that it was changed."""
    kept = {id(arguments[0]) for _, arguments in undo if arguments}
    return not kept.isdisjoint(map(id, containers))


# ---- single slots, kept before a commit that later commits may yet fail after -----------------------------------


def _restore_key(target: MutableMapping[str, Any], key: Any, value: Any) -> None:
    if value is not UNBOUND:
        target[key] = value
    elif key in target:
        del target[key]


def _restore_slot(owner: Any, name: str, value: Any) -> None:
    if value is not UNBOUND:
        setattr(owner, name, value)
    elif name in vars(owner) if isinstance(owner, type) else hasattr(owner, name):
        delattr(owner, name)


def save_attr(undo: UndoLog, owner: Any, name: str) -> None:
    """Keep an attribute of an object, class or module; a module has four places to keep one in."""
    places = getattr(owner, "__dict__", None)
    if type(places) is dict:
        undo.append((_restore_key, (places, name, places.get(name, UNBOUND))))
        if isinstance(owner, torch.nn.Module):
            for table in ("_parameters", "_buffers", "_modules"):
                undo.append((_restore_key, (places[table], name, places[table].get(name, UNBOUND))))
        if name in places or not hasattr(type(owner), name):
            return
    held = vars(owner).get(name, UNBOUND) if isinstance(owner, type) else getattr(owner, name, UNBOUND)
    undo.append((_restore_slot, (owner, name, held)))


def save_item(undo: UndoLog, target: Any, key: Any) -> None:
    """Keep one item of a list or one entry of a dictionary."""
    if isinstance(target, list):
        undo.append((list.__setitem__, (target, key, target[key])))
    else:
        undo.append((_restore_key, (target, key, target[key] if key in target else UNBOUND)))


def _restore_cell(cell: CellType, value: Any) -> None:
    if value is UNBOUND:
        del cell.cell_contents
    else:
        cell.cell_contents = value


def save_cell(undo: UndoLog, cell: CellType) -> None:
    """Keep the content of a closure cell."""
    try:
        held = cell.cell_contents
    except ValueError:
        held = UNBOUND
    undo.append((_restore_cell, (cell, held)))


SAVES: Mapping[str, Callable[..., None]] = {
    "tensor": save_tensor,
    "list": save_list,
    "list.append": save_length,
    "dict": save_dict,
    "set": save_set,
    "object.attr": save_attr,
    "deque": save_deque,
    "deque.append": save_deque_length,
    "deque.pop": save_last,
    "deque.popleft": save_first,
}
"""What the target of a ``save`` node stands for; ``list.append`` is enough before append and extend, and those of a
deque before the method of that name; that of an attribute also takes its name."""


# ---- ambient modes, which an interrupt at the edge of a ``with`` block would leave as they are inside it ----------

_AUTOCAST_DEVICES = ("cpu", "cuda")


def save_modes(undo: UndoLog, autocast: bool) -> None:
    """Keep the grad mode, and what ``torch.autocast`` sets."""
    undo.append((torch.set_grad_enabled, (torch.is_grad_enabled(),)))
    if autocast:
        for device in _AUTOCAST_DEVICES:
            undo.append((torch.set_autocast_enabled, (device, torch.is_autocast_enabled(device))))
            undo.append((torch.set_autocast_dtype, (device, torch.get_autocast_dtype(device))))
        undo.append((torch.set_autocast_cache_enabled, (torch.is_autocast_cache_enabled(),)))
        torch.autocast_increment_nesting()
        undo.append((_restore_nesting, (torch.autocast_decrement_nesting(),)))


def _restore_nesting(depth: int) -> None:
    """Leave the autocast blocks that were not left; the outermost clears the cache of converted weights."""
    torch.autocast_increment_nesting()
    while torch.autocast_decrement_nesting() > depth:
        pass  # the one just left was an autocast block's own
    if depth == 0:
        torch.clear_autocast_cache()


# ---- the end of a transaction -----------------------------------------------------------------------------------

_ATTEMPTS = 3


def rollback(undo: UndoLog) -> None:
    """Undo, last change first; every entry runs, then the first error among them is raised.

    An interrupt may come in the middle of an entry, so an entry is tried again, and leaves the log only after that.
    """
    failure: BaseException | None = None
    while undo:
        restore, arguments = undo[-1]
        for _ in range(_ATTEMPTS):
            try:
                restore(*arguments)
                break
            except BaseException as error:
                failure = failure or error
        undo.pop()
    if failure is not None:
        raise failure


_PRINT = builtins.print


def defer_print(prints: Prints, *args: Any, **kwargs: Any) -> None:
    """Make the text of a print now, for the commit; what runs the user's own code is for the eager twin to call."""
    if builtins.print is not _PRINT or not callees.prints_plainly():
        raise Deopt(None)
    prints.append((tuple(map(str, args)), kwargs))


def flush_prints(prints: Prints) -> None:
    """Print what was deferred, in order, with the same writes as the original calls."""
    for texts, kwargs in prints:
        _PRINT(*texts, **kwargs)


# ---- forced failures, for tests ---------------------------------------------------------------------------------


class ForcedAbort:
    """One failure to be forced; ``fired`` says whether it was, ``learns`` whether a graph is given up for it."""

    learns = True

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.fired = False

    def begin(self) -> Hook:
        """The hook of one run: here the checks are counted, and the ``number``-th one fails."""
        checks = 0

        def hook(place: str = "assert") -> bool:
            nonlocal checks
            checks += place != "node"
            if self.fired or place == "node" or checks - 1 != self.number:
                return False
            self.fired = True
            return True

        return hook


_forced: ContextVar[ForcedAbort | None] = ContextVar("janusc_forced_abort", default=None)


@contextmanager
def force(forced: ForcedAbort) -> Iterator[ForcedAbort]:
    """Make what ``forced`` chooses fail in code emitted with ``abort_hooks``.

    Its hook is asked at every guard of the first segment (``"guard"``), every other check (``"assert"``) and before
    every other node of a body that may fail (``"node"``).
    """
    token = _forced.set(forced)
    try:
        yield forced
    finally:
        _forced.reset(token)


def force_abort(number: int) -> AbstractContextManager[ForcedAbort]:
    """Make one assert or guard fail: the one that is checked as the ``number``-th of its run, from 0.

    Acts on code emitted with ``abort_hooks``, once: after it has fired, everything runs as usual.
    """
    return force(ForcedAbort(number))


def _never(place: str = "assert") -> bool:
    return False


def begin_run() -> Hook:
    """The hook of one run of emitted code: asked before every check, it says whether to fail it."""
    forced = _forced.get()
    return _never if forced is None else forced.begin()


def is_learnt_from(error: BaseException) -> bool:
    """Whether a failure is told to the listener: not a forced one that is to leave the graph in use."""
    forced = _forced.get()
    return forced is None or forced.learns or not forced.fired or not isinstance(error, Deopt)
