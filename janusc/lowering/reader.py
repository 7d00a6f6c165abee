"""Reads the text form of ``printer`` back into graphs and chains.

Line by line, each line by a small scanner. A comment ``# file.py:12`` at the end of a line becomes the node's span.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import torch

from janusc.diagnostics import JanusError
from janusc.lowering.ir import (
    Arg,
    Chain,
    Const,
    Dct,
    Graph,
    HostRange,
    Lst,
    Mark,
    Node,
    Ref,
    Segment,
    Slc,
    Step,
    Tup,
    Value,
)
from janusc.lowering.ops import OPS
from janusc.lowering.printer import PLAIN_NAME
from janusc.source import Span
from janusc.types import ANY, Constant, HostType, TensorType, TupleType, Type

T = TypeVar("T")
STRING = re.compile(r"""b?('(\\.|[^'\\])*'|"(\\.|[^"\\])*")""")
NUMBER = re.compile(r"-?(?:inf|nan|\d[\d.]*(?:e[-+]?\d+)?)j?(?!\w)|\([-+.\w]+j\)")
HOST_NAME = re.compile(r"[\w.<>]+")
VALUE_NAME = re.compile(r"%\d+")
WORDS: dict[str, Any] = {"None": None, "True": True, "False": False}
DTYPES = {str(d).removeprefix("torch."): d for d in vars(torch).values() if isinstance(d, torch.dtype)}


class ReadError(JanusError):
    """Text that is not a graph or chain; the message holds the line."""


@dataclass
class _Lines:
    lines: list[str]
    at: int = 0

    def next(self) -> _Scanner:
        while self.at < len(self.lines):
            self.at += 1
            text = self.lines[self.at - 1].strip()
            if text:
                return _Scanner(text, self.at)
        raise ReadError("the text ends in the middle of a graph")

    def done(self) -> bool:
        return not any(line.strip() for line in self.lines[self.at :])


@dataclass
class _Scanner:
    text: str
    line: int
    at: int = 0

    def fail(self, wanted: str) -> NoReturn:
        raise ReadError(f"line {self.line}: {wanted} expected at {self.text[self.at :]!r} in {self.text!r}")

    def blank(self) -> None:
        while self.text.startswith(" ", self.at):
            self.at += 1

    def take(self, token: str) -> bool:
        self.blank()
        if not self.text.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def need(self, token: str) -> None:
        if not self.take(token):
            self.fail(repr(token))

    def match(self, pattern: re.Pattern[str]) -> str | None:
        self.blank()
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found.group()

    def series(self, closing: str, item: Callable[[], T]) -> list[T]:
        """Comma-separated items up to ``closing``."""
        items: list[T] = []
        while not self.take(closing):
            items.append(item())
            if not self.take(","):
                self.need(closing)
                break
        return items

    def word(self, wanted: str = "a name") -> str:
        return self.match(PLAIN_NAME) or self.string(wanted)

    def string(self, wanted: str = "a string") -> str:
        text = self.match(STRING)
        if text is None or text.startswith("b"):
            self.fail(wanted)
        return str(ast.literal_eval(text))

    def span(self) -> Span | None:
        """The comment that ends the line."""
        if self.take("# "):
            name, colon, line = self.text[self.at :].rpartition(":")
            if not colon or not line.isdigit():
                self.fail("file:line")
            self.at = len(self.text)
            return Span(name, int(line))
        self.end()
        return None

    def end(self) -> None:
        self.blank()
        if self.at < len(self.text):
            self.fail("the end of the line")


def read_type(scan: _Scanner) -> Type:
    """The type at the scanner's place."""
    if scan.take("("):
        return TupleType(tuple(scan.series(")", lambda: read_type(scan))))
    if scan.take("="):
        return _constant(scan)
    name = scan.match(HOST_NAME)
    if name is None:
        scan.fail("a type")
    if name == "any":
        return ANY
    dtype = DTYPES.get(name)
    if dtype is None and name != "tensor":
        return HostType(name)
    if scan.take("[...]"):
        return TensorType(dtype, None)
    if scan.take("["):
        return TensorType(dtype, tuple(scan.series("]", lambda: _dimension(scan))))
    return HostType(name) if dtype is not None else TensorType()


def _dimension(scan: _Scanner) -> int | None:
    if scan.take("?"):
        return None
    digits = scan.match(re.compile(r"\d+"))
    return int(digits) if digits is not None else scan.fail("a dimension")


def _constant(scan: _Scanner) -> Type:
    start = scan.at
    value = _literal(scan)
    if value is None:
        scan.fail("a literal")
    return Constant(scan.text[start : scan.at].strip(), type(value.value).__name__)


def _literal(scan: _Scanner) -> Const | None:
    """A number, string, bytes or singleton, if there is one here."""
    for word, value in WORDS.items():
        if scan.match(re.compile(rf"{word}\b")):
            return Const(value)
    text = scan.match(STRING)
    if text is not None:
        return Const(ast.literal_eval(text))
    text = scan.match(NUMBER)
    if text is None:
        return None
    if text.rstrip(")").endswith("j"):
        return Const(complex(text))
    return Const(float(text) if re.search(r"[.en]", text) else int(text))


class _Reader:
    """Holds the values named so far; a graph's lines may name values of no other graph."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = _Lines(lines)
        self.values: dict[str, Value] = {}

    def define(self, scan: _Scanner) -> Value:
        name = scan.match(VALUE_NAME)
        if name is None:
            scan.fail("a value")
        scan.need(":")
        if name in self.values:
            raise ReadError(f"line {scan.line}: {name} is defined a second time")
        value = self.values[name] = Value(int(name[1:]), read_type(scan))
        return value

    def arg(self, scan: _Scanner) -> Arg:
        name = scan.match(VALUE_NAME)
        if name is not None:
            if name not in self.values:
                raise ReadError(f"line {scan.line}: {name} is not defined")
            return self.values[name]
        if scan.take("&"):
            return Ref(scan.word())
        literal = _literal(scan)  # before "(": a complex number has parentheses of its own
        if literal is not None:
            return literal
        if scan.take("..."):
            return Const(...)
        return self._template(scan)

    def _template(self, scan: _Scanner) -> Arg:
        if scan.take("("):
            return Tup(self.args(scan))
        if scan.take("["):
            return Lst(tuple(scan.series("]", lambda: self.arg(scan))))
        if scan.take("{"):
            pairs = scan.series("}", lambda: self._pair(scan))
            return Dct(tuple(k for k, _ in pairs), tuple(v for _, v in pairs))
        if scan.take("slice("):
            bounds = self.args(scan)
            return Slc(*bounds) if len(bounds) == 3 else scan.fail("three bounds of a slice")
        if scan.take("device("):
            device = torch.device(scan.string())
            scan.need(")")
            return Const(device)
        word = scan.match(PLAIN_NAME)
        if word is None or not word.startswith("torch."):
            scan.fail("an argument")
        return Const(getattr(torch, word.removeprefix("torch.")))

    def args(self, scan: _Scanner) -> tuple[Arg, ...]:
        """Arguments up to a closing parenthesis."""
        return tuple(scan.series(")", lambda: self.arg(scan)))

    def _pair(self, scan: _Scanner) -> tuple[Arg, Arg]:
        key = self.arg(scan)
        scan.need(":")
        return key, self.arg(scan)

    def graph(self, scan: _Scanner) -> Graph:
        """The graph whose header, up to its parameters, ``scan`` has read."""
        scan.need("(")
        params = tuple(scan.series(")", lambda: self.define(scan)))
        scan.need(":")
        scan.end()
        nodes: list[Node] = []
        while True:
            line = self.lines.next()
            if line.take("return ("):
                outputs = self.args(line)
                line.end()
                return Graph(params, tuple(nodes), outputs)
            nodes.append(self.node(line))

    def node(self, scan: _Scanner) -> Node:
        outputs = tuple(scan.series("=", lambda: self.define(scan))) if scan.text.startswith("%") else ()
        word = scan.word("an op")
        if word not in OPS:
            raise ReadError(f"line {scan.line}: unknown op {word!r}")
        target = "" if scan.take("(") else self._target(scan)
        items = scan.series(")", lambda: self._argument(scan))
        regions: list[Graph] = []
        opened = scan.take("{")
        span = scan.span()
        while opened:
            scan = self.lines.next()
            if scan.take("}"):
                break
            scan.need("region")
            regions.append(self.graph(scan))
        args = tuple(a for k, a in items if k is None)
        kwargs = tuple((k, a) for k, a in items if k is not None)
        return Node(OPS[word], target, args, kwargs, outputs, tuple(regions), span)

    def _target(self, scan: _Scanner) -> str:
        target = scan.word("a target")
        scan.need("(")
        return target

    def _argument(self, scan: _Scanner) -> tuple[str | None, Arg]:
        start = scan.at
        if scan.match(PLAIN_NAME) or scan.match(STRING):
            key = scan.text[start : scan.at].strip()
            if scan.take("="):
                return (key if PLAIN_NAME.fullmatch(key) else str(ast.literal_eval(key))), self.arg(scan)
        scan.at = start
        return None, self.arg(scan)

    def names(self, scan: _Scanner) -> tuple[str, ...]:
        scan.need("(")
        return tuple(scan.series(")", scan.word))

    def step(self, scan: _Scanner) -> Step:
        kind = next((k for k in ("start", "test", "end", "enter", "leave") if scan.take(k)), None)
        if kind is not None:
            names = self.names(scan)
            return Mark(kind, names, scan.word() if scan.take("by ") else "", scan.span())
        if scan.take("host "):
            key, live_ins = scan.string(), self.names(scan)
            scan.need("->")
            live_outs, returns = self.names(scan), scan.take("returns")
            reason = scan.string() if scan.take("reason") else ""
            return HostRange(key, live_ins, live_outs, returns, reason, scan.span())
        scan.need("segment")
        live_ins = self.names(scan)
        scan.need("->")
        live_outs, returns = self.names(scan), scan.take("returns")
        resume = scan.string() if scan.take("resume") else ""
        scan.need(":")
        graphs = []
        for title in ("guards", "body"):
            scan = self.lines.next()
            scan.need(title)
            graphs.append(self.graph(scan))
        return Segment(live_ins, graphs[0], graphs[1], live_outs, returns, resume)


def read_graph(text: str) -> Graph:
    """The graph that ``print_graph`` printed."""
    reader = _Reader(text.split("\n"))
    scan = reader.lines.next()
    scan.need("graph")
    graph = reader.graph(scan)
    if not reader.lines.done():
        raise ReadError("text after the end of the graph")
    return graph


def read_chain(text: str, objects: Mapping[str, Any]) -> Chain:
    """The chain that ``print_chain`` printed, over the same objects."""
    reader = _Reader(text.split("\n"))
    scan = reader.lines.next()
    scan.need("chain ")
    name = scan.word()
    scan.need(":")
    scan.end()
    steps = []
    while not reader.lines.done():
        steps.append(reader.step(reader.lines.next()))
    return Chain(name, tuple(steps), dict(objects))
