"""The writer of emitted source: lines, names of values, and objects bound to readable names.

Comes in: arguments of nodes. Goes out: expressions. The names of the user's parameters are reserved, so that neither a
value nor a bound object is ever hidden by one.
"""

from __future__ import annotations

import builtins
import keyword
import math
import operator
import pkgutil
import random
import re
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from janusc.lowering.ir import Arg, Const, Dct, Lst, Node, Ref, Slc, Tup, Value
from janusc.runtime.backends.base import Backend, Place
from janusc.sentinels import UNBOUND
from janusc.source import Span
from janusc.typeinfer import torch_table

_VALUE_NAME = re.compile(r"v\d+(_\d+)?$")
_BARE = (None, True, False, ...)
_LONG = 72
# Beyond this an integer's decimal form is slow to make, or refused by the interpreter.
_LARGE = 1 << 128


_FUNCTIONS = {f"{m.__name__}.{name}": f for m in (math, operator, random) for name, f in vars(m).items()}


def resolve(dotted: str) -> Any:
    """The object that a dotted name of the outside world stands for; without a dot, the builtin.

    Of functions it is the original: the program may have put a function of its own there that calls it.
    """
    known = torch_table.function_named(dotted) or _FUNCTIONS.get(dotted)
    if known is not None:
        return known
    return pkgutil.resolve_name(dotted) if "." in dotted else getattr(builtins, dotted)


def is_plain(name: str) -> bool:
    """Whether a name may stand after a dot, or before ``=`` in a call."""
    return name.isidentifier() and not keyword.iskeyword(name)


def tuple_text(items: Sequence[str]) -> str:
    """The display of a tuple, also as the target of an assignment."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


class Writer:
    """One function under construction; ``namespace`` becomes its globals."""

    def __init__(
        self, objects: dict[str, Any], reserved: Iterable[str], backend: Backend, abort_hooks: bool = False
    ) -> None:
        self.lines: list[str] = []
        self.spans: list[Span | None] = []  # of each line, the user's line it stands for
        self.namespace: dict[str, Any] = {}
        self.legend: list[str] = []  # what the bound names stand for, where they do not say it themselves
        self.backend = backend
        self.blocks = 0
        self.steps = 0  # of optimizers
        self.one_by_one = False  # whether there are to be no blocks: in what is done where a block has no kernel
        self.bare: frozenset[Value] = frozenset()  # values whose history nobody can see
        self.places: list[tuple[str, Place]] = []  # that may have kernels
        self.abort_hooks = abort_hooks
        self.last: Node | None = None  # the node after which nothing of the transaction can fail
        self.fail: Callable[[str | None], str] = self.deopt
        self.objects = objects
        self._margin = ""
        self._tail = 0
        self._names: dict[Value, str] = {}
        self._literals: dict[Value, Const] = {}  # values that stand for a constant
        self._taken = set(reserved)
        self._bound: dict[int, str] = {}
        self._counts: dict[str, int] = {}
        self._remarks: dict[tuple[str, int], str] = {}

    # lines

    def line(self, text: str, span: Span | None = None) -> None:
        """One line at the current indentation, with the user's line as a comment."""
        remark = self._remark(span) if span is not None else ""
        self.lines.append(f"{self._margin}{text}{remark}")
        self.spans.append(span)
        self._tail = len(remark)

    def release(self, names: Iterable[str], same_line: bool) -> None:
        """Delete names that are not read again; on the line just written, where that is a simple statement."""
        text = f"del {', '.join(names)}"
        if not same_line:
            self.line(text)
            return
        line = self.lines[-1]
        end = len(line) - self._tail
        self.lines[-1] = f"{line[:end]}; {text}{line[end:]}"

    def indent(self) -> None:
        """Begin an indented suite."""
        self._margin += "    "

    def dedent(self) -> None:
        """End the innermost suite."""
        self._margin = self._margin[:-4]

    def _remark(self, span: Span) -> str:
        key = span.filename, span.line
        if key not in self._remarks:
            text = " ".join(span.text().encode(errors="replace").decode().split())
            text = text if len(text) <= _LONG else text[:_LONG] + " ..."
            self._remarks[key] = f"  # {span.line}: {text}" if text else ""
        return self._remarks[key]

    # names

    def fresh(self, base: str) -> str:
        """A local name that is not in use."""
        name, count = base, self._counts.get(base, 1)
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._counts[base] = count
        self._taken.add(name)
        return name

    def define(self, value: Value) -> str:
        """The name to assign a value to."""
        if value not in self._names:
            self._names[value] = self.fresh(f"v{value.id}")
        return self._names[value]

    def is_named(self, value: Value) -> bool:
        """Whether a variable holds the value."""
        return value in self._names

    def rename(self, value: Value, name: str) -> None:
        """Let a value be known by a name that holds it already, or that it is to be assigned to."""
        self._names[value] = name
        self._literals.pop(value, None)

    def alias(self, value: Value, arg: Arg) -> None:
        """Let a parameter stand for an argument; only a template needs a variable of its own."""
        literal, text = self.literal(arg), self.expr(arg)
        if not isinstance(arg, (Value, Ref, Const)):
            name = self.fresh(f"v{value.id}")
            self.line(f"{name} = {text}")
            text = name
        self.rename(value, text)
        if literal is not None:
            self._literals[value] = literal

    def bind(self, obj: Any, hint: str) -> str:
        """The global name of an object, made from the hint; the same object keeps its first name."""
        known = self._bound.get(id(obj))
        if known is not None:
            return known
        base = re.sub(r"\W", "_", hint) or "object"
        base = f"_{base}" if base[0].isdigit() else base
        # Not a builtin's name: emitted lines use those.
        if keyword.iskeyword(base) or hasattr(builtins, base) or _VALUE_NAME.match(base) or base.startswith("_jc_"):
            base += "_"
        name = self.fresh(base)
        self.namespace[name] = obj
        self._bound[id(obj)] = name
        return name

    def runtime(self, name: str, obj: Any) -> str:
        """The global name ``_jc_...`` of a part of the runtime."""
        self.namespace[name] = obj
        return name

    def builtin(self, name: str) -> str:
        """A builtin by its own name, where no parameter hides it."""
        return name if name not in self._taken else self.bind(getattr(builtins, name), name)

    def target(self, dotted: str) -> str:
        """The global name of the function with this dotted name."""
        if "." not in dotted:
            return self.builtin(dotted)
        function = resolve(dotted)
        known = id(function) in self._bound
        name = self.bind(function, dotted.rpartition(".")[2])
        if not known:
            self.legend.append(f"{name} = {dotted}")
        return name

    # expressions

    def expr(self, arg: Arg) -> str:
        """The expression of an argument."""
        if isinstance(arg, Value):
            try:
                return self._names[arg]
            except KeyError:
                raise ValueError(f"{arg!r} is used before it is defined") from None
        if isinstance(arg, Const):
            return self._const(arg.value)
        if isinstance(arg, Ref):
            if arg.name == UNBOUND.name and arg.name not in self.objects:
                return self.runtime("_jc_UNBOUND", UNBOUND)
            target = self.objects[arg.name]
            name = self.bind(target, arg.name)
            return f"{name}()" if isinstance(target, weakref.ref) else name
        return self._template(arg)

    def _template(self, arg: Tup | Lst | Dct | Slc) -> str:
        if isinstance(arg, Dct):
            pairs = (f"{self.expr(k)}: {self.expr(v)}" for k, v in zip(arg.keys, arg.values))
            return f"{{{', '.join(pairs)}}}"
        if isinstance(arg, Slc):
            return f"{self.builtin('slice')}({self.expr(arg.lower)}, {self.expr(arg.upper)}, {self.expr(arg.step)})"
        items = [self.expr(item) for item in arg.items]
        return f"[{', '.join(items)}]" if isinstance(arg, Lst) else tuple_text(items)

    def _const(self, value: Any) -> str:
        cls = type(value)
        if cls is str:
            return repr(value)
        if any(value is bare for bare in _BARE):
            return "..." if value is ... else repr(value)
        if cls in (str, bytes) or cls is int and -_LARGE < value < _LARGE:
            return repr(value)
        if cls is float and value - value == 0.0:
            return repr(value)
        return self.bind_const(value)

    def bind_const(self, value: Any) -> str:
        """The global name of a constant."""
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return self.bind(value, str(value).rpartition(".")[2])
        if isinstance(value, torch.device):
            return self.bind(value, f"device_{value}")
        if type(value) is float:
            return self.bind(value, "nan" if value != value else "infinity" if value > 0 else "minus_infinity")
        return self.bind(value, f"const_{type(value).__name__}")

    def literal(self, arg: Arg) -> Const | None:
        """The constant that an argument is, or stands for."""
        return arg if isinstance(arg, Const) else self._literals.get(arg) if isinstance(arg, Value) else None

    def operand(self, arg: Arg) -> str:
        """The expression of an argument beside an operator."""
        text = self.expr(arg)
        return text if text[0] != "-" else f"({text})"

    def name(self, arg: Arg) -> str:
        """An argument as a name, where a literal would read badly: before a dot, an index, a call or ``is``."""
        text = self.expr(arg)
        if text.isidentifier():
            return text
        literal = self.literal(arg)
        return f"({text})" if literal is None else self.bind_const(literal.value)

    def call(self, args: tuple[Arg, ...], kwargs: tuple[tuple[str, Arg], ...] = ()) -> str:
        """The arguments of a call."""
        items = [self.expr(a) for a in args]
        items += [f"{k}={self.expr(a)}" for k, a in kwargs if is_plain(k)]
        odd = [f"{k!r}: {self.expr(a)}" for k, a in kwargs if not is_plain(k)]
        if odd:
            items.append(f"**{{{', '.join(odd)}}}")
        return ", ".join(items)

    def deopt(self, site: str | None) -> str:
        """The statement that gives up a transaction."""
        return f"raise _jc_Deopt({site!r})"
