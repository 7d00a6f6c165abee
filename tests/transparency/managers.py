"""Programs with context managers: their own, the standard library's and torch's, entered, left and swallowing."""

import contextlib
import io

import torch
from torch import nn

from . import program

ONE, THREE = torch.ones(2), torch.ones(3)


class Scope:
    """Notes how it is left; swallows the class that it was made with."""

    def __init__(self, log, swallows=()):
        self.log, self.swallows, self.depth = log, swallows, 0

    def __enter__(self):
        self.depth += 1
        self.log.append(("enter", self.depth))
        return self

    def __exit__(self, kind, error, trace):
        self.depth -= 1
        self.log.append(("exit", self.depth, None if kind is None else kind.__name__, str(error)[:20]))
        return kind is not None and issubclass(kind, self.swallows)


@program()
def scope_of_the_users_own():
    log = []
    scope = Scope(log)

    def f(x, n):
        y = torch.tanh(x) * 2
        with scope as inner:
            y = y.view(n)
            y = y * inner.depth
        return torch.relu(y) + scope.depth

    return f, [(ONE, n) for n in (2, 2, 2, 2, 3, 2, 3)], scope


@program()
def scope_made_in_the_call():
    log = []

    def f(x, n):
        y = torch.tanh(x) * 2
        with Scope(log, RuntimeError) as scope:
            y = y.view(n)
            log.append(scope.depth)
        return torch.relu(y)

    return f, [(ONE, n) for n in (2, 2, 2, 2, 3, 2, 3)], log


@program()
def scope_around_everything():
    log = []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scope = Scope(log)
            self.layer = nn.Linear(2, 2)

        def forward(self, x, n):
            with self.scope:
                y = torch.tanh(self.layer(x))
                return y.view(n)

    return Model(), [(ONE, n) for n in (2, 2, 2, 2, 3, 2, 3)], log


@program()
def scope_that_swallows_a_raise():
    log = []
    scope = Scope(log, KeyError)

    def f(x, how):
        y = torch.tanh(x)
        with scope:
            y = y * 2
            if how == 1:
                raise KeyError("swallowed")
            if how == 2:
                raise ValueError("passed on")
            y = y + 1
        return y * 3

    return f, [(ONE, how) for how in (0, 0, 0, 1, 0, 2, 1, 0)], log


@program()
def exit_that_raises():
    seen = []

    class Closing:
        def __enter__(self):
            return None

        def __exit__(self, kind, error, trace):
            if kind is not None:
                raise LookupError("while leaving") from error
            seen.append(1)

    closing = Closing()

    def f(x, n):
        y = torch.tanh(x)
        with closing:
            y = y.view(n)
        return y * 2

    def chained(f):
        try:
            f(ONE, 3)
        except LookupError as error:
            return type(error.__cause__).__name__, type(error.__context__).__name__

    return f, [(ONE, n) for n in (2, 2, 2, 3, 2)] + [chained], seen


@program()
def generator_managers():
    log = []

    @contextlib.contextmanager
    def scope(name):
        log.append(("enter", name))
        try:
            yield name * 2
        except RuntimeError as error:
            log.append(type(error).__name__)
            raise KeyError(name) from error
        finally:
            log.append(("exit", name))

    def f(x, n):
        y = torch.tanh(x)
        with scope("a") as a, scope("b") as b:
            y = y.view(n) * len(a + b)
        return y * 2

    return f, [(ONE, n) for n in (2, 2, 2, 3, 2, 3)], log


@program()
def exit_stacks():
    log = []

    def f(xs):
        total = torch.zeros(2)
        with contextlib.ExitStack() as stack:
            for i, x in enumerate(xs):
                stack.callback(log.append, i)
                stack.enter_context(Scope(log))
                total = total + torch.tanh(x)
            stack.pop_all().close()
            log.append("closed")
        return total * 2

    return f, [([ONE, ONE],)] * 4 + [([ONE, THREE],), ([ONE],), ([],), ([ONE, ONE],)], log


@program()
def managers_that_do_nothing():
    def f(x, train):
        y = torch.tanh(x)
        with contextlib.nullcontext() if train else torch.no_grad():
            y = y * 2
        with contextlib.nullcontext(3) as three:
            y = y * three
        return y

    return f, [(torch.ones(2, requires_grad=True), t) for t in (True, True, True, False, True, False)]


@program()
def output_redirected():
    def f(x, word):
        with contextlib.redirect_stdout(io.StringIO()) as text:
            print(word, x)
            y = torch.tanh(x)
        print("after", len(text.getvalue()))
        return y * len(text.getvalue())

    return f, [(ONE, word) for word in ("a", "b", "a", "cc", "a")]


@program()
def modes_left_by_an_error():
    weight = torch.ones(2, requires_grad=True)

    def f(x, n):
        y = torch.tanh(x * weight)
        with torch.no_grad():
            z = (y * 2).view(n)
            with torch.enable_grad():
                z = z + weight.view(n)
        with torch.autocast("cpu", torch.bfloat16):
            z = z + torch.mm(y.view(1, 2), y.view(2, 1)).view(1).float()
        return z, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")

    return f, [(ONE, n) for n in (2, 2, 2, 3, 2, 3, 2)], weight


@program()
def modes_and_tries():
    def f(x, n):
        try:
            with torch.no_grad():
                y = torch.tanh(x).view(n)
        except RuntimeError:
            y = x * torch.is_grad_enabled()
        finally:
            seen = torch.is_grad_enabled()
        return y * 2, seen

    return f, [(torch.ones(2, requires_grad=True), n) for n in (2, 2, 2, 3, 2, 3)]


@program()
def loops_inside_managers():
    log = []

    def f(xs, limit):
        total = torch.zeros(2)
        for x in xs:
            with Scope(log):
                if x.sum() > limit:
                    break
                if x.sum() < 0:
                    continue
                total = total + torch.tanh(x)
        return total * 2

    return f, [([ONE, ONE * 2], 10)] * 4 + [([ONE, -ONE, ONE], 10), ([ONE, ONE * 3, ONE], 5), ([ONE, THREE], 9)], log


@program()
def a_manager_as_decorator():
    log = []

    class Traced(contextlib.ContextDecorator):
        def __enter__(self):
            log.append("enter")

        def __exit__(self, *given):
            log.append(given[0] and given[0].__name__)
            return False

    @Traced()
    def helper(x, n):
        return torch.tanh(x).view(n)

    @torch.no_grad()
    def frozen(x):
        return x * 2, torch.is_grad_enabled()

    def f(x, n):
        y = torch.relu(x) + 1
        return helper(y, n), frozen(y)

    return f, [(torch.ones(2, requires_grad=True), n) for n in (2, 2, 2, 3, 2)], log


@program()
def locks_and_files():
    import tempfile
    import threading

    lock = threading.Lock()

    def f(x, n):
        y = torch.tanh(x)
        with lock:
            y = y.view(n)
        with tempfile.TemporaryFile("w+") as file:
            file.write(str(n))
            file.seek(0)
            text = file.read()
        return y * 2, text, lock.locked(), file.closed

    return f, [(ONE, n) for n in (2, 2, 2, 3, 2, 3)]


@program()
def profiler_ranges():
    def f(x, n):
        with torch.profiler.record_function("step"):
            y = torch.tanh(x)
            with torch.autograd.profiler.record_function("view"):
                y = y.view(n)
        return y * 2

    return f, [(ONE, n) for n in (2, 2, 2, 3, 2, 3)]
