"""Function bodies at random: statements that nest, over variables whose kinds are known while writing."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from . import expressions, forms, statements
from .compounds import COMPOUNDS, leave_from_try
from .templates import Template, joined

EXPRESSIONS = joined(expressions.EXPRESSIONS, forms.EXPRESSIONS)
LEAVES = joined(expressions.LEAVES, forms.LEAVES)
STATEMENTS = (*statements.STATEMENTS, *forms.STATEMENTS)
RISKY = (*statements.RISKY, *forms.RISKY)
HOLE = re.compile(r"\$(@?)([A-Z]|[a-z])(?![A-Za-z])")
ERRORS = ("RuntimeError", "(RuntimeError, ValueError)", "(IndexError, KeyError)", "Exception", "ZeroDivisionError")
DEPTH, NESTING = 3, 3


@dataclass
class Scope:
    """What is bound where the next statement goes, by kind, and what no statement may change."""

    names: dict[str, list[str]] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)

    def copy(self) -> Scope:
        return Scope({kind: list(names) for kind, names in self.names.items()}, set(self.fixed))

    def bind(self, kind: str, name: str) -> None:
        for names in self.names.values():
            if name in names:
                names.remove(name)
        self.names.setdefault(kind, []).append(name)

    def meet(self, *others: Scope) -> None:
        """Keep what every way to here has bound."""
        for kind, names in self.names.items():
            self.names[kind] = [n for n in names if all(n in o.names.get(kind, ()) for o in others)]


class Writer:
    """Writes one function's body; ``calls`` are templates that call what was written before."""

    def __init__(
        self, rng: random.Random, topics: Sequence[str], scope: Scope, result: str, calls: Sequence[Template] = ()
    ) -> None:
        self.rng, self.topics, self.scope, self.result = rng, {"core", *topics}, scope, result
        self.lines: list[str] = []
        self.loops = self.nesting = self.serial = 0
        self.jumps = True  # whether break, continue and return may be written here
        self.calls = calls
        self.tables = {kind: self._weighed(templates) for kind, templates in EXPRESSIONS.items()}
        self.simple = self._weighed(STATEMENTS)
        self.risky = self._weighed(RISKY)

    def _weighed(self, templates: Sequence[Template]) -> tuple[list[Template], list[float]]:
        """The templates of this program's topics; a topic weighs more than what every program has."""
        chosen = [t for t in templates if t.topic in self.topics]
        return chosen, [t.weight * (1 if t.topic == "core" else 2) for t in chosen]

    # ---- expressions

    def choose(self, weighed: tuple[list[Template], list[float]]) -> Template:
        return self.rng.choices(*weighed)[0]

    def variable(self, kind: str, changing: bool = False) -> str | None:
        names = [n for n in self.scope.names.get(kind, ()) if not (changing and n in self.scope.fixed)]
        return self.rng.choice(names) if names else None

    def expression(self, kind: str, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.3:
            name = self.variable(kind)
            if name is not None and self.rng.random() < 0.85:
                return name
            return self.leaf(kind)
        calls = [t for t in self.calls if t.topic == kind]
        if calls and self.rng.random() < 0.12:
            template = self.rng.choice(calls)
        else:
            template = self.choose(self.tables[kind])
        filled = self.fill(template.text, depth - 1)
        return self.expression(kind, 0) if filled is None else filled

    def leaf(self, kind: str) -> str:
        filled = self.fill(self.rng.choice(LEAVES[kind]), 0)
        return LEAVES[kind][-1] if filled is None else filled

    def fill(self, text: str, depth: int, changing: bool = False) -> str | None:
        """The template with its holes filled, or None where it wants a variable that there isn't; binds the targets."""
        targets: list[tuple[str, str]] = []
        same: dict[str, str | None] = {}

        def put(match: re.Match[str]) -> str:
            target, letter = match.groups()
            if target:
                name = self.target(letter, [n for _, n in targets])
                targets.append((letter, name))
                return name
            if letter.isupper():
                return self.expression(letter, depth)
            if letter not in same or self.rng.random() < 0.3:
                same[letter] = self.variable(letter.upper(), changing)
            return same[letter] or "$"

        filled = HOLE.sub(put, text)
        if "$" in filled:
            return None
        for kind, name in targets:
            self.scope.bind(kind, name)
        return filled

    def target(self, kind: str, taken: Sequence[str] = ()) -> str:
        names = [n for n in self.scope.names.get(kind, ()) if n not in self.scope.fixed and n not in taken]
        if names and self.rng.random() < 0.6:
            return self.rng.choice(names)
        free = [n for n in (f"{kind.lower()}{i}" for i in range(9)) if n not in self.scope.fixed and n not in taken]
        return self.rng.choice(free[:6])

    # ---- statements

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.nesting + line)

    def block(self, size: int, jumps: bool | None = None) -> Scope:
        """An indented block; returns what is bound at its end."""
        outer, before, allowed = self.scope, self.scope.copy(), self.jumps
        self.scope = before
        self.jumps = allowed if jumps is None else jumps
        self.nesting += 1
        for _ in range(max(1, size)):
            self.statement()
        self.nesting -= 1
        inner, self.scope, self.jumps = self.scope, outer, allowed
        return inner

    def body(self, size: int) -> None:
        self.nesting += 1
        for _ in range(size):
            self.statement()
        self.emit(f"return {self.result_text()}")
        self.nesting -= 1

    def result_text(self) -> str:
        """What a function returns; the function under test mostly shows several of its variables."""
        if self.result == "*" and self.rng.random() < 0.6:
            bound = [n for kind, names in self.scope.names.items() if kind != "C" for n in names]
            shown = sorted(self.rng.sample(sorted(bound), min(len(bound), self.rng.choice((2, 3, 5)))))
            return ", ".join(shown)
        if self.result == "*":
            return self.rng.choice(
                [
                    self.expression("V", 2),
                    f"{self.expression('V', 1)}, {self.expression('R', 1)}",
                    f"{self.expression('V', 1)}, {self.expression('I', 1)}, {self.expression('F', 1)}",
                    f"[{self.expression('V', 1)}, {self.expression('W', 1)}]",
                    f"{{'out': {self.expression('V', 1)}, 'list': {self.expression('L', 1)}}}",
                ]
            )
        return self.expression(self.result, 2)

    def statement(self) -> None:
        depth = self.rng.choice((1, 2, 2, 3))
        roll = self.rng.random()
        if roll < 0.3 and self.nesting < NESTING:
            self.rng.choice(self.compounds())()
        elif roll < 0.36 and self.jumps:
            self.jump()
        elif roll < 0.39:
            self.simple_of(self.risky, depth)
        else:
            self.simple_of(self.simple, depth)

    def simple_of(self, weighed: tuple[list[Template], list[float]], depth: int) -> None:
        for _ in range(20):
            filled = self.fill(self.choose(weighed).text, depth, changing=True)
            if filled is not None:
                for line in filled.split("\\n"):
                    self.emit(line)
                return
        self.emit(f"{self.target('V')} = torch.ones(3, 4)")

    def jump(self) -> None:
        self.emit(f"if {self.expression('B', 2)}:")
        self.nesting += 1
        choices = ["return", "raise"]
        if self.loops:
            choices += ["break", "continue"] * 2
        kind = self.rng.choice(choices)
        if self.rng.random() < 0.4:
            saved = self.scope.copy()
            self.simple_of(self.simple, 1)
            if kind == "return":
                self.emit(f"return {self.result_text()}")
            self.scope = saved
        elif kind == "return":
            self.emit(f"return {self.result_text()}")
        if kind == "raise":
            self.emit(f"raise {self.rng.choice(('ValueError', 'KeyError'))}('generated', {self.expression('I', 1)})")
        elif kind != "return":
            self.emit(kind)
        self.nesting -= 1

    def compounds(self) -> list[Callable[[], None]]:
        found = [self.branch, self.branch, self.branch, self.for_loop, self.for_loop, self.while_loop]
        found += [self.guarded] + [self.no_grad] * (self.rng.random() < 0.3)
        if "closure" in self.topics:
            found += [self.inner_function] * 2
        found += [partial(write, self) for topic, write in COMPOUNDS if topic in self.topics and self.fits(write)]
        return found

    def fits(self, write: Callable[[Writer], None]) -> bool:
        """What jumps may only be written where jumps may be."""
        return self.jumps or write is not leave_from_try

    def size(self) -> int:
        return self.rng.choice((1, 1, 2, 3))

    def branch(self) -> None:
        self.emit(f"if {self.expression('B', 3)}:")
        ends = [self.block(self.size())]
        while self.rng.random() < 0.2:
            self.emit(f"elif {self.expression('B', 2)}:")
            ends.append(self.block(self.size()))
        if self.rng.random() < 0.5:
            self.emit("else:")
            ends.append(self.block(self.size()))
        else:
            ends.append(self.scope.copy())
        if self.rng.random() < 0.97:  # now and then a variable may be unbound
            ends[0].meet(*ends[1:])
        ends[0].fixed = self.scope.fixed
        self.scope = ends[0]

    def for_loop(self) -> None:
        self.serial += 1
        lists = self.scope.names.get("L", ())
        name = self.rng.choice(lists) if lists else None
        item = f"t{self.serial}"
        trips = "k % 5" if "k" in self.scope.names.get("I", ()) else "1"
        headers = [
            ([("I", item)], f"{item} in range({self.expression('I', 1)} % 4)"),
            (
                [("I", item)],
                f"{item} in range({self.rng.choice(('2', '3', trips))})",
            ),
            ([("R", item)], f"{item} in {self.expression('V', 1)}"),
            ([("R", item)], f"{item} in {self.expression('L', 1)}[:3]"),
            (
                [("I", f"n{self.serial}"), ("R", item)],
                f"n{self.serial}, {item} in enumerate({self.expression('L', 2)}[:4])",
            ),
            (
                [("R", item), ("R", f"n{self.serial}")],
                f"{item}, n{self.serial} in zip({self.expression('L', 1)}[:4], {self.expression('V', 1)})",
            ),
        ]
        if name is not None:
            headers += [([("R", item)], f"{item} in {name}")] * 3
        maps = self.variable("D")
        if maps is not None:
            headers.append(([("S", f"n{self.serial}"), ("R", item)], f"n{self.serial}, {item} in list({maps}.items())"))
        bound, header = self.rng.choice(headers)
        outer, before = self.scope, self.scope.copy()
        self.emit(f"for {header}:")
        self.scope = self.scope.copy()
        for kind, target in bound:
            self.scope.bind(kind, target)
            self.scope.fixed.add(target)
        self.loops += 1
        if header.endswith(f"in {name}"):
            self.nesting += 1
            self.emit(f"if {name}[8:]: break")
            self.nesting -= 1
        self.block(self.size())
        self.loops -= 1
        self.scope = outer
        self.otherwise()
        self.scope = before

    def otherwise(self) -> None:
        if self.rng.random() < 0.15:
            self.emit("else:")
            self.block(1)

    def while_loop(self) -> None:
        self.serial += 1
        counter = f"n{self.serial}"
        self.emit(f"{counter} = {self.rng.choice(('0', '0', '1', self.expression('I', 1) + ' % 3'))}")
        self.scope.bind("I", counter)
        self.scope.fixed.add(counter)
        bound = self.rng.choice(("3", "4", f"{self.expression('I', 1)} % 5"))
        test = self.rng.choice((f"{counter} < {bound}", f"{counter} < {bound} and {self.expression('B', 2)}"))
        self.emit(f"while {test}:")
        self.nesting += 1
        self.emit(f"{counter} += 1")
        self.nesting -= 1
        self.loops += 1
        self.block(self.size())
        self.loops -= 1
        self.otherwise()

    def guarded(self) -> None:
        self.emit("try:")
        self.nesting += 1
        saved = self.scope.copy()
        if self.rng.random() < 0.5:
            self.simple_of(self.simple, 1)
        self.simple_of(self.risky, 2)
        if self.rng.random() < 0.5:
            self.simple_of(self.simple, 2)
        self.nesting -= 1
        tried, self.scope = self.scope, saved
        jumps = self.rng.random() < 0.15 and self.jumps
        if self.rng.random() < 0.8:
            self.emit(f"except {self.rng.choice(ERRORS)}{self.rng.choice(('', ' as error'))}:")
            handled = self.block(self.size(), jumps)
            if self.rng.random() < 0.25:
                self.emit("else:")
                self.scope, saved = tried, self.scope
                self.block(1, jumps)
                tried, self.scope = self.scope, saved
            handled.meet(tried)
            if self.rng.random() < 0.25:
                self.emit("finally:")
                self.block(1, False)
            handled.fixed = self.scope.fixed
            self.scope = handled
        else:
            self.emit("finally:")
            self.block(self.size(), False)

    def no_grad(self) -> None:
        self.emit(self.rng.choice(("with torch.no_grad():", "with torch.no_grad():", "with torch.enable_grad():")))
        self.scope = self.block(self.size(), self.rng.random() < 0.2 and self.jumps)

    def inner_function(self) -> None:
        self.serial += 1
        name, count = f"inner{self.serial}", self.variable("I", changing=True)
        self.emit(f"def {name}(t, a={self.expression('F', 1)}):")
        saved = self.scope.copy(), self.loops, self.result, self.jumps
        self.scope.bind("V", "t")
        self.scope.bind("F", "a")
        self.loops, self.result = 0, "V"
        self.nesting += 1
        assigned = count is not None and self.rng.random() < 0.5
        frozen = {n for names in self.scope.names.values() for n in names} - {"t", "a"}
        self.scope.fixed = (self.scope.fixed | frozen) - ({count} if assigned and count else set())
        if assigned:
            self.emit(f"nonlocal {count}")
            self.emit(f"{count} += 1")
        if self.rng.random() < 0.6:
            self.emit(f"t = {self.expression('V', 2)}")
        if self.rng.random() < 0.4:
            self.emit(f"if {self.expression('B', 1)}: return {self.expression('V', 1)}")
        self.emit(f"return {self.expression('V', 2)}")
        self.nesting -= 1
        self.scope, self.loops, self.result, self.jumps = saved
        self.scope.bind("C", name)
