"""Compound statements beyond ``if`` and loops: match, early exits, contexts, retries, functions inside.

Each takes the writer and writes one statement with blocks of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .writer import Scope, Writer

# by subject: the patterns with what they bind (the number of the statement takes the place of %d), tried in order
PATTERNS: tuple[tuple[str, tuple[tuple[str, tuple[tuple[str, str], ...]], ...]], ...] = (
    ("$I", (("0", ()), ("1 | 2", ()), ("-1", ()), ("int() if $B", ()), ("i%d if i%d > 2", (("I", "i%d"),)))),
    ("$O", (("None", ()), ("torch.Tensor() as r%d", (("R", "r%d"),)))),
    ("$P", (("Pair(row=r%d, low=0.5)", (("R", "r%d"),)), ("Pair(r%d, f%d)", (("R", "r%d"), ("F", "f%d"))))),
    ("$P", (("(r%d, 0.75)", (("R", "r%d"),)), ("(r%d, f%d)", (("R", "r%d"), ("F", "f%d"))))),
    ("$L", (("[]", ()), ("[r%d]", (("R", "r%d"),)), ("[r%d, *l%d]", (("R", "r%d"), ("L", "l%d"))))),
    ("$L", (("[_, r%d]", (("R", "r%d"),)), ("[*_, r%d]", (("R", "r%d"),)))),
    ("$S", (("'a'", ()), ("'b' | 'c'", ()), ("s%d if len(s%d) > 3", (("S", "s%d"),)))),
    ("$D", (("{'a': r%d, 'b': _}", (("R", "r%d"),)), ("{'a': r%d, **d%d}", (("R", "r%d"), ("D", "d%d"))))),
    ("($I, $S)", (("(0, _)", ()), ("(i%d, 'a')", (("I", "i%d"),)), ("(int(), str() as s%d)", (("S", "s%d"),)))),
    ("$V", (("torch.Tensor(ndim=2) as v%d", (("V", "v%d"),)), ("torch.Tensor()", ()))),
    ("$F", (("0.5", ()), ("float() as f%d", (("F", "f%d"),)), ("int()", ()))),
)


def filled(w: Writer, text: str, depth: int = 1) -> str:
    """A text with its holes filled by expressions."""
    return w.fill(text, depth) or "None"


def match(w: Writer) -> None:
    """``match`` over a value of some kind, the last case maybe a wildcard."""
    w.serial += 1
    subject, patterns = w.rng.choice([p for p in PATTERNS if "Pair" not in str(p) or "pair" in w.topics])
    w.emit(f"match {filled(w, subject)}:")
    w.nesting += 1
    ends = []
    for pattern, bound in w.rng.sample(patterns, w.rng.randint(1, len(patterns))):
        w.emit(f"case {filled(w, pattern.replace('%d', str(w.serial)), 0)}:")
        outer, w.scope = w.scope, w.scope.copy()
        for kind, name in bound:
            w.scope.bind(kind, name.replace("%d", str(w.serial)))
        ends.append(w.block(w.size()))
        w.scope = outer
    if w.rng.random() < 0.6:
        w.emit("case _:")
        ends.append(w.block(w.size()))
    else:
        ends.append(w.scope.copy())
    w.nesting -= 1
    join(w, ends)


def join(w: Writer, ends: list[Scope]) -> None:
    """What all ways have bound is bound after them."""
    ends[0].meet(*ends[1:])
    ends[0].fixed = w.scope.fixed
    w.scope = ends[0]


def leave_from_try(w: Writer) -> None:
    """An early return, or a break, out of a ``try`` with a ``finally``."""
    w.emit("try:")
    w.nesting += 1
    saved = w.scope.copy()
    w.simple_of(w.simple, 1)
    w.emit(f"if {w.expression('B', 2)}:")
    jumps = ["break", "continue"] if w.loops and w.rng.random() < 0.5 else []
    w.emit(f"    {w.rng.choice(jumps)}" if jumps else f"    return {w.result_text()}")
    w.simple_of(w.risky if w.rng.random() < 0.4 else w.simple, 2)
    w.nesting -= 1
    w.scope = saved
    if w.rng.random() < 0.4:
        w.emit("except (RuntimeError, IndexError, KeyError):")
        w.block(1, False)
    w.emit("finally:")
    w.block(1, False)


def search(w: Writer) -> None:
    """Two loops left at once, by the ``else`` of the inner one."""
    w.serial += 1
    outer, inner = f"t{w.serial}", f"n{w.serial}"
    scope = w.scope.copy()
    w.emit(f"for {outer} in {w.expression('V', 1)}:")
    w.nesting += 1
    w.scope.bind("R", outer)
    w.emit(f"for {inner} in range({w.rng.choice(('2', '3', 'len(' + outer + ')'))}):")
    w.scope.bind("I", inner)
    w.scope.fixed |= {outer, inner}
    loops, w.loops = w.loops, w.loops + 1
    w.nesting += 1
    w.emit(f"if {w.expression('B', 2)}: break")
    w.nesting -= 1
    w.block(1)
    w.loops = loops
    w.emit("else:")
    w.nesting += 1
    w.simple_of(w.simple, 1)
    w.emit("continue")
    w.nesting -= 1
    w.emit(w.rng.choice(("break", f"return {w.result_text()}" if w.jumps else "break")))
    w.nesting -= 1
    w.scope = scope


def endless(w: Writer) -> None:
    """``while True`` that a break ends."""
    w.serial += 1
    counter = f"n{w.serial}"
    w.emit(f"{counter} = 0")
    w.scope.bind("I", counter)
    w.scope.fixed.add(counter)
    saved = w.scope.copy()
    w.emit("while True:")
    w.nesting += 1
    w.emit(f"{counter} += 1")
    bound = w.rng.choice(("2", "3", f"min({w.expression('I', 1)} % 4, 3)"))
    w.emit(f"if {counter} > {bound} or {counter} > 9: break")
    w.nesting -= 1
    w.loops += 1
    w.block(w.size())
    w.loops -= 1
    w.scope = saved


def context(w: Writer) -> None:
    """A block under a manager of the user's or of the library's."""
    manager = w.rng.choice(
        (
            "Manager('block')", "Manager('a'), Manager('b')", "quiet('block')", "ExitStack() as stack", "WRAP",
            "torch.set_grad_enabled($B)", "suppress(RuntimeError, IndexError)", "torch.enable_grad(), torch.no_grad()",
        )
    )  # fmt: skip
    w.emit(f"with {filled(w, manager)}:")
    saved = w.scope.copy()
    inner = w.block(w.size(), w.jumps and w.rng.random() < 0.4)
    saved.meet(inner)
    w.scope = saved


def retry(w: Writer) -> None:
    """A loop that tries again after an error."""
    w.serial += 1
    name = f"n{w.serial}"
    saved = w.scope.copy()
    w.emit(f"for {name} in range(3):")
    w.scope.bind("I", name)
    w.scope.fixed.add(name)
    w.nesting += 1
    w.emit("try:")
    w.nesting += 1
    w.simple_of(w.risky, 1)
    w.simple_of(w.simple, 1)
    w.emit("break")
    w.nesting -= 1
    w.scope = saved.copy()
    w.emit("except Exception as error:")
    w.emit(f"    LOG.append(({name if w.rng.random() < 0.7 else 0}, type(error).__name__))")
    w.nesting -= 1
    if w.rng.random() < 0.5:
        w.emit("else:")
        w.block(1)
    w.scope = saved


def inner_generator(w: Writer) -> None:
    """A generator function inside, and its items used in some way."""
    w.serial += 1
    name, item = f"gen{w.serial}", f"t{w.serial}"
    w.emit(f"def {name}(v):")
    saved = w.scope.copy(), w.loops, w.jumps
    frozen = {n for names in w.scope.names.values() for n in names}
    w.scope.fixed = w.scope.fixed | frozen
    w.nesting += 1
    w.emit(f"for {item} in v:")
    w.scope.bind("R", item)
    w.nesting += 1
    if w.rng.random() < 0.4:
        w.emit(f"if {w.expression('B', 1)}: return")
    w.emit(f"yield {w.expression('R', 2)}")
    w.nesting -= 1
    if w.rng.random() < 0.3:
        w.emit(f"yield from {w.expression('L', 1)}")
    w.nesting -= 1
    w.scope, w.loops, w.jumps = saved
    use = w.rng.randrange(4)
    source = f"{name}({w.expression('V', 1)})"
    if use == 0:
        w.emit(f"for {item} in {source}:")
        outer, w.scope = w.scope, w.scope.copy()
        w.scope.bind("R", item)
        w.scope.fixed.add(item)
        w.loops += 1
        w.block(w.size())
        w.loops -= 1
        w.scope = outer
    else:
        kind, text = (("L", f"list({source})"), ("R", f"next({source}, LAST)"), ("R", f"sum({source}, LAST)"))[use - 1]
        target = w.target(kind)
        w.emit(f"{target} = {text}")
        w.scope.bind(kind, target)


def inner_recursion(w: Writer) -> None:
    """A function inside that calls itself."""
    w.serial += 1
    name = f"rec{w.serial}"
    w.emit(f"def {name}(t, n):")
    w.nesting += 1
    w.emit(f"if n <= 0 or n > 4: return {w.expression('V', 1)}")
    w.emit(f"return {name}(t * {w.expression('F', 1)}, n - 1) + {w.rng.choice(('t', 'n', w.expression('R', 1)))}")
    w.nesting -= 1
    target = w.target("V")
    w.emit(f"{target} = {name}({w.expression('V', 1)}, {w.expression('I', 1)})")
    w.scope.bind("V", target)


def shared_cells(w: Writer) -> None:
    """Two functions inside over one variable: one sets it, the other reads it."""
    w.serial += 1
    n, kind = w.serial, w.rng.choice(("I", "F", "R"))
    w.emit(f"cell{n} = {w.expression(kind, 1)}")
    w.emit(f"def set{n}(t):")
    w.emit(f"    nonlocal cell{n}")
    w.emit(f"    cell{n} = {w.rng.choice((f'cell{n} + t', 't', f'cell{n} * 2'))}")
    w.emit(f"    return cell{n}")
    w.emit(f"def get{n}(): return cell{n}")
    w.emit(f"set{n}({w.expression(kind, 1)})")
    if w.rng.random() < 0.4:
        w.emit(f"if {w.expression('B', 1)}: set{n}({w.expression(kind, 1)})")
    target = w.target(kind)
    w.emit(f"{target} = get{n}() + cell{n}")
    w.scope.bind(kind, target)


# by topic; those of "core" are in every program
COMPOUNDS: tuple[tuple[str, Callable[[Writer], None]], ...] = (
    ("match", match),
    ("match", match),
    ("errors", leave_from_try),
    ("errors", retry),
    ("core", leave_from_try),
    ("core", search),
    ("core", endless),
    ("context", context),
    ("context", context),
    ("generator", inner_generator),
    ("generator", inner_generator),
    ("closure", inner_recursion),
    ("cell", shared_cells),
    ("cell", shared_cells),
)
