"""What a site says: the user's line, and the kind of assumption that is made there."""

from __future__ import annotations

import re
import sys

from janusc.source import Span

# owner@line:column:line:column-end:kind, as the parser makes them
_SITE = re.compile(r"(?P<owner>.*)@\d+:\d+:(?P<line>\d+):\d+-[\d:]+(#\d+)?(:(?P<kind>.*))?", re.DOTALL)


def kind_of(site: str) -> str:
    """What is assumed at a site; nothing where the text is no site."""
    found = _SITE.fullmatch(site)
    return "" if found is None else found["kind"] or ""


def is_new_way(site: str) -> bool:
    """Whether what failed at a site is the assumption that some code is not reached: nothing is known of that code."""
    kind = kind_of(site)
    return kind.endswith("Test") or kind == "unseen" or kind.startswith("side ")


def is_raise(site: str) -> bool:
    """Whether what failed is the assumption that the program does not come to a ``raise`` of its own."""
    return kind_of(site) == "Raise"


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
