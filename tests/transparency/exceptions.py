"""Programs that raise, catch, clean up and chain exceptions around tensor operations and around code of their own."""

import contextlib
import sys
import traceback
import warnings

import torch
from torch import nn

from . import Call, program

ONE, TWO, THREE = torch.ones(2), torch.ones(2) * 2, torch.ones(3)


class Trouble(Exception):
    def __init__(self, message, code=0):
        super().__init__(message)
        self.code = code


class Worse(Trouble):
    pass


@program()
def handler_of_a_failing_operation():
    log = []

    def f(x, y):
        log.append("start")
        try:
            z = x * 2 + y
            log.append("worked")
        except RuntimeError as error:
            log.append(type(error).__name__)
            z = x * 3
        else:
            log.append("else")
            z = z + 1
        finally:
            log.append("finally")
        return z * 2

    return f, [(ONE, ONE)] * 4 + [(ONE, THREE), (ONE, ONE), (ONE, THREE), (ONE, THREE), (ONE, ONE)], log


@program()
def handler_taken_by_every_call():
    seen = []

    def f(x, y):
        w = torch.tanh(x) * 2
        try:
            z = x + y
        except RuntimeError:
            z = y.sum() + w
            seen.append("handled")
        return z * 3 + w

    return f, [(ONE, THREE)] * 7 + [(ONE, ONE)] * 2, seen


@program()
def division_in_try():
    def f(x, n):
        try:
            k = 10 / n
        except ZeroDivisionError:
            k = 0.5
        return torch.tanh(x * k) + 1

    return f, [(ONE, n) for n in (0, 0, 0, 0, 4, 0, 5, 0)]


@program()
def division_in_try_that_fails_late():
    def f(x, n, table):
        y = torch.tanh(x) * 2
        try:
            k = 10 % n
            k += table["k"]
        except (ZeroDivisionError, KeyError) as error:
            k = len(error.args)
        else:
            k += 1
        return y * k

    return f, [(ONE, n, t) for n in (3, 4, 0, 0, 5) for t in ({"k": 1}, {}, {"k": 2})]


@program()
def cache_by_exception():
    cache = {}

    def f(x, key):
        y = torch.tanh(x)
        try:
            weight = cache[key]
        except KeyError:
            weight = cache[key] = torch.ones(2) * len(key)
        return y * weight

    return f, [(ONE, k) for k in ("a", "a", "a", "bb", "a", "bb", "ccc", "ccc")], cache


@program()
def attribute_by_exception():
    class Box:
        pass

    box = Box()

    def f(x):
        y = torch.tanh(x)
        try:
            count = box.count
        except AttributeError:
            count = box.count = 1
        box.count = count + 1
        return y * count

    def lose(f):
        del box.count
        return f(ONE)

    return f, [(ONE,)] * 5 + [lose, (ONE,), lose], box


@program()
def text_to_number():
    def f(x, text):
        try:
            value = float(text)
        except ValueError as error:
            value = float(len(str(error)))
        return torch.tanh(x) * value

    return f, [(ONE, t) for t in ("1", "2", "x", "3.5", "yy", "yy", "4")]


@program()
def custom_class_with_attributes():
    def f(x, limit):
        y = x * 2
        if y.sum() > limit:
            raise Worse(f"over {limit}", code=limit)
        return y

    return f, [(ONE, 10)] * 4 + [(ONE, 1), (ONE, 10), (ONE, 2)]


@program()
def one_exception_object_for_all():
    shared = Trouble("shared", 7)
    same = []

    def f(x, fail):
        y = torch.tanh(x)
        if fail:
            raise shared
        return y

    def step(f):
        try:
            return f(ONE, True)
        except Trouble as error:
            same.append(error is shared)
            return error.code

    return f, [(ONE, False)] * 4 + [step, (ONE, False), step, (ONE, True)], same


@program()
def chained_causes():
    def f(x, how):
        y = torch.tanh(x) * 2
        try:
            if how:
                y = y.view(7)
        except RuntimeError as error:
            if how == 1:
                raise Trouble("from", 1) from error
            if how == 2:
                raise Trouble("none", 2) from None
            if how == 3:
                raise Trouble("context", 3)  # noqa: B904
            if how == 4:
                raise
            y = y + len(error.args)
        return y

    def shown(how):
        def step(f):
            try:
                return f(ONE, how)
            except Exception as error:
                chain = [type(error).__name__]
                while error.__cause__ or error.__context__:
                    error = error.__cause__ or error.__context__
                    chain.append((type(error).__name__, str(error)))
                return chain

        return step

    return f, [(ONE, 0)] * 4 + [(ONE, how) for how in (1, 2, 3, 4, 5, 0)] + [shown(h) for h in (1, 2, 3, 4)]


@program()
def context_of_the_callers_handler():
    def f(x, n):
        y = torch.tanh(x)
        return y.view(n)

    def inside_a_handler(n):
        def step(f):
            try:
                raise KeyError("outer")
            except KeyError:
                try:
                    return f(ONE, n)
                except RuntimeError as error:
                    return type(error.__context__).__name__, error.__cause__, error.__suppress_context__

        return step

    return f, [(ONE, 2)] * 4 + [(ONE, 3), inside_a_handler(3), inside_a_handler(2), inside_a_handler(3)]


@program()
def bare_raise_of_the_callers_exception():
    def f(x, fail):
        y = torch.tanh(x)
        if fail:
            raise  # noqa: PLE0704
        return y, sys.exc_info()[0]

    def handling(fail):
        def step(f):
            try:
                raise Trouble("callers")
            except Trouble:
                return f(ONE, fail)

        return step

    return f, [(ONE, False)] * 4 + [handling(False), handling(True), (ONE, True), (ONE, False)]


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
        half = lambda x: x.view(n)  # noqa: E731
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
