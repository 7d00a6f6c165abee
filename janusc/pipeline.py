"""The conversion of one call, from the parsed function to an executable specialisation."""

from __future__ import annotations

import inspect
import time
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from janusc import marks
from janusc.diagnostics import Diagnostic, Refusal, silenced
from janusc.frontend.build import DeferredTemplate
from janusc.frontend.outline import outline
from janusc.frontend.parse import ParsedFunction
from janusc.lowering.agenda import HostStatements
from janusc.lowering.ir import Chain, Effect, Segment
from janusc.lowering.lower import lower
from janusc.lowering.passes.pipeline import optimise
from janusc.once import uncounted_warnings
from janusc.options import Options
from janusc.runtime.backends.base import Place
from janusc.runtime.emit import emit
from janusc.runtime.interpreter import run_chain
from janusc.sentinels import MISS
from janusc.source import Span
from janusc.typeinfer.profile import Profile


@dataclass(frozen=True, eq=False)
class Specialisation:
    """A converted function under the assumptions of one kind of call; ``run`` returns MISS where they do not hold."""

    run: Callable[..., Any]
    chain: Chain
    source: str
    seconds: float
    notes: tuple[Diagnostic, ...]
    guard_count: int
    places: tuple[tuple[str, Place], ...] = ()


def convert(
    parsed: ParsedFunction,
    function: types.FunctionType,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    profile: Profile,
    options: Options,
    *,
    listener: Any = None,
    enter: Callable[[Any], Any] | None = None,
    idle: bool = False,
) -> Specialisation:
    """Convert ``function`` with the arguments of the call at hand as samples.

    ``enter`` gives what to call instead of a function that ordinary Python calls. Such calls alone are not converted,
    unless ``idle`` asks for it.
    Runs none of the user's code and draws no random number. Raises Refusal where nothing can be converted.
    """
    started = time.perf_counter()
    signature = signature_of(function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    with silenced(), uncounted_warnings():
        lowered = lower(parsed, function, bound.arguments, profile, original_of, marks.is_opaque)
    if lowered.idle is not None and not idle:
        raise Refusal(lowered.idle)
    chain = optimise(lowered.chain, enabled=options.passes)
    hosts = {h.key: _outlined(parsed, h, enter if h.key.startswith("host") else None) for h in lowered.hosts}
    run, source, places = _executable(chain, parsed, function, signature, hosts, options, listener)
    guards = sum(n.op.effect is Effect.ASSERT for s in chain.steps if isinstance(s, Segment) for n in s.guards.nodes)
    return Specialisation(run, chain, source, time.perf_counter() - started, lowered.notes, guards, places)


def signature_of(function: types.FunctionType) -> inspect.Signature:
    """The signature of the code itself, whatever the function claims to have."""
    bare = types.FunctionType(function.__code__, {}, function.__name__, function.__defaults__, function.__closure__)
    bare.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(bare)


def original_of(function: Any) -> Any:
    """The user's function behind a compiled one; any other object as it is."""
    original = marks.original_of(function)
    return function if original is None else original


def _outlined(parsed: ParsedFunction, host: HostStatements, enter: Callable[[Any], Any] | None) -> Any:
    return DeferredTemplate(lambda: outline(parsed, host.statements, host.live_ins, host.live_outs, host.key, enter))


def _executable(
    chain: Chain,
    parsed: ParsedFunction,
    function: types.FunctionType,
    signature: inspect.Signature,
    hosts: Mapping[str, Any],
    options: Options,
    listener: Any,
) -> tuple[Callable[..., Any], str, tuple[tuple[str, Place], ...]]:
    if options.executor == "emitted":
        made = emit(
            chain,
            name=parsed.qualname,
            parameters=signature,
            hosts=hosts,
            listener=listener,
            abort_hooks=options.abort_hooks,
            backend=options.backend,
            module=function.__module__ or "janusc.emitted",
            origin=Span(parsed.filename, parsed.code.co_firstlineno, end_line=parsed.span.end_line),
        )
        return made.run, made.source, made.places

    def run(target: types.FunctionType, *args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature_of(target).bind(*args, **kwargs)
        except TypeError:
            return MISS
        bound.apply_defaults()
        return run_chain(chain, target, bound.arguments, hosts, listener)

    return run, "", ()
