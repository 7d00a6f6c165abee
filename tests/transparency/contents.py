"""What containers hold: lengths, keys and their order, kinds of items; changed between calls and inside them."""

import collections
import types

import torch
from torch import nn

from . import calls, program


@program()
def keys_of_a_dictionary_and_their_order():
    table = {"a": 1.0, "b": 2.0}

    def f(x):
        for key, value in table.items():
            x = x * 2 + value + len(key)
        names = "".join(table)
        first, *rest = table
        return (
            x * len(table),
            names,
            first,
            len(rest),
            {**table},
            list(table.values()),
            "c" in table,
            table.get("c", 5.0),
        )

    def reorder():
        table["a"] = table.pop("a")

    return f, calls(
        lambda: table.update(c=3.0),
        reorder,
        lambda: table.pop("b"),
        lambda: table.update({"a\0c": 4.0}),
        lambda: (table.clear(), table.update({"a": 1.0, "c": 2.0})),
        lambda: table.update({"": 7.0}),
        lambda: (table.clear(), table.update({"": 7.0})),
        lambda: table.update({"c": torch.ones(3)}),
    )


@program()
def keys_that_look_alike():
    table = {1: 2.0, "1": 3.0, (1, 2): 4.0, None: 5.0, 2.5: 6.0}

    def f(x):
        y = x * table[1] + table["1"] + table[(1, 2)] + table[None] + table[2.5]
        return y * (2 if True in table else 3) + (1.0 in table) + (0 in table)

    class Text(str):
        def __hash__(self):
            return hash("1")

        def __eq__(self, other):
            return other == "1"

    return f, calls(
        lambda: (table.pop(1), table.update({True: 20.0})),
        lambda: (table.pop(True), table.update({1.0: 30.0})),
        lambda: (table.pop("1"), table.update({Text("odd"): 40.0})),
        lambda: table.update({0: 1.0}),
        lambda: table.pop(None),
    )


@program()
def kinds_of_items():
    items = [1.0, 2, torch.ones(3), "text", None, (1, 2)]

    def f(x):
        y = x * items[0] + items[1] + items[2]
        y = y * len(items[3]) if items[4] is None else y - items[4]
        return y + sum(items[5]), items[1] == 2, items[-1]

    def put(index, value):
        return lambda: items.__setitem__(index, value)

    return f, calls(
        put(0, 1),
        put(1, True),
        put(2, 5.0),
        put(4, 3.0),
        put(5, [1, 2, 3]),
        put(5, (torch.ones(3), 1.0)),
        put(3, b"bytes"),
        put(0, float("nan")),
        put(0, -0.0),
        lambda: items.append(7),
        lambda: items.pop(),
        lambda: items.__delitem__(slice(1, None)),
    )


@program()
def lengths_of_lists_and_tuples():
    holder = types.SimpleNamespace(parts=[torch.ones(3)] * 2, pair=(1.0, 2.0), nested=[[1.0], [2.0, 3.0]])

    def f(x):
        for part in holder.parts:
            x = x + part
        a, b = holder.pair
        first, *others = holder.parts
        total = sum(v for row in holder.nested for v in row)
        return x * a + b * len(others) + total + len(holder.parts), holder.parts[-1], [len(r) for r in holder.nested]

    return f, calls(
        lambda: holder.parts.append(torch.ones(3) * 5),
        lambda: holder.parts.clear(),
        lambda: holder.parts.extend([torch.ones(3)] * 12),
        lambda: setattr(holder, "pair", (3.0, 4.0, 5.0)),
        lambda: setattr(holder, "pair", [3.0, 4.0]),
        lambda: holder.nested[0].append(9.0),
        lambda: setattr(holder, "parts", tuple(holder.parts)),
        lambda: setattr(holder, "nested", ((1.0,), (2,))),
    )


@program()
def sets_and_frozen_sets():
    names, fixed = {"a", "b"}, frozenset({1, 2})
    holder = types.SimpleNamespace(names=names, fixed=fixed)

    def f(x):
        y = x * 2 if "a" in holder.names else x * 3
        y = y + len(holder.names) + (2 in holder.fixed) * 10
        return y + sum(sorted(holder.fixed)), sorted(holder.names)

    return f, calls(
        lambda: names.discard("a"),
        lambda: names.update("xyz"),
        lambda: setattr(holder, "fixed", frozenset({5})),
        lambda: setattr(holder, "names", {"a": 1}),
    )


@program()
def dictionaries_with_a_say():
    class Upper(dict):
        def __getitem__(self, key):
            return 100.0

        def get(self, key, default=None):
            return 200.0

        def __iter__(self):
            return iter(["k"])

        def __len__(self):
            return 50

    holder = types.SimpleNamespace(table={"k": 1.0})

    def f(x):
        y = x * holder.table["k"] + holder.table.get("k", 0.0) + len(holder.table)
        for key in holder.table:
            y = y + len(key)
        return y

    kinds = [
        Upper(k=1.0),
        collections.OrderedDict(k=2.0),
        collections.defaultdict(float, k=3.0),
        collections.Counter("k"),
    ]
    kinds += [types.MappingProxyType({"k": 4.0}), collections.ChainMap({"k": 5.0}, {"l": 6.0}), {"k": 7.0, "l": 1.0}]
    return f, calls(*(lambda k=k: setattr(holder, "table", k) for k in kinds))


@program(graph=False)
def missing_keys_are_made():
    counts = collections.defaultdict(int)
    holder = types.SimpleNamespace(counts=counts)

    def f(x, key):
        holder.counts[key] += 1
        return x * holder.counts[key] + len(holder.counts) + holder.counts["other"]

    def plain_dict(f):
        holder.counts = {"a": 1, "other": 5}
        return f(torch.ones(3), "a")

    def missing(f):
        return f(torch.ones(3), "zzz")

    return f, [*((torch.ones(3), k) for k in "aabab"), plain_dict, missing, plain_dict], counts, holder


@program()
def shapes_and_strides_of_arguments():
    def f(x):
        rows = x.shape[0]
        y = x.reshape(-1) if x.is_contiguous() else x.t().reshape(-1)
        total = sum(x.shape)
        a, *more = x.shape
        return y * rows, total, len(more), x.stride(), x.numel(), y.view(-1, 1)

    shapes = [torch.ones(2, 3)] * 4 + [torch.ones(5, 3), torch.ones(3, 2).t(), torch.ones(6, 4)[::2], torch.ones(0, 3)]
    shapes += [
        torch.ones(2, 3).expand(2, 3),
        torch.ones(1, 3).expand(2, 3),
        torch.ones(3),
        torch.ones(2, 3, dtype=torch.long),
    ]
    return f, [(x,) for x in shapes]


@program()
def star_arguments_of_many_kinds():
    def f(*args, **kwargs):
        total = args[0] * len(args)
        for value in args[1:]:
            total = total + value
        for name, value in kwargs.items():
            total = total * value + len(name)
        return total, list(kwargs), args[1:]

    from . import Call

    x = torch.ones(3)
    later = [Call(x), Call(x, 1.0, 2.0), Call(x, 1.0, b=2.0), Call(x, 1.0, b=2.0, a=3.0), Call(x, 1.0, a=3.0, b=2.0)]
    return f, [*[Call(x, 1.0, a=2.0)] * 4, *later, Call(x, x, a=x), Call(x, 1, a=True), Call()]


@program()
def module_lists_that_hold_other_things():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(3, 3), torch.relu, nn.Tanh()]
            self.by_name = {"a": nn.Linear(3, 3), "b": lambda x: x * 2}

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            for name in ("a", "b"):
                x = self.by_name[name](x)
            return x

    model = Model()
    return model, calls(
        lambda: model.layers.append(torch.neg),
        lambda: model.layers.__setitem__(0, nn.Identity()),
        lambda: model.by_name.update(b=torch.exp),
        lambda: model.layers.clear(),
        lambda: setattr(model, "layers", nn.ModuleList([nn.Linear(3, 3)])),
    )
