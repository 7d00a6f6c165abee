"""Whole modules at random: classes, globals, helper functions, the function under test, and its calls."""

from __future__ import annotations

import random
from collections.abc import Sequence

from . import expressions, forms
from .prelude import BOX, MAIN, NET, prelude
from .templates import Template
from .writer import Scope, Writer

TOPICS = expressions.TOPICS + forms.TOPICS
NEEDED = {
    "alias": ("inplace", "box", "global", "view"),
    "opaque": ("global",),
    "new": ("box",),
    "layers": ("net",),
    "carry": ("option",),
    "grad": ("net",),
    "class": ("box",),
    "generator": ("box",),
    "delete": ("box", "list", "dict"),
    "through": ("view", "inplace", "box"),
    "match": ("pair", "text", "option"),
    "enum": ("box",),
    "pair": ("box",),
    "errors": ("list",),
}
PARAMETERS = {
    "y": (
        "V",
        ["T(shift=-0.5)", "T(scale=2.0)"],
        ["T(4)", "T(1)", "T(dtype=torch.float64)", "T(grad=True)", "T(shift=9.0)", "T(3, -1.0)"],
    ),
    "k": ("I", ["2", "2"], ["0", "1", "3", "-2", "5", "True", "2.0", "2**40", "numpy.int64(2)", "torch.tensor(2)"]),
    "s": (
        "F",
        ["0.5", "0.5"],
        ["1.5", "-2.0", "0.0", "-0.0", "3", "float('nan')", "float('inf')", "numpy.float64(0.5)", "torch.tensor(0.5)"],
    ),
    "flag": ("B", ["True", "True"], ["False", "0", "torch.tensor(True)", "None"]),
    "items": (
        "L",
        ["[R(), R(2.0)]", "[R(), R(-1.0)]"],
        [
            "[]",
            "[R()]",
            "[R(), R(), R(3.0)]",
            "[R()] * 2",
            "[R(-2.0)]",
            "[kept[0], kept[1]]",
            "list(kept)",
            "[rows] * 3",
            "(R(), R(2.0))",
            "torch.ones(2, 4)",
            "[R(), None]",
            "kept",
        ],
    ),
    "table": (
        "D",
        ["{'a': R(), 'b': R(2.0)}"],
        [
            "{'a': R()}",
            "{'b': R(), 'a': R()}",
            "{}",
            "{'a': R(), 'b': R(), 'c': R()}",
            "OrderedDict(a=R(), b=R(2.0))",
            "{'a': rows, 'b': rows}",
            "{'a': kept[0], 'b': kept}",
        ],
    ),
    "opt": ("O", ["None", "R()"], ["R()", "None", "R(-1.0)", "rows", "kept[0]"]),
    "name": ("S", ["'a'", "'b'"], ["'c'", "''", "'a'"]),
    "pair": ("P", ["Pair(R(), 0.5)"], ["Pair(R(2.0), 0.5)", "Pair(R(), 2)", "(R(), 0.5)", "Pair(None, 0.5)", "PAIR"]),
    "ints": ("Z", ["{1, 2}", "{2}"], ["set()", "{1, 2, 3}", "{0, -1}", "{True}", "[1]", "frozenset({1})", "{'a'}"]),
    "queue": ("Q", ["deque([R()], 3)"], ["deque([])", "deque([R(), R(2.0)], maxlen=2)", "[R()]", "deque([None])"]),
    "counts": ("N", ["[1, 2]", "[0, 3, 1]"], ["[]", "[5]", "[2, 1]", "[1, 2, 3, 4]", "[True, 2]"]),
}
X_USUAL = ["T()", "T()", "T(scale=0.5)"]
X_OTHER = [
    "T(4)", "T(1)", "T(2)", "T(scale=-1.0)", "T(shift=-3.0)", "T(shift=5.0)", "T(dtype=torch.float64)", "T(grad=True)",
    "T(4).t()", "T(dtype=torch.int64)", "T(0)", "T(6)[::2]", "T(dtype=torch.float16)", "torch.ones(4)",
    "T(3).t().contiguous().t()",
    "torch.full((3, 4), float('nan'))", "None", "nn.Parameter(T())", "T(grad=True) * 1",
    "T().requires_grad_()[1:]", "T(3)[:, :]",
    "T()[0].expand(3, 4)", "T().numpy()", "T(dtype=torch.bool)", "T(dtype=torch.complex64)", "T().to_sparse()",
    "kept", "kept.T", "torch.ones(2, 3, 4)", "torch.tensor(1.5)", "torch.ones(1, 3, 4)", "torch.ones(5, 4)",
]  # fmt: skip
CHANGES = {
    "global": [
        "globals().__setitem__('COUNT', 7)",
        "globals().__setitem__('SCALE', -1.0)",
        "globals().__setitem__('MODE', 0)",
        "TABLE.pop('b', None)",
        "globals().__setitem__('LAST', torch.ones(4))",
    ],
    "closure": ["globals().__setitem__('SCALE', 4.0)"],
    "box": [
        "setattr(BOX, 'count', 9)",
        "setattr(BOX, 'total', torch.ones(1))",
        "BOX.items.clear()",
        "setattr(BOX, 'last', None)",
        "setattr(BOX, 'rate', 1)",
    ],
    "tree": [
        "globals().__setitem__('TREE', (torch.ones(4), None))",
        "globals().__setitem__('TREE', None)",
        "globals().__setitem__('TREE', ((TREE, TREE), TREE))",
    ],
    "dispatch": [
        "ACTIONS.reverse()",
        "ACTIONS.append(abs)",
        "globals().__setitem__('ACTIONS', (torch.neg, torch.relu))",
    ],
    "layers": [
        "setattr(NET, 'lin', nn.Linear(4, 4))",
        "NET.layers.append(nn.Linear(4, 4))",
        "setattr(NET.lin, 'weight', nn.Parameter(torch.ones(4, 4)))",
        "NET.lin.register_forward_hook(lambda m, i, o: LOG.append('hook'))",
        "NET.seq.append(nn.Tanh())",
        "setattr(NET.drop, 'p', 0.1)",
        "NET.bn.eval()",
        "NET.eval()",
        "setattr(NET, 'frozen', nn.Sigmoid())",
        "NET.lin.register_forward_pre_hook(lambda m, i: (i[0] * 2,))",
    ],
    "core": [
        "WEIGHT.mul_(2)",
        "globals().__setitem__('WEIGHT', torch.eye(4))",
        "torch.set_default_dtype(torch.float64)",
        "torch.set_default_dtype(torch.float32)",
        "globals().__setitem__('len', lambda v: 2)",
        "globals().pop('len', None)",
    ],
    "new": [
        "setattr(Child, 'scale', lambda self, v: v)",
        "setattr(BOX, 'extra', 1)",
        "setattr(Point, 'shifted', lambda self: self.v)",
    ],
    "object": [
        "ITEM.rows.clear()",
        "setattr(ITEM, 'row', torch.ones(2))",
        "setattr(Item, 'made', 5)",
        "setattr(ITEM, 'size', 1)",
        "setattr(Item, 'half', staticmethod(lambda v: v))",
        "globals().__setitem__('PAIR', Pair(torch.zeros(4), 2))",
        "globals().__setitem__('apply', lambda g, v: v)",
    ],
    "grad": [
        "NET.zero_grad()",
        "torch.set_grad_enabled(False)",
        "torch.set_grad_enabled(True)",
        "NET.lin.requires_grad_(False)",
    ],
    "alias": ["globals().__setitem__('LAST', BOX.total)", "setattr(BOX, 'last', BOX.total)", "BOX.items.append(LAST)"],
    "net": [
        "NET.eval()",
        "NET.train()",
        "setattr(NET, 'steps', 4)",
        "NET.double()",
        "setattr(NET, 'acc', torch.ones(1))",
        "NET.lin.requires_grad_(False)",
    ],
    "host": ["LOG.clear()"],
    "set": ["SEEN_INTS.add(3)", "SEEN_INTS.clear()", "globals().__setitem__('SEEN_INTS', {0})"],
    "pair": [
        "globals().__setitem__('PAIR', Pair(torch.zeros(4), 2))",
        "globals().__setitem__('PAIR', (torch.zeros(4), 2.0))",
        "setattr(Pair, 'low', 3.0)",
    ],
    "enum": [
        "globals().__setitem__('MODE_NOW', Mode.FAST)",
        "setattr(Mode, 'of', classmethod(lambda cls, n: cls.FAST))",
    ],
    "protocol": [
        "WRAP.rows.clear()",
        "setattr(Wrap, '__bool__', lambda self: False)",
        "setattr(Wrap, '__len__', lambda self: 7)",
        "setattr(WRAP, 'missing', 3.0)",
        "setattr(Wrap, '__neg__', lambda self: torch.zeros(4))",
        "delattr(Wrap, '__bool__')",
        "setattr(WRAP, 'rate', 3)",
    ],
    "cell": ["set_count(5)", "globals().__setitem__('STEP', make_step(0.5))", "setattr(HOLDER, 'last', None)"],
    "default": [
        "setattr(fold, 'total', 3.0)",
        "setattr(keep, '__defaults__', ([],))",
        "keep.__defaults__[0].clear()",
        "setattr(fold, '__kwdefaults__', {'a': 2.0})",
    ],
    "class": [
        "setattr(Box, 'rank', 5)",
        "setattr(BOX, 'rank', 1)",
        "BOX.__dict__.pop('rank', None)",
        "setattr(Box, 'shared', torch.zeros(4))",
        "setattr(Box, 'ranked', lambda self, v: v)",
        "setattr(BOX, 'ranked', lambda v: v * 2)",
        "setattr(BOX, '__class__', type('Other', (Box,), {'rank': 9}))",
    ],
    "collections": ["QUEUE.clear()", "GROUPS.clear()", "TALLY.clear()", "MERGED.clear()"],
    "wrapped": ["globals().__setitem__('doubled', lambda v, a=1: v)", "cached.cache_clear()"],
    "context": [
        "setattr(Manager, '__exit__', lambda self, *a: True)",
        "setattr(Manager, '__enter__', lambda self: [])",
    ],
    "autograd": ["LAST.requires_grad_()", "setattr(Square, 'forward', staticmethod(lambda ctx, v: v * 3))"],
    "delete": ["setattr(BOX, 'extra', 1)", "globals().pop('EXTRA', None)", "globals().__setitem__('EXTRA', 0)"],
    "errors": ["setattr(Trouble, 'row', None)", "globals().__setitem__('guarded', lambda v: v)"],
    "generator": ["setattr(BOX, 'stream', iter(()))", "globals().__setitem__('rows_of', lambda v: [v[0]])"],
    "through": ["setattr(BOX, 'total', WEIGHT[0])", "WEIGHT[0].mul_(2)"],
    "random": ["torch.manual_seed(1)", "random.seed(1)"],
}


CONTEXTS = (
    "torch.no_grad()", "torch.no_grad()", "torch.inference_mode()", "torch.autocast('cpu', torch.bfloat16)",
    "torch.enable_grad()", "torch.random.fork_rng()", "warnings.catch_warnings()", "torch.set_grad_enabled(False)",
)  # fmt: skip


class _Module:
    """The text of one module in the making."""

    def __init__(self, rng: random.Random, topics: Sequence[str]) -> None:
        self.rng = rng
        self.topics = self.rng.sample(topics, self.rng.choice((1, 1, 2, 2, 3, 4)))
        self.topics += sorted({n for topic in self.topics for n in NEEDED.get(topic, ())} - {*self.topics})
        self.calls: list[Template] = []
        self.parts: list[str] = []

    def function(
        self, header: str, scope: Scope, result: str, size: int, indent: str = "", first: tuple[str, ...] = ()
    ) -> None:
        writer = Writer(self.rng, self.topics, scope, result, self.calls)
        writer.body(size)
        lines = [header, *(f"    {line}" for line in first)]
        if "global" in self.topics:
            lines.append("    global COUNT, SCALE, MODE, LAST")
        self.parts.append("\n".join(indent + line for line in [*lines, *writer.lines]) + "\n\n")

    def box(self) -> None:
        self.parts.append(BOX)
        scope = Scope({"R": ["r"], "F": ["scale"]})
        topics, self.topics = self.topics, [t for t in self.topics if t not in ("box", "net", "module")]
        before = len(self.parts)
        self.function(
            "def step(self, r, scale=1.0):", scope, "R", self.rng.choice((0, 1, 2)), "    ", ("self.count += 1",)
        )
        # nor may it count how deep the stack is
        self.parts[before:] = [part.replace("BOX.step(", "torch.relu(") for part in self.parts[before:]]
        self.topics = topics
        self.parts.append("\nBOX = Box()\n\n")

    def net(self) -> None:
        self.parts.append(NET)
        topics, self.topics = self.topics, [t for t in self.topics if t not in ("box", "net", "module")]
        first = self.rng.choice((("self.steps += 1",), ("self.acc = self.acc + v.detach().sum(0)",), ()))
        before = len(self.parts)
        self.function("def forward(self, v):", Scope({"V": ["v"]}), "V", self.rng.choice((1, 2)), "    ", first)
        # a forward that calls itself twice, and catches that it gets too deep, never ends
        self.parts[before:] = [part.replace("NET(", "NET.seq(") for part in self.parts[before:]]
        self.topics = topics
        self.parts.append("\nNET = Net()\nOPTIM = torch.optim.SGD(NET.parameters(), lr=0.1, momentum=0.5)\n\n")

    def helper(self, number: int) -> None:
        name = f"h{number}"
        kinds = {"v": "V", "n": "I", "a": "F"}
        header, call, scope = self.rng.choice(
            [
                ("v", ["$V"], "v"),
                ("v, n=2", ["$V", "$V, $I", "$V, n=$I"], "vn"),
                ("v, *rest, a=0.5", ["$V", "$V, $R, $R", "$V, $R, a=$F", "$V, *$L"], "va"),
                ("v, n, a=2.0", ["$V, $I", "$V, $I, a=$F", "a=$F, v=$V, n=$I", "*($V, $I)", "$V, **{'n': $I}"], "vna"),
            ]
        )
        names: dict[str, list[str]] = {}
        for letter in scope:
            names.setdefault(kinds[letter], []).append(letter)
        if "*rest" in header:
            names["L"] = ["list(rest)"]
        result = self.rng.choice(("V", "V", "R", "W", "I"))
        fixed = {"list(rest)"}
        first: tuple[str, ...] = ()
        if result == "V" and "n" in scope and self.rng.random() < 0.4:
            first = ("if n > 0 and n < 4:", f"    return {name}(v * 0.5, n - 1)")
        topics, self.topics = self.topics, [t for t in self.topics if t != "module"]
        decorator = "@noted\n" if self.rng.random() < 0.15 else ""
        size = self.rng.choice((1, 2, 3))
        self.function(f"{decorator}def {name}({header}):", Scope(names, fixed), result, size, first=first)
        self.topics = topics
        self.calls += [Template(result, 1, f"{name}({arguments})") for arguments in call]

    def mutual(self) -> None:
        """Two functions that call each other, so many times."""
        topics, self.topics = self.topics, [t for t in self.topics if t != "module"]
        for name, other in (("ping", "pong"), ("pong", "ping")):
            first = ("if n <= 0 or n > 5:", "    return v", f"v = {other}(v * 0.5, n - 1)")
            self.function(f"def {name}(v, n):", Scope({"V": ["v"], "I": ["n"]}), "V", 1, first=first)
        self.topics = topics
        self.calls += [Template("V", 1, "ping($V, $I)"), Template("V", 1, "pong($V, 2)")]

    def main(self) -> list[str]:
        chosen = [n for n in PARAMETERS if self.rng.random() < 0.35]
        for topic, name in (
            ("option", "opt"),
            ("list", "items"),
            ("dict", "table"),
            ("numbers", "counts"),
            ("text", "name"),
            ("pair", "pair"),
            ("set", "ints"),
            ("collections", "queue"),
        ):
            if topic in self.topics and name not in chosen and self.rng.random() < 0.8:
                chosen.append(name)
        scope = Scope({"V": ["x"]})
        for name in chosen:
            scope.names.setdefault(PARAMETERS[name][0], []).append(name)
        defaults = self.rng.randrange(len(chosen) + 1) if self.rng.random() < 0.3 else 0
        optional = {n: PARAMETERS[n][1][0] for n in chosen[len(chosen) - defaults :] if n not in ("items", "table")}
        chosen.sort(key=lambda name: name in optional)
        header = ", ".join(["x", *(f"{n}={optional[n]}" if n in optional else n for n in chosen)])
        size = self.rng.choice((2, 3, 4, 6, 8, 10))
        first: tuple[str, ...] = ()
        if "k" in chosen and self.rng.random() < 0.15:
            arguments = ", ".join({"k": "k - 3"}.get(n, n) for n in chosen)
            first = ("if 3 < k < 8:", f"    return f(x * 0.5, {arguments})")
        if "module" in self.topics:
            kinds = [("nn.Module", "forward")] * 2 + [("object", "run")]
            base, method = self.rng.choice(kinds[:1] if first else kinds)
            self.parts.append(MAIN % base)
            self.function(f"def {method}(self, {header}):", scope, "*", size, "    ", first)
            self.parts.append("\nMAIN = Main()\nf = MAIN" + (".run" if base == "object" else "") + "\n\n")
        else:
            self.function(f"def f({header}):", scope, "*", size, first=first)
        self.optional = tuple(optional)
        return chosen

    def steps(self, chosen: list[str]) -> None:
        """Calls that are alike, then calls that break one assumption or a few, and the usual again in between."""
        rng = self.rng
        lines = ["def steps():", "    kept = T()", "    rows = R()"]
        usual = {"x": rng.choice(X_USUAL), **{n: rng.choice(PARAMETERS[n][1]) for n in chosen}}
        other = {"x": X_OTHER, **{n: PARAMETERS[n][2] for n in chosen}}
        helpers = [t.text.partition("(")[0] for t in self.calls[:1]]
        changes = [f"globals().__setitem__('{name}', lambda v, *a, **k: v)" for name in helpers]
        changes += [text for topic in ["core", *self.topics] for text in CHANGES.get(topic, ())]
        calls = [dict(usual) for _ in range(3)]
        if rng.random() < 0.3:
            calls[1]["x"] = rng.choice(X_USUAL)
        for _ in range(rng.choice((3, 4, 5, 6))):
            call = dict(usual)
            for name in rng.sample(sorted(other), rng.choice((0, 1, 1, 1, min(2, len(other))))):
                call[name] = rng.choice(other[name])
            if rng.random() < 0.1:
                call["x"] = "kept"
            if "y" in call and rng.random() < 0.1:
                call["x"] = call["y"] = "kept"
            calls.append(call)
        lines.append("    return [")
        for number, call in enumerate(calls):
            lines.append(f"        {self.step(call, changes if number > 2 else [])},")
        lines += ["    ]", ""]
        self.parts.append("\n".join(lines))

    def step(self, call: dict[str, str], changes: list[str]) -> str:
        """One call: plain, with keywords, in a context, or after a change of what the function reads."""
        text = ", ".join(call.values())
        roll = self.rng.random()
        if changes and roll < 0.08:
            return f"lambda f: under({self.rng.choice(CONTEXTS)}, f, {text})"
        if changes and roll < 0.4:
            return f"lambda f: ({self.rng.choice(changes)}, f(*seen({text})))[1]"
        if self.optional and roll < 0.7:
            kept = {n: v for n, v in call.items() if n not in self.optional or self.rng.random() < 0.5}
            names = self.rng.sample(sorted(kept), len(kept))
            return f"Call({', '.join(f'{n}={kept[n]}' for n in names)})"
        return f"({text},)"


def write_module(rng: random.Random, topics: Sequence[str] = TOPICS) -> str:
    """A module about some of the topics: the function under test is ``f``, and ``steps()`` gives its calls."""
    module = _Module(rng, topics)
    if "box" in module.topics:
        module.box()
    if "net" in module.topics:
        module.net()
    for number in range(rng.choice((0, 0, 1, 2))):
        module.helper(number)
    if rng.random() < 0.1:
        module.mutual()
    module.steps(module.main())
    body = "\n".join(module.parts)
    return prelude(body) + body
