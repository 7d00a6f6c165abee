"""Generated programs of nested control flow, each of which records what it does in a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from zlib import crc32

from hypothesis import strategies as st


@dataclass
class Writer:
    """Writes one function; every test it makes is a call of ``ask``, whose answers the test chooses."""

    draw: Any
    budget: int = 24
    number: int = 0

    def next(self) -> int:
        self.number += 1
        return self.number

    def block(self, depth: int, in_loop: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self.draw(st.integers(1, 3))):
            lines += self.statement(depth, in_loop)
        return lines

    def statement(self, depth: int, in_loop: bool) -> list[str]:
        self.budget -= 1
        plain = ["mark", "mark", "return"] + (["break", "continue"] if in_loop else [])
        compound = ["if", "if", "ifelse", "for", "while", "forever", "with", "swallow", "try", "finally", "match"]
        kinds = plain if depth == 0 or self.budget <= 0 else plain + compound
        kind = self.draw(st.sampled_from(kinds))
        return getattr(self, f"_{kind}")(depth - 1, in_loop)

    def _mark(self, depth: int, in_loop: bool) -> list[str]:
        return [f"x = mark({self.next()}, x)"]

    def _return(self, depth: int, in_loop: bool) -> list[str]:
        return [self.draw(st.sampled_from([f"return mark({self.next()}, x)", "return"]))]

    def _break(self, depth: int, in_loop: bool) -> list[str]:
        return ["break"]

    def _continue(self, depth: int, in_loop: bool) -> list[str]:
        return ["continue"]

    def _indented(self, depth: int, in_loop: bool) -> list[str]:
        return ["    " + line for line in self.block(depth, in_loop)]

    def _if(self, depth: int, in_loop: bool) -> list[str]:
        return [f"if ask({self.next()}):", *self._indented(depth, in_loop)]

    def _ifelse(self, depth: int, in_loop: bool) -> list[str]:
        return [*self._if(depth, in_loop), "else:", *self._indented(depth, in_loop)]

    def _else(self, depth: int, in_loop: bool) -> list[str]:
        return ["else:", *self._indented(depth, in_loop)] if self.draw(st.booleans()) else []

    def _for(self, depth: int, in_loop: bool) -> list[str]:
        name = f"i{self.next()}"
        head = f"for {name} in items({self.next()}):"
        return [head, f"    x = mark({name}, x)", *self._indented(depth, True), *self._else(depth, in_loop)]

    def _while(self, depth: int, in_loop: bool) -> list[str]:
        return [f"while ask({self.next()}):", *self._indented(depth, True), *self._else(depth, in_loop)]

    def _forever(self, depth: int, in_loop: bool) -> list[str]:
        return ["while True:", f"    tick({self.next()})", *self._indented(depth, True), *self._else(depth, in_loop)]

    def _with(self, depth: int, in_loop: bool) -> list[str]:
        return [f"with manager({self.next()}):", *self._indented(depth, in_loop)]

    def _swallow(self, depth: int, in_loop: bool) -> list[str]:
        return [f"with swallower({self.next()}):", *self._indented(depth, in_loop)]

    def _try(self, depth: int, in_loop: bool) -> list[str]:
        lines = ["try:", *self._indented(depth, in_loop), "except ValueError as error:"]
        return [*lines, *self._indented(depth, in_loop), *self._else(depth, in_loop)]

    def _finally(self, depth: int, in_loop: bool) -> list[str]:
        return ["try:", *self._indented(depth, in_loop), "finally:", f"    mark({self.next()}, None)"]

    def _match(self, depth: int, in_loop: bool) -> list[str]:
        one, two = self._indented(depth, in_loop), self._indented(depth, in_loop)
        return [
            f"match ask({self.next()}):",
            "    case True:",
            *("    " + line for line in one),
            "    case y:",
            *("    " + line for line in two),
        ]


@st.composite
def programs(draw: Any) -> str:
    """The text of a function ``f(x)``."""
    writer = Writer(draw)
    body = writer.block(draw(st.integers(1, 4)), in_loop=False)
    return "def f(x):\n" + "\n".join("    " + line for line in body) + "\n"


class World:
    """What the programs talk to: gives the same answers to the same questions, and records all of it.

    Every so often ``mark`` and the exit of a manager raise ValueError; ``ask`` ends loops for good after a while.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.trace: list[Any] = []

    def chance(self, number: Any, one_in: int) -> bool:
        return crc32(repr((self.seed, number, len(self.trace))).encode()) % one_in == 0

    def mark(self, number: Any, value: Any) -> Any:
        self.tick(number)
        if self.chance(number, 9):
            raise ValueError(number)
        return (number, len(self.trace))

    def tick(self, number: Any) -> None:
        self.trace.append(number)
        if len(self.trace) > 60:
            raise OverflowError

    def ask(self, number: int) -> bool:
        self.tick(("ask", number))
        return self.chance(number, 2)

    def items(self, number: int) -> Any:
        for item in range(crc32(repr((self.seed, number)).encode()) % 4):
            self.tick(("item", number, item))
            yield item

    def manager(self, number: int) -> Any:
        return Manager(self, number, False)

    def swallower(self, number: int) -> Any:
        return Manager(self, number, True)

    def names(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("mark", "tick", "ask", "items", "manager", "swallower")}


class Manager:
    def __init__(self, world: World, number: int, swallows: bool) -> None:
        self.world, self.number, self.swallows = world, number, swallows

    def __enter__(self) -> None:
        self.world.tick(("enter", self.number))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.world.tick(("exit", self.number, kind and kind.__name__))
        if self.world.chance(("exit", self.number), 5):
            raise ValueError("exit")
        return self.swallows and kind is ValueError
