"""Generators: used up at once, stopped early, kept, escaping, lazy; and coroutines, which run as they are."""

import asyncio
import itertools

import torch

from . import ones, program

ONE = torch.ones(3)


@program()
def quantifiers_stop_where_they_stop():
    log = []

    def note(v):
        log.append(v)
        return v

    class Counter:
        seen = 0

        def see(self, v):
            self.seen += 1
            return v > 2

    counter = Counter()

    def f(x, items):
        y = torch.relu(x)
        first = any(note(v) > 2 for v in items)
        every = all(note(v) < 2 for v in items)
        pairs = any(note(a * b) == 2 for a in items[:2] for b in items[1:3] if a < b)
        seen = any(counter.see(v) for v in items)
        hit = any((found := v) > 1 for v in items)
        return y, first, every, pairs, seen, hit, found, counter.seen

    lists = ([1, 2, 3, 4], [3, 1], [1], [0, 0, 9], [2, 2, 2], (4, 1))
    return f, [*[(ONE, lists[0])] * 3, *[(ONE, v) for v in lists]], log, counter


@program()
def quantifiers_over_tensors_stop_too():
    log = []

    def f(x, rows):
        if any(log.append(i) or r.sum() > 2 for i, r in enumerate(rows)):
            x = x * 2
        if all((last := r).mean() > 0 for r in rows):
            x = x + last
        y = torch.relu(x)
        return y, any(r is x for r in rows), all(torch.rand(1) < 0.5 for _ in range(3))

    def rows(*values):
        return [torch.full((2,), float(v)) for v in values]

    return (
        f,
        [(torch.ones(2), rows(*v)) for v in ((1, 2), (1, 2), (1, 2), (1, 2), (2, 1), (-1, 0), (0,), (3, 3, 3))],
        log,
    )


@program()
def a_sum_adds_each_item_when_it_comes():
    def f(x, n):
        y = torch.relu(x)
        total = sum(y.add_(1) for _ in range(n))
        largest = max(y.add_(1).sum() for _ in range(2))
        z = torch.zeros(3)
        return total, largest, y, sum((z.mul_(2).add_(i) for i in range(n)), torch.ones(3)), z

    return f, [(ONE, n) for n in (3, 3, 3, 1, 4, 0, 3)]


@program()
def lazy_until_asked():
    log = []

    def rows(x):
        for i in range(3):
            log.append(i)
            yield x * i

    def f(x):
        generator = rows(torch.relu(x))
        log.append("made")
        first = next(generator)
        log.append("first")
        rest = list(generator)
        return first, rest, next(generator, None)

    return f, ones(5), log


@program(graph=False)
def generator_over_what_changes_meanwhile():
    def f(x, items):
        y = torch.relu(x)
        k = 1
        lazy = (v * k for v in items)
        k = 10
        first = next(lazy)
        items.append(5)
        k = 100
        return y, first, list(lazy), sum(lazy)

    return f, [(ONE, [1, 2]) for _ in range(4)] + [(ONE, [3])]


@program()
def send_throw_close_and_return():
    log = []

    def talker(x):
        total = x * 0
        try:
            while True:
                got = yield total
                if got is None:
                    return total * 2
                total = total + got
        except ValueError as error:
            yield total - 1
            log.append(str(error))
        finally:
            log.append("closed")

    def delegate(x):
        result = yield from talker(x)
        log.append(float(result.sum()))
        return result

    def f(x, how):
        y = torch.relu(x)
        generator = delegate(y)
        next(generator)
        generator.send(y)
        if how == "throw":
            z = generator.throw(ValueError("thrown"))
        elif how == "close":
            z = generator.close()
        else:
            try:
                generator.send(None)
                z = None
            except StopIteration as stop:
                z = stop.value
        del generator
        return torch.tanh(y) + 1, z

    return f, [(ONE, how) for how in ("", "", "", "throw", "close", "")], log


@program(graph=False)
def generator_function_itself():
    log = []

    def f(x, n):
        for i in range(n):
            log.append(i)
            x = x * 2
            yield x
        return x

    def consume(f):
        g = f(ONE, 3)
        log.append("made")
        return list(g), type(g).__name__, g.gi_code.co_name

    def partly(f):
        g = f(ONE, 3)
        next(g)
        g.close()
        return list(g)

    return f, [consume, consume, partly, consume, consume], log


@program(graph=False)
def escaping_generator_expression():
    def f(x, items):
        y = torch.relu(x)
        return (y * i for i in items)

    def use(f):
        g = f(ONE, [1, 2, 3])
        return next(g), list(g), g.gi_frame

    def late(f):
        items = [1, 2]
        g = f(ONE, items)
        items.append(3)
        return list(g)

    return f, [use, use, use, late, use]


@program()
def user_iterators():
    class Count:
        def __init__(self, n):
            self.n, self.i = n, 0

        def __iter__(self):
            self.i = 0
            return self

        def __next__(self):
            if self.i == self.n:
                raise StopIteration
            self.i += 1
            return self.i

    class Old:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError
            return i * 10

        def __len__(self):
            return 99

    class Rows:
        def __iter__(self):
            yield from (1, 2)

    count, old, rows = Count(3), Old(), Rows()

    def f(x):
        y = torch.relu(x)
        for i in count:
            y = y + i
        for i in old:
            y = y - i
        a, b = rows
        first, *others = count
        return (
            y * a + b,
            [*old, *rows],
            first,
            others,
            list(count),
            2 in count,
            10 in old,
            max(rows),
            dict(zip(rows, old)),
        )

    def grow(f):
        count.n = 5
        return f(ONE)

    return f, [*ones(4), grow, *ones(1)], count


@program()
def iterators_of_itertools():
    def f(x, items):
        y = torch.relu(x)
        for a, b in zip(items, itertools.cycle([1, 2])):
            y = y * a + b
        for pair in itertools.product(items, repeat=2):
            y = y + sum(pair)
        for k, group in itertools.groupby(items):
            y = y + k * len(list(group))
        it = iter(items)
        head = next(it)
        return y, head, list(it), list(itertools.chain(items, [0])), list(map(lambda v: v * 2, items))  # noqa: C417

    return f, [(ONE, v) for v in ([1, 1, 2], [1, 1, 2], [1, 1, 2], [3], [1, 2, 2, 2], [1, 1, 2])]


@program()
def maps_and_filters():
    log = []

    def twice(v):
        log.append(v)
        return v * 2

    def f(x, items):
        y = torch.relu(x)
        lazy = map(twice, items)
        log.append("made")
        total = sum(lazy)
        kept = list(filter(lambda v: v > 1, items))
        for a, b in zip(map(twice, items), reversed(items)):
            y = y + a - b
        return y, total, kept, tuple(map(lambda a, b: a + b, items, items)), any(map(twice, items))

    return f, [(ONE, v) for v in ([1, 2], [1, 2], [1, 2], [3, 4], [0, 5, 6], [])], log


@program(graph=False)
def coroutines_run_as_they_are():
    async def f(x, n):
        for _ in range(n):
            await asyncio.sleep(0)
            x = torch.relu(x) * 2
        return x

    def run(f):
        return asyncio.run(f(ONE, 3))

    def both(f):
        async def main():
            return await asyncio.gather(f(ONE, 1), f(ONE, 2))

        return asyncio.run(main())

    return f, [run, run, both, run]


@program()
def coroutine_of_a_converted_callee():
    def inner(x):
        return torch.relu(x) * 2

    def f(x):
        async def main():
            async def items():
                for i in range(2):
                    yield i

            return [inner(x) * i async for i in items()]

        y = inner(x) + 1
        return y, asyncio.run(main())

    return f, ones(4)
