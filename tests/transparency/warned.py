"""Programs that warn, or in which torch does: as often as eager, at the same lines."""

import warnings

import torch

from . import program

ONE = torch.ones(2)


@program()
def warnings_of_the_users_own():
    def f(x, flag):
        y = torch.tanh(x)
        if flag:
            warnings.warn("mine", stacklevel=2)
            warnings.warn("plain", FutureWarning)  # noqa: B028
        return y * 2

    def calls(flag):
        def step(f):
            return f(ONE, flag)

        return step

    def once(f):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("default")
            for _ in range(3):
                f(ONE, True)
        return [(str(w.message), w.lineno) for w in seen]

    def strict(f):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return f(ONE, True)

    return f, [*[calls(True)] * 4, calls(False), calls(True), once, once, strict, calls(False), strict]


@program()
def warnings_recorded_inside():
    def f(x, text):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            warnings.warn(text)  # noqa: B028
        return torch.tanh(x) * len(seen), str(seen[0].message)

    return f, [(ONE, text) for text in ("a", "b", "a", "a", "c")]


@program()
def warnings_of_torch_before_a_failure():
    def f(x, n):
        y = torch.tanh(x.float())
        return y.view(n)

    good, warned = (torch.ones(2), 2), torch.ones(2, dtype=torch.complex64)
    return f, [good] * 4 + [(warned, 2), (warned, 3), good, (warned, 3), (warned, 2), (torch.ones(2), 3)]
