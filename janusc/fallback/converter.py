"""Who makes specialisations, and who finds graphs for what ordinary Python calls: as the state machine knows them."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from janusc.fallback.variant import Specialisation
from janusc.frontend import parse
from janusc.options import Options
from janusc.typeinfer.profile import Profile


class Converter(Protocol):
    """Makes a specialisation for the call at hand; raises Refusal where the function can't be converted."""

    def __call__(
        self,
        parsed: parse.ParsedFunction,
        function: types.FunctionType,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        profile: Profile,
        options: Options,
        *,
        listener: Any,
        enter: Callable[[Any], Any],
    ) -> Specialisation: ...


class Entrance(Protocol):
    """Finds graphs for the functions that ordinary Python in a converted function calls."""

    def enter(self, callee: Any) -> Any:
        """What to call instead of a callee."""

    def states(self) -> Sequence[Any]:
        """What is known of those functions."""

    def reset(self) -> None:
        """Forget them."""
