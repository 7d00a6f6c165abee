"""janusc: a speculative compiler for imperative PyTorch programs.

Put ``@janus.compile`` on a function, a method, an ``nn.Module`` class or instance; nothing else changes::

    import janusc as janus

    @janus.compile
    def step(model, batch): ...

The first calls run eagerly and are profiled. Then the function becomes graphs, made under assumptions that each call
checks; where one does not hold, state is rolled back and the call runs eagerly. ``janus.explain(step)`` shows what
happened.
"""

from janusc.api import compile, explain, graphs, opaque, reset, stats, wait
from janusc.diagnostics import Diagnostic, JanusError, JanusWarning
from janusc.fallback.call import StrictError
from janusc.fallback.eager import eager
from janusc.fallback.report import GraphView, GraphViews, Stats
from janusc.options import Options
from janusc.runtime.backends.compiled import register_backend

__version__ = "0.1.0"
__all__ = [
    "Diagnostic",
    "GraphView",
    "GraphViews",
    "JanusError",
    "JanusWarning",
    "Options",
    "Stats",
    "StrictError",
    "compile",
    "eager",
    "explain",
    "graphs",
    "opaque",
    "register_backend",
    "reset",
    "stats",
    "wait",
]
