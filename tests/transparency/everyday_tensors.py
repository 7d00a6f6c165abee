"""What torch itself decides: types, layouts, gradients and numbers are those of the operation that was written."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from . import Call, ones, program


@program()
def type_of_mixed_results_never_changes():
    def f(half, single, halves):
        return half * single + halves, (single * 2 + half), halves * single, halves / 2, halves // 2

    args = [(torch.tensor(1.5, dtype=torch.half), torch.tensor(2.0), torch.ones(2, dtype=torch.half))] * 5
    return f, [*args, (torch.tensor(1.5, dtype=torch.bfloat16), torch.tensor(2), torch.ones(2, dtype=torch.half))]


@program()
def conversions_keep_their_rules():
    def f(x, n):
        return (
            torch.as_tensor(x),
            torch.as_tensor(x.item()),
            torch.tensor([n, 1.5]),
            torch.full((2,), n),
            torch.full_like(x, n),
            torch.scalar_tensor(n),
            x.new_tensor([n]),
            torch.result_type(x, n),
            x.type_as(torch.ones(1, dtype=torch.float64)),
            torch.arange(n),
            x + n,
            x.to(torch.int32) / 2,
        )

    cases = [(torch.bfloat16, 2)] * 4 + [(torch.bfloat16, 2.5), (torch.int64, 3), (torch.bool, True)]
    return f, [(torch.tensor(1, dtype=d), n) for d, n in cases]


@program()
def numbers_are_those_of_python():
    def f(x, a, b):
        y = x * 2
        c = a
        c += b
        return (
            y + a,
            (a**b, a // b, a % b, -a // b, b**-a, 1 < a < 9, divmod(a, b), a / b),
            (a & b, a | b, a ^ b, a << b, a >> b, ~a) if type(a) is int else None,
            (round(a / b, 2), abs(-a), min(a, b), max(a, b, 3), int(a / b), float(a), bool(a), str(a), c),
            (a == b, a != b, not a, a and b, a or b, +a, a is b),
        )

    pairs = [(7, 2)] * 4 + [(8, 3), (-7, 2), (7.5, 2), (10**30, 3), (True, 2), (7, 0), (1.0, 0), (2, 1.0), (0.0, -1.0)]
    return f, [(torch.ones(2), a, b) for a, b in pairs]


@program()
def strides_of_results():
    def f(x):
        y = torch.copysign(x, x)
        z = torch.index_select(y, 0, torch.tensor([0, 1]))
        c = x.contiguous() if not x.is_contiguous() else x.t().contiguous()
        e = torch.empty_like(x).fill_(1)
        r = x.reshape(-1)
        return y, z, c, e, r, x * x.t().t(), x[:, None].expand(-1, 3, -1), x.clone(), x.to(torch.float64), F.relu(x)

    transposed = [(torch.arange(30.0).view(6, 5).t(),) for _ in range(4)]
    odd = torch.arange(60.0).view(6, 10)[:, ::2]
    return f, [*transposed, (torch.arange(30.0).view(5, 6),), (odd,), (odd.t(),), (torch.ones(5, 1).expand(5, 6),)]


@program()
def memory_formats():
    conv = nn.Conv2d(2, 3, 3, padding=1)
    norm = nn.BatchNorm2d(3)

    def f(x):
        y = F.max_pool2d(F.relu(norm(conv(x))), 2)
        if y.is_contiguous(memory_format=torch.channels_last) and not y.is_contiguous():
            y = y + 1
        return y, y.flatten(1), torch.cat([y, y], 1), F.interpolate(y, scale_factor=2)

    plain = [(torch.ones(2, 2, 4, 4),) for _ in range(3)]
    last = [(torch.ones(2, 2, 4, 4).to(memory_format=torch.channels_last),) for _ in range(3)]
    return f, [*plain, *last, (torch.ones(2, 2, 6, 6),)]


@program()
def gradients_of_scatters():
    def f(x, source):
        y = torch.diagonal_scatter(x * 1, source)
        z = torch.select_scatter(y, source, 0, 0)
        w = torch.slice_scatter(z, source[None], 0, 1, 2)
        return w.sum() + torch.index_add(x, 0, torch.tensor([0, 2]), y[:2]).sum() * 2

    def step(f):
        x, source = torch.zeros(3, 3, requires_grad=True), torch.ones(3, requires_grad=True)
        f(x, source).backward()
        return x.grad, source.grad

    return f, [step] * 5


@program()
def autocast_inside_autocast():
    layer = nn.Linear(8, 8)

    def f(x):
        with torch.autocast("cpu", enabled=False):
            y = x.float() @ layer.weight
        return layer(y).float().sum() + y.sum()

    def step(outer):
        def run(f):
            layer.weight.grad = None
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=outer):
                loss = f(torch.linspace(0, 1, 16).view(2, 8))
            loss.backward()
            return loss, layer.weight.grad.clone()

        return run

    return f, [*[step(True)] * 4, *[step(False)] * 3, step(True)]


@program()
def ambient_modes_per_call():
    def f(x):
        y = torch.zeros(2) + x
        return (
            y,
            torch.tensor(1.5),
            torch.is_grad_enabled(),
            y.requires_grad,
            torch.get_default_dtype(),
            (x * 2).is_inference(),
        )

    def under(mode):
        def step(f):
            with mode():
                return f(torch.ones(2, requires_grad=True))

        return step

    class Doubles:
        def __enter__(self):
            torch.set_default_dtype(torch.float64)

        def __exit__(self, *_):
            torch.set_default_dtype(torch.float32)

    modes = [torch.no_grad, torch.enable_grad, torch.inference_mode, Doubles, lambda: torch.device("meta")]
    steps = [under(m) for m in modes for _ in range(2)]
    return f, [*ones(4, 2), *steps, *ones(2, 2)]


@program()
def errors_are_those_of_eager():
    def f(a, b):
        return torch.mm(a, b) + 1

    good = (torch.ones(2, 2), torch.ones(2, 2))
    bad = [
        (torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)),
        (torch.ones(2, 2), torch.ones(3, 2)),
        (torch.ones(2), torch.ones(2, 2)),
        (torch.ones(2, 2), None),
        (torch.ones(2, 2), 3.0),
    ]
    return f, [*[good] * 4, *bad, good]


@program()
def division_by_an_integer_tensor_that_may_be_zero():
    def f(x):
        try:
            y = 1 // x
        except RuntimeError as error:
            y = x + 2
            note = str(error)
        else:
            note = "fine"
        finally:
            x = x * 3
        return y + x, note

    return f, [(torch.tensor(n),) for n in (1, 1, 1, 2, 0, 1, 0, 0, 5)]


@program()
def statistics_nobody_reads():
    norm = nn.BatchNorm1d(2)
    cumulative = nn.BatchNorm1d(2, momentum=None)
    free = nn.BatchNorm1d(2, affine=False, track_running_stats=False)

    def f(x):
        return norm(x) + cumulative(x) + free(x)

    def mode(flag):
        def step(f):
            norm.train(flag)
            cumulative.train(flag)
            return f(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))

        return step

    train = [(torch.tensor([[1.0, 2.0], [3.0, 6.0]]),) for _ in range(4)]
    return f, [*train, mode(False), mode(False), mode(True), (torch.ones(3, 2),), (torch.ones(1, 2),)]


@program()
def weights_and_flags_after_evaluation():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1, bias=False)
            self.drop = nn.Dropout(0.5)
            nn.init.ones_(self.layer.weight)

        def forward(self, x):
            return self.drop(self.layer(x).expand(20, -1))

    model = Model().eval()

    def evaluate(f):
        with torch.no_grad():
            return f(torch.ones(1, 2))

    def load(f):
        model.load_state_dict({"layer.weight": torch.full((1, 2), 3.0)})
        return evaluate(f)

    def assign(f):
        model.load_state_dict({"layer.weight": torch.full((1, 2), 4.0)}, assign=True)
        return evaluate(f)

    def train(f):
        model.train()
        return f(torch.ones(1, 2))

    def freeze(f):
        model.layer.weight.requires_grad_(False)
        return f(torch.ones(1, 2))

    def double(f):
        model.double()
        return f(torch.ones(1, 2, dtype=torch.float64))

    return model, [*[evaluate] * 4, load, assign, train, train, freeze, double]


@program()
def two_branches_draw_in_program_order():
    def f(x, p):
        left = F.dropout(x, p)
        right = F.dropout(x * 2, p) + torch.rand_like(x)
        unused = torch.rand(3)  # noqa: F841
        a, b = torch.randn(2), torch.randint(10, (2,))
        return right + left, b, a, F.dropout(x, p, training=False), torch.nn.functional.rrelu(x, training=True)

    def seeded(f):
        torch.manual_seed(0)
        return f(torch.ones(8), 0.5)

    return f, [*[(torch.ones(8), 0.5) for _ in range(4)], seeded, seeded, (torch.ones(8), 0.1), (torch.ones(4), 0.0)]


@program()
def rows_counted_by_iterating():
    def f(x):
        n = 0
        for _ in x:
            n += 1
        return x.sum() + n, n

    return f, [(torch.ones(n, 2),) for n in (20, 20, 20, 5, 0, 1, 20)]


@program()
def receivers_of_other_classes():
    class Base:
        def go(self, x):
            return x + 100

    class Derived(Base):
        def go(self, x):
            return x * 99

    class Deeper(Derived):
        def go(self, x):
            return super().go(x) - super(Derived, self).go(x)

    a, b, c = Base(), Derived(), Deeper()

    def shadow(f):
        a.go = lambda x: x - 5
        return f(a, torch.ones(2))

    def unshadow(f):
        del a.go
        return f(a, torch.ones(2))

    def f(o, x):
        return o.go(x) + o.go(x=x * 2)

    return f, [*((o, torch.ones(2)) for o in (a, a, a, b, a, c, b)), shadow, unshadow, Call(x=torch.ones(2), o=c)], a


@program()
def numbers_that_come_from_numpy():
    def f(x, rate, k):
        y = x * rate + k
        if rate > 1 and k:
            y = y - 1
        for i in range(k):
            y = y * (i + rate)
        rate += 1
        return (
            (y, rate * x, x[:k], x[k], rate * 2, k / 2, k // 2, -rate, k**2, rate == 2, max(rate, k), abs(rate)),
            (float(rate), int(k), bool(k), rate.dtype, type(rate).__name__, isinstance(rate, float), f"{rate:.2f}"),
            (
                torch.full((2,), rate),
                torch.tensor([rate, k]),
                torch.arange(k),
                (1, 2, 3)[k],
                {1: "a"}.get(k),
                rate or k,
            ),
        )

    kinds = [(np.float64(0.5), np.int64(1))] * 4 + [(np.float64(3), np.int64(2)), (np.float32(1.5), np.int64(0))]
    kinds += [(np.float64(2), 1), (2.0, np.uint8(2)), (np.float64("nan"), np.int64(1)), (np.float32(3e38), np.int32(2))]
    return f, [(torch.ones(3), rate, k) for rate, k in [*kinds, (np.float64(1), np.bool_(True)), (0.5, 1), kinds[0]]]
