"""Programs that generated ones have been reduced to: each behaved differently once."""

import collections
import random
import weakref

import torch

import janusc as janus

from . import program

ONE = torch.ones(2)
COUNT = 0


@program()
def keyword_arguments_of_a_container_method():
    def f(x, table):
        table.update(b=x * 2)
        made = {"a": x}
        made.update({"c": x + 1}, d=x)
        return table["b"] + made["c"] + made["d"]

    return f, [(ONE, {"a": ONE, "b": -ONE}) for _ in range(4)] + [(ONE, {})]


@program()
def host_statement_between_uses_of_a_global():
    global COUNT
    COUNT = 0

    def f(x):
        global COUNT
        COUNT += 1
        y = x * random.random()
        COUNT += 1
        return torch.relu(y + COUNT)

    return f, [(ONE,)] * 4 + [(torch.ones(3),)]


@program()
def host_loop_that_may_break():
    def f(x, flag):
        y = x * 2
        if x.mean() > 2.0:
            return y
        for _ in [x]:
            if flag:
                raise KeyError("flag")
            if y is None:
                break

    return f, [(ONE, True), (ONE, True), (ONE, False), (ONE * 3, True), (ONE, False)]


def _items(number):
    return [torch.ones(1) * i for i in range(number)]


@program(graph=False)
def list_that_shrinks_while_iterated():
    def f(x, items):
        for _ in items:
            items.pop()
        return torch.relu(x) + len(items)

    return f, [(ONE, _items(4)) for _ in range(4)] + [(ONE, _items(7))]


@program(graph=False)
def list_that_grows_while_iterated():
    def f(x, items):
        for t in items:
            x = torch.tanh(x + t)
            if len(items) < 5:
                items.append(t * 2)
        return x

    return f, [(ONE, _items(2)) for _ in range(4)] + [(ONE, _items(3))]


@program(graph=False)
def dict_that_grows_while_iterated():
    def f(x, table):
        for key in table:
            x = torch.tanh(x + table[key])
            table["new"] = x
        return x

    return f, [(ONE, {"a": ONE}) for _ in range(4)] + [(ONE, {"new": ONE})]


@program(graph=False)
def list_that_shrinks_while_zipped():
    def f(x, items):
        for a, b in zip(items, items):
            x = torch.tanh(x + a - b)
            items.pop()
        return x

    return f, [(ONE, _items(4)) for _ in range(4)]


def _host():
    """A state, and a host call that changes it."""
    state = {"count": 0, "log": []}

    @janus.opaque
    def bump(x):
        state["count"] += 1
        state["log"] = [*state["log"], state["count"]]
        return x + 1

    return state, bump


@program()
def read_before_a_host_call():
    state, bump = _host()

    def f(x):
        y = x * 2
        z = state["count"] + bump(y).sum()
        return torch.relu(z) + state["count"]

    return f, [(ONE,)] * 5


@program()
def global_read_before_a_host_call():
    global COUNT
    COUNT = 0

    @janus.opaque
    def bump(x):
        global COUNT
        COUNT += 1
        return x + 1

    def f(x):
        y = x * 2
        return torch.relu(COUNT + bump(y).sum()) + COUNT

    return f, [(ONE,)] * 5


@program()
def attribute_read_before_a_host_call():
    class Box:
        pass

    box = Box()
    box.count, box.log = 0, []

    @janus.opaque
    def bump(x):
        box.count += 1
        box.log = [box.count]
        return x + 1

    def f(x):
        y = x * 2
        z = [box.log, torch.relu(bump(y)) + box.count, box.log]
        box.log.append(bump(y * 3))
        return torch.relu(y), z[0] is z[2], len(box.log), box.count

    return f, [(ONE,)] * 5, box


@program()
def method_looked_up_before_its_argument_is_computed():
    log = []

    @janus.opaque
    def bump(x):
        log.append(len(log))
        return x + 1

    def f(x, items):
        y = torch.relu(x)
        items.extend([torch.relu(bump(y))])
        return y * 2

    return f, [(ONE, []), (ONE, []), (ONE, [ONE]), (ONE, ONE), (ONE, None)], log


@program()
def unbound_name_that_is_only_read():
    def f(x, s):
        y = x * 2
        if y.mean() > s:
            pass
        else:
            del y
        y
        return x + 1

    return f, [(ONE, 1.0), (ONE, 1.0), (ONE, 3.0), (ONE, 1.0), (ONE, 3.0), (ONE, 1.0)]


@program()
def sparse_tensor_changed_before_an_error():
    def f(x):
        x *= 3
        x.relu_()
        return x + 1

    return f, [(torch.ones(2, 2),), (torch.ones(2, 2),), (torch.ones(2, 2).to_sparse(),), (torch.ones(2, 2),)]


@program()
def parameter_changed_without_gradients():
    layer = torch.nn.Linear(2, 2)

    def f(x):
        with torch.no_grad():
            layer.weight.mul_(0.5)
            layer.bias.add_(x)
        return layer(x)

    return f, [(ONE,)] * 4


@program()
def dimensions_iterated():
    def f(x):
        total = sum(x.shape) + max(x.size())
        doubled = [d * 2 for d in x.shape]
        for d in x.shape:
            total += d
        return torch.relu(x) * total, doubled, (1, *x.shape)

    shapes = ((4,), (4,), (4,), (6, 4), (6, 4), (4,), (2, 3, 4), (5,))
    return f, [(torch.ones(shape),) for shape in shapes]


@program()
def dimensions_unpacked():
    def f(x):
        n, m = x.shape
        first, *rest = x.shape
        (k,) = x.shape[1:]
        return torch.relu(x) * n, m + k, first, rest

    shapes = ((2, 3), (2, 3), (2, 3), (2, 3, 4), (2, 4), (5,), (2, 3))
    return f, [(torch.ones(shape),) for shape in shapes]


@program()
def parameter_that_is_only_deleted():
    def f(x, rows):
        rows.rotate(1)
        y = torch.relu(rows[-1])
        rows.rotate(1)
        z = y * 2
        del x
        return z

    return f, [(ONE, collections.deque([ONE, -ONE])) for _ in range(4)]


@program()
def parameter_deleted_on_one_way():
    def f(x, rows, flag):
        rows.rotate(1)
        y = torch.relu(x) + 1
        if flag:
            del x
            return y
        return y, x

    return f, [(ONE, collections.deque([ONE, -ONE]), flag) for flag in (False, False, False, True, True, False)]


def _rows_of(x):
    for row in x:
        yield row * 1


@program()
def iterator_of_ordinary_python_used_before_an_assumption_fails():
    def f(x, n):
        y = torch.stack(list(_rows_of(x))) * 2
        for row in map(torch.neg, _rows_of(x)):
            y = y + row
        first, *others = _rows_of(y)
        others.extend(_rows_of(x))
        if y.sum() > n:
            y = y + 1
        return y, first, others, n * 2

    return f, [(torch.ones(2, 2), n) for n in (0, 0, 0, 1000, 0, 2.0, 0)]


@program()
def generator_that_outlives_the_call():
    kept = []

    def f(x, items):
        kept.append(abs(i) for i in items)
        return torch.relu(x) + sum(abs(i) for i in items)

    return f, [(ONE, [1, -2]) for _ in range(4)], kept


@program()
def membership_in_a_list_that_a_loop_has_filled():
    def f(x, counts):
        first, *counts = [1, *counts]
        for row in x.float():
            for n in range(len(row)):
                if first in [i for i in counts if i != n]:
                    break
            else:
                continue
            return torch.full_like(x, 0.5)
        return (first,)

    x = torch.ones(3, 4)
    return f, [(x, [1, 2])] * 4 + [(x[:1], [1, 2]), (x.long(), [1, 2]), (x[:1], [2, 3]), (x, [1, 2])]


class _Sum:
    def __init__(self, x):
        self.value = float(x.sum())


@janus.opaque
def _summed(x, seen):
    made = _Sum(x)
    seen.append(weakref.ref(made))
    return made


@janus.opaque
def _value_of(made):
    return made.value


@janus.opaque
def _are_gone(seen):
    return [ref() is None for ref in seen]


@program()
def part_of_a_statement_that_goes_when_it_was_used():
    def f(x):
        seen = []
        y = torch.relu(x)
        total = _value_of(_summed(y, seen)) + _value_of(_summed(y, seen))
        gone = _are_gone(seen)
        return torch.tanh(y) * total, gone

    return f, [(ONE + i,) for i in range(5)]
