"""From sites and emitted code back to the user's lines."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from janusc.lowering.ir import Chain, Segment, walk
from janusc.source import Span

# owner@line:column:line:column-end:kind, as the parser makes them
_SITE = re.compile(r"(?P<owner>.*)@\d+:\d+:(?P<line>\d+):\d+-[\d:]+(#\d+)?(:.*)?", re.DOTALL)


def span_of_site(site: str, owner: str, filename: str | None) -> Span | None:
    """The line of a site: in ``filename`` where it belongs to ``owner``, else in the module that it names."""
    found = _SITE.fullmatch(site)
    if found is None:
        return None
    name = found["owner"]
    place = filename if name == owner else None
    while place is None and "." in name:
        name = name.rpartition(".")[0]
        place = getattr(sys.modules.get(name), "__file__", None)
    return None if place is None else Span(place, int(found["line"]))


def spans_of(chain: Chain) -> Iterator[Span]:
    """The places in the user's source that the graphs of a chain come from."""
    for step in chain.steps:
        for graph in (step.guards, step.body) if isinstance(step, Segment) else ():
            yield from (node.span for node in walk(graph) if node.span is not None)


def span_of_emitted_line(source: str, line: int, chain: Chain) -> Span | None:
    """The user's line that a line of emitted source stands for, which has it as a comment."""
    text = "".join(source.splitlines()[line - 1 : line])
    known = (span for span in spans_of(chain) if f"# {span.line}: " in text)
    return next((span for span in known if " ".join(span.text().split())[:40] in text), None)
