"""No contents can fail in a kernel: it says that they were not as demanded, and the operations complain."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from traced import SEEN, compiled

import janusc as janus
from janusc.testing import assert_equivalent

ROWS, COLUMNS = 300, 60  # more elements than one thread is left to do alone
TABLE = torch.linspace(-2.0, 2.0, ROWS * COLUMNS).reshape(ROWS, COLUMNS)
LINE = torch.arange(250)
SQUARE = (torch.arange(250 * COLUMNS) * 7 % ROWS).reshape(250, COLUMNS)
VALUES = TABLE[:250].cos()

INDEXED = {
    "embedding": (lambda i: functional.embedding(i, TABLE), LINE),
    "gather": (lambda i: TABLE.gather(0, i), SQUARE),
    "gather from the end": (lambda i: TABLE.t().gather(-1, i), SQUARE.t().contiguous()),
    "index": (lambda i: TABLE[i], LINE),
    "index of int32": (lambda i: TABLE[i], LINE.int()),
    "index inside": (lambda i: TABLE.reshape(2, ROWS, COLUMNS // 2)[:, i, None], LINE),
    "two indices": (lambda i: TABLE.reshape(ROWS, 1, COLUMNS)[i, :, i % COLUMNS], LINE),
    "index_select": (lambda i: TABLE.index_select(0, i), LINE),
    "index_add": (lambda i: TABLE.index_add(0, i, VALUES), LINE),
    "index_copy": (lambda i: TABLE.index_copy(0, i, VALUES), LINE),
    "index_fill": (lambda i: TABLE.index_fill(0, i, 2.0), LINE),
    "index_put": (lambda i: TABLE.index_put((i,), VALUES), LINE),
    "index_put, added": (lambda i: TABLE.index_put((i,), VALUES, accumulate=True), LINE),
    "scatter": (lambda i: TABLE.scatter(0, i, 2.0), SQUARE),
    "scatter in place": (lambda i: TABLE.sin().scatter_(0, i, 2.0), SQUARE),
    "scatter_add": (lambda i: TABLE.scatter_add(0, i, VALUES), SQUARE),
    "scatter_reduce": (lambda i: TABLE.scatter_reduce(0, i, VALUES, "amax"), SQUARE),
    "take": (lambda i: TABLE.take(i), SQUARE),
    "take_along_dim": (lambda i: TABLE.take_along_dim(i, 0), SQUARE),
    "put": (lambda i: TABLE.put(i, VALUES[0, 0].expand(250, COLUMNS)), SQUARE),
    "one_hot": (lambda i: functional.one_hot(i, ROWS), LINE),
    "nll_loss": (lambda i: functional.nll_loss(TABLE.reshape(1, ROWS, -1), i, reduction="none"), SQUARE[:1]),
    "cross_entropy": (lambda i: functional.cross_entropy(TABLE.t(), i), LINE[:COLUMNS]),
    "cross_entropy, smooth": (
        lambda i: functional.cross_entropy(TABLE.t(), i, TABLE[:, 0].exp(), ignore_index=-1, label_smoothing=0.1),
        LINE[:COLUMNS],
    ),
    "multi_margin_loss": (lambda i: functional.multi_margin_loss(TABLE.t(), i), LINE[:COLUMNS]),
    "max_unpool2d": (
        lambda i: functional.max_unpool2d(TABLE.reshape(1, ROWS, 6, 10), i, 2),
        torch.arange(60).reshape(6, 10).repeat(1, ROWS, 1, 1),
    ),
    "nobody's": (lambda i: (TABLE[i], TABLE.sin())[1], LINE),
}
BAD = (ROWS, 10**9, -1, -ROWS, -ROWS - 1, -(10**9), -100)


@pytest.fixture(autouse=True)
def forget():
    SEEN.clear()


def with_one_bad(index):
    """An index, and the same with one element that may be out of bounds."""
    for number in BAD:
        bad = index.clone()
        bad.view(-1)[bad.numel() // 2] = number
        yield bad


def blocks(f):
    return [line.strip() for line in str(janus.explain(f)).splitlines() if line.strip().startswith("block ")]


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_out_of_bounds_is_refused_as_in_eager_mode(name):
    function, index = INDEXED[name]

    def plus_one(i):
        return function(i) + 1

    seen = []

    def compiler(f):
        seen.append(compiled(f))
        return seen[-1]

    calls = [(index,)] * 3 + [(bad,) for bad in with_one_bad(index)] + [(index,)]
    assert_equivalent(lambda: (plus_one, []), calls=calls, factory=True, tolerance=1e-5, compiler=compiler)
    assert len(SEEN) == 1
    assert set(blocks(seen[-1])) == {"block 1: a kernel"}, "it failed for no contents"
    janus.reset(seen[-1])


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error), str(error)


def assert_same(ones, others):
    assert type(ones) is type(others)
    if isinstance(ones, torch.Tensor):
        torch.testing.assert_close(ones, others, equal_nan=True)
    else:
        assert ones == others


def test_no_thread_of_a_kernel_ends_the_process(two_threads):
    def look_up(a, b, c, d, e, f, g, h):
        found = functional.embedding(a, TABLE).sum() + TABLE.gather(0, b).sum() + TABLE[c].sum()
        found = found + TABLE.index_select(0, d).sum() + TABLE.index_add(0, e, VALUES).cos().sum()
        found = (
            found
            + TABLE.index_put((f,), VALUES, accumulate=True).cos().sum()
            + TABLE.scatter_add(0, g, VALUES).cos().sum()
        )
        return found + functional.cross_entropy(TABLE.t().repeat(5, 1)[:250], h)

    good = [index.clone() for index in (LINE, SQUARE, LINE, LINE, LINE, LINE, SQUARE, LINE)]
    f = janus.compile(look_up, backend="inductor", warmup=1, strict=True)
    for _ in range(3):
        assert_same(f(*good), look_up(*good))
    assert blocks(f) == ["block 1: a kernel"]
    for place, index in enumerate(good):
        for bad in with_one_bad(index):
            given = [*good[:place], bad, *good[place + 1 :]]
            assert_same(outcome(f, *given), outcome(look_up, *given))
    assert_same(f(*good), look_up(*good))
    assert blocks(f) == ["block 1: a kernel"]


def test_a_step_with_two_threads_is_a_kernel_that_leaves_nothing_behind_for_a_bad_index(two_threads):
    def make():
        torch.manual_seed(0)
        weights = nn.Parameter(torch.randn(ROWS, COLUMNS)), nn.Parameter(torch.randn(COLUMNS, ROWS))
        count = torch.zeros(())

        def step(words, classes):
            count.add_(1)
            loss = functional.cross_entropy(functional.embedding(words, weights[0]) @ weights[1], classes)
            loss.backward()
            return loss.detach()

        return step, [*weights, count]

    (eager, theirs), (step, ours) = make(), make()
    step = janus.compile(step, backend="inductor", warmup=1, strict=True)
    ignored = LINE.clone()
    ignored[::3] = -100
    other = LINE.clone()
    calls = [(LINE, other)] * 4 + [(LINE, ignored)] + [(bad, LINE) for bad in with_one_bad(LINE)]
    for given in [*calls, *((LINE, bad) for bad in with_one_bad(LINE)), (LINE, other)]:
        for tensor in (*ours, *theirs):
            tensor.grad = None
        assert_same(outcome(step, *given), outcome(eager, *given))
        for one, eagers in zip(ours, theirs):
            torch.testing.assert_close(one, eagers)
            assert one._version == eagers._version and (one.grad is None) == (eagers.grad is None)
            if one.grad is not None:
                torch.testing.assert_close(one.grad, eagers.grad)
    assert blocks(step) == ["block 1: a kernel"]


@pytest.mark.parametrize(
    "function",
    [
        lambda i: TABLE.index_put((i,), VALUES).sin() + 1,
        lambda i: TABLE.index_copy(0, i, VALUES).sin() + 1,
        lambda i: TABLE.scatter(0, i[:, None].expand(250, COLUMNS), VALUES).sin() + 1,
    ],
)
def test_threads_do_not_race_for_the_last_word(function, two_threads):
    """Which of several values for one element is the last is left to torch."""
    f = compiled(function)
    twice = LINE.clone()
    twice[100:200] = 7
    for index in (LINE, LINE, LINE):
        assert torch.equal(f(index), function(index))
    f(twice)  # torch's own threads race, too
    assert not SEEN and "the last of several" in str(janus.explain(f))


def test_one_value_for_all_is_written_by_any_thread(two_threads):
    def fill(i, x):
        return TABLE.index_fill(0, i, 2.0).scatter(0, i[:, None], x.sum().expand(250, 1)) + 1

    f = compiled(fill)
    for _ in range(3):
        assert torch.equal(f(LINE, VALUES), fill(LINE, VALUES))
    assert len(SEEN) == 1


def test_what_is_known_to_be_in_bounds_is_not_asked():
    weight = nn.Parameter(torch.ones(2, 3, 8, 6))

    def step(x):
        y = functional.pad(x * weight, (1, 2, 1, 1), mode="reflect").roll(1, 2)
        best = y.flatten(2).argmax(2, keepdim=True)
        loss = functional.unfold(y, 2).sum() + y.flatten(2).gather(2, best).sum() + y.max(3)[0].sum()
        loss.backward()
        return loss.item()

    f = compiled(step)
    for _ in range(4):
        f(torch.rand(2, 3, 8, 6))
    (module,) = SEEN
    asked = [node.target for node in module.graph.nodes if "any" in str(node.target)]
    assert not asked


@pytest.mark.parametrize("padding", [0, 1])
def test_the_largest_element_of_a_window_is_the_one_that_torch_takes(padding):
    def make():
        weight = nn.Parameter(torch.zeros(1, 1, 6, 6))

        def step(x):
            weight.grad = None
            loss = functional.max_pool2d(x + weight, 3, 2, padding).sum() * 2
            loss.backward()
            return loss.item()

        return step, [weight]

    torch.manual_seed(0)
    usual, low, strange = (torch.randn(1, 1, 6, 6) for _ in range(3))
    low[0, 0, 3:, :4] = low[0, 0, 0, :] = -float("inf")
    strange[0, 0, 1:4, 1:4] = float("nan")
    calls = [(usual,)] * 4 + [(low,), (strange,), (usual,)]
    assert_equivalent(
        make,
        calls=calls,
        factory=True,
        tolerance=1e-5,
        compiler=lambda f: compiled(f, strict=False, backend="inductor"),
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x // y + 1,
        lambda x, y: x % y + 1,
        lambda x, y: 7 % y + 1,
        lambda x, y: torch.fmod(x, y) + 1,
        lambda x, y: torch.div(x, y, rounding_mode="trunc") + 1,
    ],
)
def test_a_whole_number_is_not_divided_by_zero(function):
    """In a kernel that ends the process."""
    x, y = torch.arange(-10, 10), torch.arange(1, 21)
    zero = y.clone()
    zero[7] = 0
    calls = [(x, y), (x, y), (x, y), (x, -y), (x, zero), (x, y)]
    assert_equivalent(lambda: (function, []), calls=calls, factory=True, compiler=compiled)
    assert len(SEEN) == 1
    (division,) = [
        n for n in SEEN[0].graph.nodes if str(n.target).split(".")[1:2] in (["div"], ["remainder"], ["fmod"])
    ]
    assert division.args[1].target is torch.ops.aten.add.Tensor, "the divisor has ones for zeros"


def test_repeats_that_do_not_fit_are_refused():
    def repeat(counts):
        return TABLE[:4].repeat_interleave(counts, 0, output_size=8).sin() + 1

    counts = torch.tensor([1, 2, 3, 2])
    calls = [(counts,)] * 3 + [(torch.tensor([2, 2, 2, 2]),), (torch.tensor([2, 2, 2, 1]),), (counts,)]
    assert_equivalent(lambda: (repeat, []), calls=calls, factory=True, compiler=compiled)
    assert len(SEEN) == 1


def test_a_loss_whose_decomposition_is_wrong_has_no_kernel():
    x = torch.rand(3, 4)

    def loss(classes):
        return functional.multilabel_margin_loss(x, classes).sin() + 1

    f = compiled(loss)
    for classes in (torch.tensor([[0, 1, 2, 3]] * 3), torch.tensor([[1, -1, 0, 0]] * 3)):
        for _ in range(3):
            assert torch.equal(f(classes), loss(classes))
    assert not SEEN and "multilabel_margin_loss" in str(janus.explain(f))
