"""From sites back to the user's lines."""

from __future__ import annotations

import re
import sys

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
