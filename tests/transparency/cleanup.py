"""Programs that clean up, return or jump on their way out of a ``try``, and that catch what others raised."""

import contextlib
import sys
import traceback

import torch
from torch import nn

from . import Call, program

ONE, TWO, THREE = torch.ones(2), torch.ones(2) * 2, torch.ones(3)


class Trouble(Exception):
    def __init__(self, message, code=0):
        super().__init__(message)
        self.code = code


@program()
def return_in_try_and_finally():
    log = []

    def f(x, how):
        y = torch.tanh(x)
        try:
            if how == 1:
                return y + 1
            if how == 2:
                return y.view(5)
            y = y * 2
        except RuntimeError:
            log.append("except")
            return y - 1
        finally:
            log.append(how)
        return y * 3

    return f, [(ONE, h) for h in (0, 0, 0, 1, 0, 2, 1, 2, 2, 0)], log


@program(graph=False)
def jumps_out_of_finally():
    def f(xs):
        total = torch.zeros(2)
        for x in xs:
            try:
                total = total + x
            finally:
                continue  # noqa: B012
        return total

    def g(x):
        try:
            return x.view(9)
        finally:
            return x * 2  # noqa: B012

    return lambda xs, x: (f(xs), g(x)), [([ONE, THREE, TWO], ONE)] * 5


@program()
def tries_in_a_loop():
    log = []

    def f(xs):
        total = torch.zeros(2)
        for i, x in enumerate(xs):
            try:
                if i == 3:
                    break
                y = torch.tanh(x) + torch.zeros(2)
                if i == 1:
                    continue
                total = total + y
            except RuntimeError:
                log.append(i)
            finally:
                log.append("end")
        else:
            log.append("else")
        return total

    good = [ONE, ONE, ONE]
    return f, [(good,)] * 4 + [([ONE, THREE, ONE],), (good,), ([ONE] * 5,), ([THREE] * 3,), ([],)], log


@program()
def nested_tries():
    log = []

    def f(x, n, m):
        y = torch.tanh(x)
        try:
            try:
                y = y.view(n)
            finally:
                log.append("inner")
            try:
                y = y + torch.ones(m)
            except TypeError:
                log.append("never")
        except RuntimeError as error:
            log.append(len(error.args))
            y = y * 2
        finally:
            log.append("outer")
        return y

    return f, [(ONE, n, m) for n, m in [(2, 2)] * 4 + [(3, 2), (2, 3), (2, 2), (3, 3), (2, 2)]], log


@program()
def name_of_the_handler_is_gone():
    def f(x, n):
        error = "before"
        y = torch.tanh(x)
        try:
            y = y.view(n)
        except RuntimeError as error:
            y = y + len(error.args)
        return y, error

    return f, [(ONE, n) for n in (2, 2, 2, 3, 2, 3)]


@program()
def raised_in_a_helper_and_caught_outside():
    log = []

    def check(x, limit):
        log.append("check")
        if x.sum() > limit:
            raise Trouble("large", limit)
        return torch.tanh(x)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        @property
        def scale(self):
            if self.calls > 5:
                raise Trouble("worn out", self.calls)
            return 2.0

        def forward(self, x, limit):
            self.calls += 1
            y = torch.tanh(x)
            try:
                y = check(x, limit) * self.scale
            except Trouble as trouble:
                y = y * trouble.code
            return y

    return Model(), [(ONE, limit) for limit in (9, 9, 9, 1, 9, 9, 9, 1)], log


@program()
def raised_in_a_comprehension_or_lambda():
    def f(xs, n):
        half = lambda x: x.view(n)
        try:
            return torch.stack([half(torch.tanh(x)) for x in xs])
        except RuntimeError as error:
            return str(error)

    return f, [([ONE, TWO], 2)] * 4 + [([ONE, THREE], 2), ([ONE, TWO], 2), ([ONE, TWO], 4)]


@program()
def error_in_the_handler_and_in_finally():
    def f(x, how):
        y = torch.tanh(x)
        try:
            y = y.view(2 + min(how, 1))
        except RuntimeError:
            if how == 2:
                y = {}["missing"]
        finally:
            if how == 3:
                y = [][1]
        return y

    return f, [(ONE, how) for how in (0, 0, 0, 1, 2, 3, 0, 3)]


@program()
def types_to_catch_are_looked_up_when_needed():
    kinds = {"kind": KeyError}

    def f(x, n):
        y = torch.tanh(x)
        try:
            y = y.view(n)
        except kinds["kind"]:
            y = y * 2
        return y

    def change(f):
        kinds["kind"] = (RuntimeError, ValueError)
        return f(ONE, 3)

    return f, [(ONE, 2)] * 4 + [(ONE, 3), (ONE, 2), change, (ONE, 3), (ONE, 2)], kinds


@program()
def what_the_handler_sees():
    def f(x, n):
        y = torch.tanh(x)
        try:
            y = y.view(n)
        except RuntimeError:
            kind, value, trace = sys.exc_info()
            lines = [frame.lineno - f.__code__.co_firstlineno for frame in traceback.extract_tb(trace)]
            return kind.__name__, str(value), lines, traceback.format_exc().count("\n")
        return y

    return f, [(ONE, n) for n in (2, 2, 2, 3, 2, 3)]


@program()
def failing_assertions_in_try():
    def f(x):
        y = torch.tanh(x)
        try:
            assert y.sum() > 0, "negative"
            y = y * 2
        except AssertionError as error:
            return error.args, y
        return y

    return f, [(ONE,), (ONE,), (ONE,), (-ONE,), (ONE,), (-ONE,)]


@program()
def stop_iteration():
    def f(items, x):
        y = torch.tanh(x)
        try:
            first = next(iter(items))
        except StopIteration as stop:
            return y, stop.value
        return y * first

    return f, [([2], ONE), ([3], ONE), ([4], ONE), ([], ONE), ([5], ONE), ([], ONE)]


@program()
def stop_iteration_that_escapes():
    def f(items, x):
        y = torch.tanh(x)
        first = next(iter(items))
        return y * first

    return f, [([2], ONE), ([3], ONE), ([4], ONE), ([], ONE), ([5], ONE), ([], ONE)]


@program()
def state_before_the_error_is_kept():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(2))
            self.calls, self.log = 0, []

        def forward(self, x, y):
            self.calls += 1
            self.total += 1
            try:
                self.log.append(self.calls)
                z = torch.tanh(x) + y
                self.total += 10
                self.calls += 10
            except RuntimeError:
                self.log.append(-self.calls)
                self.total *= 2
                z = self.total.clone()
            finally:
                self.calls += 100
                self.log.append(float(self.total[0]))
            return z

    return Model(), [(ONE, ONE)] * 4 + [(ONE, THREE), (ONE, ONE), (ONE, THREE), (ONE, THREE)]


@program()
def exception_as_a_value():
    def f(x, fail):
        y = torch.tanh(x)
        error = Trouble("kept", 4) if fail else None
        try:
            if error is not None:
                raise error
        except Trouble as caught:
            same = caught is error
            return y * caught.code, same, str(caught)
        return y, None, None

    return f, [(ONE, fail) for fail in (False, False, False, True, False, True)]


@program()
def notes_and_arguments():
    def f(x, n):
        try:
            return torch.tanh(x).view(n)
        except RuntimeError as error:
            error.args = (*error.args, n)
            error.mine = n
            raise

    return f, [(ONE, n) for n in (2, 2, 2, 3, 2, 4)]


@program()
def suppressed():
    log = []

    def f(x, n):
        y = torch.tanh(x)
        with contextlib.suppress(RuntimeError):
            y = y.view(n)
            log.append(n)
        return y * 2

    return f, [(ONE, n) for n in (2, 2, 2, 3, 2, 3)], log


@program()
def wrong_calls_of_inner_functions():
    def helper(x, *, scale):
        return x * scale

    def f(x, given):
        y = torch.tanh(x)
        try:
            return helper(y, **given)
        except TypeError as error:
            return str(error)

    return f, [Call(ONE, given=g) for g in ({"scale": 2}, {"scale": 2}, {"scale": 3}, {}, {"scale": 2}, {"other": 1})]


@program()
def generator_closed_and_thrown_into():
    log = []

    def numbers():
        try:
            while True:
                try:
                    yield len(log)
                except Trouble as trouble:
                    log.append(trouble.code)
        finally:
            log.append("closed")

    def f(x):
        source = numbers()
        y = torch.tanh(x) * (1 + next(source))
        y = y + source.throw(Trouble("in", 3))
        source.close()
        return y

    return f, [(ONE,)] * 5, log
