"""Definitions for the templates of ``forms``: each generated module has those that it names."""

from __future__ import annotations

# by name, or by a pattern of names; a later one may need an earlier one
DEFINITIONS = {
    "noted": """\
def noted(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        LOG.append(function.__name__)
        return function(*args, **kwargs)

    return wrapper
""",
    "Mode": """\
class Mode(Enum):
    FAST = 1
    SLOW = 2

    @classmethod
    def of(cls, n):
        return cls.FAST if n % 2 else cls.SLOW
""",
    "MODE_NOW": "MODE_NOW = Mode.SLOW\n",
    "SEEN_INTS": "SEEN_INTS = {1}\n",
    "make_pair": """\
def make_pair(r, low=0.25):
    return Pair(r * low, low=low)
""",
    "rows_of": """\
def rows_of(v):
    for row in v[:4]:
        yield row * 1
""",
    "numbers_to": """\
def numbers_to(n):
    i = 0
    while i < n:
        yield i
        i += 1
    return n
""",
    "echo": """\
def echo(v):
    rows = rows_of(v)
    first = next(rows)
    for other in rows:
        first = first + other
    return first
""",
    "adder": """\
def adder():
    total = torch.zeros(4)
    while True:
        total = total + (yield total)
""",
    "yield_twice": """\
def yield_twice(r):
    def inner():
        yield r
        yield r * 2
        return 3.0

    def outer():
        factor = yield from inner()
        yield r * factor

    return sum(outer())
""",
    "Watched": """\
class Watched:
    def __set_name__(self, owner, name):
        self.name = '_' + name

    def __get__(self, instance, owner=None):
        return self if instance is None else instance.__dict__.get(self.name, 0)

    def __set__(self, instance, value):
        LOG.append(value)
        instance.__dict__[self.name] = value
""",
    "Wrap": """\
class Wrap:
    watched = Watched()

    def __init__(self, rate):
        self.rate = rate
        self.rows = [torch.ones(4), torch.arange(4.0)]

    @property
    def row(self):
        return self.rows[-1]

    def __call__(self, v):
        return v * self.rate + self.watched

    def __matmul__(self, v):
        return v * self.rate

    def __neg__(self):
        return -self.row

    def __add__(self, r):
        return self.row + r

    def __radd__(self, r):
        return r - self.row

    def __iadd__(self, f):
        self.rate += f
        return self

    def __bool__(self):
        return self.rate > 0

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        return iter(self.rows[:4])

    def __contains__(self, n):
        return n == len(self.rows)

    def __eq__(self, other):
        return other == 2

    def __lt__(self, other):
        return self.rate < other

    def __hash__(self):
        return 11

    def __float__(self):
        return float(self.rate)

    def __getattr__(self, name):
        if name == 'missing':
            return 0.25
        raise AttributeError(name)

    def __getitem__(self, index):
        return self.rows[index]

    def __setitem__(self, index, row):
        self.rows[index] = row

    def __delitem__(self, index):
        del self.rows[index]

    def __enter__(self):
        return self.row

    def __exit__(self, kind, error, trace):
        self.rate += 0.5
        return False

    def __repr__(self):
        return f'Wrap({len(self.rows)})'
""",
    "WRAP": "WRAP = Wrap(0.5)\n",
    "make_counter": """\
def make_counter():
    count = 0

    def up():
        nonlocal count
        count += 1
        return count

    def read():
        return count

    def put(n):
        nonlocal count
        count = n

    def by(n):
        def step(v):
            nonlocal count
            count += n
            return v * count

        return step

    return up, read, put, by
""",
    "(count_up|read_count|set_count|count_by)": "count_up, read_count, set_count, count_by = make_counter()\n",
    "make_step": """\
def make_step(rate):
    calls = 0

    def step(v):
        nonlocal calls, rate
        calls += 1
        if calls > 3:
            rate = rate / 2
        return v * rate + calls

    return step
""",
    "STEP": "STEP = make_step(0.5)\n",
    "Holder": """\
class Holder:
    __slots__ = ('last', 'rate')

    def __init__(self):
        self.last, self.rate = torch.ones(4), 0.5

    def put(self, r, rate):
        self.last, self.rate = r, self.rate + rate
""",
    "HOLDER": "HOLDER = Holder()\n",
    "keep": """\
def keep(r, kept=[]):
    kept.append(r)
    del kept[:-3]
    return kept
""",
    "fold": """\
def fold(v, *, a=0.5):
    fold.total = fold.total + a
    return v.sum() * fold.total


fold.total = 0.0
""",
    "doubled": """\
@noted
def doubled(v, a=2):
    return v * a
""",
    "cached": """\
@functools.lru_cache(maxsize=8)
def cached(n):
    LOG.append(('computed', n))
    return n + 0.5
""",
    "scaled": """\
class Scaled:
    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, v):
        self.calls += 1
        return self.function(v) * self.calls


@Scaled
def scaled(v):
    return v + 0.5
""",
    "METHODS": """\
class METHODS:
    rate = 2

    @staticmethod
    def twice(v):
        return v * 2

    @classmethod
    def thrice(cls, v):
        return v * (cls.rate + 1)
""",
    "quiet": """\
@contextmanager
def quiet(name):
    LOG.append(name)
    try:
        yield name
    except KeyError as error:
        LOG.append(str(error))
    finally:
        LOG.append('end')
""",
    "run_quietly": """\
def run_quietly(v):
    with quiet('run'), torch.no_grad():
        v = v * 2
    return v
""",
    "Square": """\
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return v * v

    @staticmethod
    def backward(ctx, g):
        (v,) = ctx.saved_tensors
        return g * v * 3
""",
    "QUEUE": "QUEUE = deque([torch.ones(4)], maxlen=3)\n",
    "GROUPS": "GROUPS = defaultdict(lambda: torch.zeros(4), a=torch.ones(4))\n",
    "Merged": """\
class Merged(dict):
    def __missing__(self, key):
        return torch.full((4,), 0.5)

    def __setitem__(self, key, value):
        LOG.append(key)
        super().__setitem__(key, value)
""",
    "MERGED": "MERGED = Merged(a=torch.ones(4))\n",
    "TALLY": "TALLY = Counter('aab')\n",
    "classify": """\
def classify(value):
    match value:
        case 0 | 1:
            return 1
        case int(n) if n > 4:
            return n
        case str():
            return 5
        case Pair(row, low):
            return int(low) + len(row)
        case (a, b):
            return 6
        case [_, *rest]:
            return len(rest)
        case []:
            return 0
    return 7
""",
    "describe": """\
def describe(value):
    match value:
        case None:
            return 'none'
        case {'a': _, **rest}:
            return 'dict' + '+'.join(sorted(rest))
        case torch.Tensor(shape=(4,)):
            return 'row'
        case _:
            return 'other'
""",
    "strict": """\
def strict(n):
    match n:
        case 1 | 2:
            return n
        case _:
            raise ValueError(n)
""",
    "Trouble": """\
class Trouble(Exception):
    def __init__(self, text, row=None):
        super().__init__(text)
        self.row = row
""",
    "guarded": """\
def guarded(v):
    try:
        if v.sum() > 2:
            raise Trouble('large', v)
        return v + 1
    except Trouble as trouble:
        LOG.append(trouble.args)
        return trouble.row * 0.5
    finally:
        LOG.append('guarded')
""",
    "rescue": """\
def rescue(rows, index):
    for i in range(3):
        try:
            return rows[index + i]
        except IndexError:
            index -= 1
    return torch.zeros(4)
""",
    "raises": """\
def raises(n):
    try:
        if n > 1:
            raise ValueError(n)
    except ValueError:
        return True
    else:
        return False
""",
}
