"""Templates for Python's own forms: sets, named tuples, enums, generators, protocols, closures over shared cells.

The kinds added to those of ``expressions``: Z a set of ints, P a pair (a named tuple of a row and a float), Q a deque
of rows.
"""

from __future__ import annotations

from .templates import table

TOPICS = (
    "set", "pair", "enum", "generator", "protocol", "cell", "default", "class", "delete", "collections", "through",
    "wrapped", "context", "autograd", "logging", "match", "walrus", "errors", "late",
)  # fmt: skip

LEAVES = {
    "Z": ["{$I, 1}", "set()", "{1, 2}"],
    "P": ["Pair($R, $F)", "PAIR"],
    "Q": ["deque([$R], 3)", "deque([torch.ones(4)], maxlen=2)"],
}

EXPRESSIONS = {
    "Z": table(r"""
core  | {$I, $I}
set   | set($N)
set  2| {i % 3 for i in $N}
set   | ($Z | $Z)
set   | ($Z & {0, 1, 2})
set   | ($Z - {$I})
set   | $Z.union([$I])
set   | {*$N, *$Z}
set   | SEEN_INTS
set   | set(range($I % 4))
set   | ($Z ^ $Z)
set   | set(map(abs, $Z))
"""),
    "P": table(r"""
core  | Pair($R, $F)
pair 2| Pair(row=$R, low=$F)
pair  | PAIR
pair  | $p._replace(low=$F)
pair  | $p._replace(row=$R)
pair  | Pair(*$p)
pair  | Pair._make([$R, $F])
pair  | Pair(**{'row': $R, 'low': $F})
pair  | ($P if $B else $P)
pair  | make_pair($R)
"""),
    "Q": table(r"""
core  | deque([$R], 3)
collections| deque($L, maxlen=3)
collections| QUEUE
collections| $q.copy()
"""),
    "V": table(r"""
pair  | $V + $P.row
pair  | $V * $p.low
pair  | ($V, *$P)[0]
set   | $V * len($Z)
enum  | ($V if Mode.of($I) is Mode.FAST else -$V)
enum  | {Mode.FAST: torch.relu, Mode.SLOW: torch.neg}[Mode.of($I)]($V)
generator| torch.stack(list(rows_of($V)))
generator| sum(rows_of($V), $V)
generator| reduce(torch.add, (t * $F for t in rows_of($V)), $V)
protocol | WRAP($V)
protocol | ($V * WRAP.rate)
protocol | (WRAP @ $V)
protocol | -WRAP + $V
protocol | ($V if WRAP else -$V)
protocol | $V * WRAP.missing
protocol | sum(WRAP, $V)
cell 2| STEP($V)
cell 2| $V * count_up()
cell  | $V + read_count()
cell  | make_step($F)($V)
default| $V + keep($R).sum(0)
default| $V * fold($V)
wrapped| doubled($V)
wrapped| doubled(v=$V)
wrapped| cached($I % 3) * $V
wrapped| partial(doubled, a=$F)($V)
wrapped| scaled($V)
wrapped| METHODS.twice($V)
wrapped| METHODS().thrice($V)
context | run_quietly($V)
autograd| Square.apply($V)
autograd| torch.autograd.functional.vjp(torch.tanh, $V.detach(), $v.detach())[0]
autograd| torch.func.vmap(lambda t: t * $F)($V)
autograd| torch.func.grad(lambda t: (t ** 2).sum())($V.detach())
autograd| torch.utils.checkpoint.checkpoint(torch.tanh, $V, use_reentrant=False)
walrus| (y := $V) + y
walrus| ((y := $V) * $F + y if $B else $V)
through| $v.view(-1)[$I % 4:].new_zeros(3, 4)
through| $v.as_strided((3, 4), (0, 1))
through| $v.T.contiguous().T
through| $v.unflatten(1, (2, 2)).flatten(1)
through| $v.movedim(0, 1).movedim(0, 1)
through| torch.view_as_real(torch.view_as_complex($v.contiguous().view(-1, 2, 2))).reshape(-1, 4)
late  | [lambda t, i=i: t * i for i in range(3)][$I % 3]($V)
late  | [lambda t: t * i for i in range(3)][$I % 3]($V)
late  | {k: (lambda t: t + k) for k in (1, 2)}[1]($V)
late  | (lambda *a, **k: a[0] * k.get('s', 1))($V, s=$F)
late  | (lambda t: (lambda u: u + t)($V))($V)
errors| guarded($V)
class | $V * Box.rank
class | $V * type(BOX).rank
class | BOX.ranked($V)
class | Box.named($V)
"""),
    "R": table(r"""
pair 2| $P.row
pair  | $p[0]
pair  | getattr($p, 'row')
pair  | $p._asdict()['row']
generator| next(rows_of($V))
generator| next(rows_of($V), $R)
generator| max((t for t in rows_of($V)), key=lambda t: t.sum().item())
generator| sum(t for t in rows_of($V) if t.sum() > $F)
generator| next((t for t in $L if t.sum() > $F), $R)
generator| echo($V)
generator| next(BOX.stream)
protocol | WRAP[$I]
protocol | WRAP.row
protocol | ($R + WRAP)
protocol | next(iter(WRAP))
collections| $q[-1]
collections| $q[0]
collections| sum($q)
collections| GROUPS[$S]
collections| MERGED['a']
collections| next(reversed($q))
default| keep($R)[-1]
class | Box.shared
class | BOX.shared
class | Box.table['a']
walrus| (q := $R) * $F + q
cell  | HOLDER.last
errors| rescue($L, $I)
through| $v.diagonal() if $v.shape[0] == 4 else $v[0]
through| $v.select(0, -1)
through| $v[0:1].squeeze(0)
"""),
    "I": table(r"""
set  2| len($Z)
set   | sum($Z)
set   | max($Z | {0})
set   | sorted($Z)[0]
pair  | len($P)
pair  | Pair._fields.index('low')
enum 2| Mode.of($I).value
enum  | len(Mode)
enum  | list(Mode).index(Mode.of($I))
generator| sum(1 for t in rows_of($V))
generator| len(list(filter(None, numbers_to($I % 5))))
generator| sum(numbers_to($I % 5))
protocol | len(WRAP)
protocol | hash(WRAP)
protocol | WRAP.missing
cell 2| count_up()
cell  | read_count()
default| len(keep($R))
class 2| Box.rank
class | BOX.rank
collections| TALLY['a']
collections| len($q)
collections| len(GROUPS)
match | classify($I)
match | classify($S)
match | classify(($I, $I))
match | classify($P)
match | classify($L)
walrus| (m := $I) + m
wrapped| cached.cache_info().currsize
through| $v.storage_offset()
through| $v._base is not None and 1 or 0
through| $v.stride(0)
"""),
    "F": table(r"""
pair 2| $P.low
pair  | ($p[1] + 1.0)
enum  | float(Mode.of($I).value)
cell  | HOLDER.rate
class | Box.factor
class | BOX.factor
protocol| float(WRAP)
"""),
    "B": table(r"""
set  2| ($I in $Z)
set   | ($Z <= $Z)
set   | $Z.isdisjoint({$I})
set   | $Z
pair  | ($p == $p)
pair  | isinstance($p, tuple)
pair  | ($p.row is $r)
enum 2| (Mode.of($I) is Mode.FAST)
enum  | (Mode.of($I) == Mode.SLOW)
enum  | (Mode(1) in (Mode.FAST,))
enum  | (MODE_NOW is Mode.FAST)
generator| any(t.sum() > $F for t in rows_of($V))
protocol 2| WRAP
protocol | ($I in WRAP)
protocol | (WRAP == $I)
protocol | (WRAP < $I)
protocol | not WRAP
collections| ($S in GROUPS)
collections| $q
walrus| (u := $I) > 1 and u < 3
walrus| (w := $W) > 0 or w < -1
class | hasattr(Box, 'later')
through| ($v._base is $v)
through| $v.is_contiguous()
through| ($v.data_ptr() == $v[0:].data_ptr())
errors| raises($I)
"""),
    "L": table(r"""
generator| list(rows_of($V))
generator| [t for t in rows_of($V)]
generator| [*rows_of($V)][:3]
collections| list($q)
collections| list(OrderedDict(zip('ab', $L)).values())
default | keep($R)
pair  | [p.row for p in (PAIR, $P)]
late  | [f(t) for f in (torch.neg, torch.relu) for t in $l[:2]]
late  | [[t * j for t in $l[:2]][0] for j in range(2) if $l]
set   | [$r * i for i in sorted($Z)[:4]]
"""),
    "D": table(r"""
pair  | {'a': $P.row, 'b': $P.row}
pair  | {**$p._asdict(), 'a': $R}
collections| MERGED
collections| dict(GROUPS)
collections| defaultdict(lambda: $R, a=$R)
"""),
    "N": table(r"""
set  2| sorted($Z)
set   | list($Z)[:4]
generator| list(numbers_to($I % 5))
generator| [*numbers_to($I % 4), $I]
enum  | [m.value for m in Mode]
collections| [TALLY[k] for k in ('a', 'z')]
"""),
    "S": table(r"""
enum  | Mode.of($I).name
pair  | Pair._fields[$I % 2]
match | describe($O)
match | describe($D)
protocol| repr(WRAP)
"""),
    "C": table(r"""
cell  | make_step($F)
cell  | STEP
wrapped| doubled
wrapped| partial(doubled, a=$F)
wrapped| METHODS.twice
late  | (lambda t, k=$F: t * k)
protocol| WRAP
autograd| Square.apply
"""),
}

STATEMENTS = table(r"""
set  3| $@Z = $Z
set  2| $z.add($I)
set   | $z.discard($I)
set   | $z.update($N)
set   | $z |= {$I}
set   | $z.remove($I)
set   | $@I = $z.pop()
set   | $z.clear()
set   | SEEN_INTS.add($I)
set   | for i in sorted($Z): $@V = $v + i
set   | if $I not in SEEN_INTS: SEEN_INTS.add($I); $@V = $V
pair 3| $@P = $P
pair  | $@R, $@F = $P
pair  | $@R, *_ = $P
pair  | BOX.pair = $P
pair  | $@P = getattr(BOX, 'pair', PAIR)
pair  | ($@R, $@F), $@I = $P, $I
enum  | globals()['MODE_NOW'] = Mode.of($I)
enum  | BOX.mode = Mode.of($I)
enum  | if Mode.of($I) is Mode.SLOW: $@V = $V
generator 2| for t in rows_of($V): $@R = t * $F
generator| g = rows_of($V); $@R = next(g); $@L = list(g)
generator| g = (t * $F for t in $L); $@L = list(g)
generator| BOX.stream = rows_of($V)
generator| BOX.stream = (t + $F for t in $L)
generator| $@L = [*BOX.stream]
generator| for $@I, t in enumerate(numbers_to(3)): $@F = $F + t
generator| g = adder(); next(g); $@R = g.send($R); g.close()
generator| for a, t in zip(numbers_to(2), rows_of($V)): $@R = t * a
generator| $@R = yield_twice($R)
protocol| WRAP.rate = $F
protocol| WRAP.watched = $I
protocol| WRAP[$I % 2] = $R
protocol| del WRAP[0]
protocol| $@R = WRAP.row + 1
protocol| WRAP.rows.append($R)
protocol| for t in WRAP: $@R = t
protocol| with WRAP as $@R: $@V = $V
protocol| WRAP.__iadd__($F)
protocol| if WRAP: $@V = $V
cell 2| count_up()
cell  | $@C = make_step($F)
cell  | HOLDER.last = $R
cell  | HOLDER.put($R, $F)
cell  | set_count($I)
cell  | $@C = count_by($I)
default| keep($R)
default| $@L = keep($R)[-2:]
default| keep.__defaults__[0].clear()
default| fold.total = $F
class 2| Box.rank += 1
class | BOX.rank = $I
class | Box.shared = $R
class | Box.shared.add_($F)
class | BOX.shared += $R
class | Box.table['a'] = $R
class | Box.factor *= $F
class | Box.later = $I
class | del Box.later
class | type(BOX).rank = $I
class | del BOX.rank
class | BOX.ranked = lambda v: v
class | Box.made.append($I)
delete | del $l[:1]
delete | del $l[$I:]
delete | del $d[$S]
delete | del $n[0]
delete | del $v, $r; $@V = torch.ones(3, 4); $@R = torch.ones(4)
delete | del $i\nif $B: $@I = $I\n$@I = $I
delete | del BOX.extra
delete | del BOX.items[0], BOX.items[0]
delete | if $B: del $o\n$@O = $O
delete | try: del globals()['EXTRA']\nexcept KeyError: globals()['EXTRA'] = $I
delete | globals()['EXTRA'] = $I
delete | TABLE.clear(); TABLE['a'] = $R
delete | del TABLE['a']; TABLE['a'] = $R
collections 2| $@Q = $Q
collections| $q.append($R)
collections| $q.appendleft($R)
collections| $@R = $q.popleft()
collections| $q.rotate(1)
collections| QUEUE.append($R)
collections| GROUPS[$S] = GROUPS[$S] + $R
collections| GROUPS['a'] += $R
collections| TALLY['a'] += $I
collections| TALLY.update($S)
collections| MERGED['a'] = $R
collections| for t in $q: $@R = t * $F
through 2| $v[0].mul_($F)
through| $v.view(-1)[::2].add_($F)
through| $v.narrow(1, 0, 2).neg_()
through| $v.unbind(0)[0].add_($R)
through| $v.chunk(2, 1)[1].fill_($F)
through| $v.diagonal().zero_()
through| $v.detach().add_($F)
through| $v.data.mul_($F)
through| $v.T[1] = $F
through| $v.T.T[0] += $R
through| $@V = $v.view_as($v); $v.add_($F)
through| $@R = $v[0]; $v.mul_($F)
through| $@R = $v[0]; $r.add_($F); $@V = $v * 1
through| $v.numpy()[0] = $F
through| $v[..., 1:3] *= $F
through| $v[$v.sum(1) > $F] += $R
through| $v.index_add_(0, torch.tensor([0]), $r[None])
through| $v.set_($V)
through| torch.mul($v, $F, out=$v)
through| $v.copy_($v.flip(0))
through| $v[:1], $v[1:2] = $v[1:2] * 1, $v[:1] * 1
through| BOX.total = $v[0]; $v.add_($F)
through| $@L = list($v.unbind(0)); $l[0].add_($F)
through| $v.split(1)[-1].copy_($R)
wrapped| $@V = doubled($V, $F)
wrapped| cached.cache_clear()
wrapped| $@C = partial(torch.add, $v)
context| with ExitStack() as stack: stack.enter_context(Manager('s')); $@V = $V
context| with quiet($S): $@V = $V
context| with quiet('q') as q: $@R = $R; raise KeyError($I)
context| with Manager('a') as a, Manager('b'): $@V = $V
context| with suppress(ZeroDivisionError): $@I = $I // $I
context| with torch.inference_mode(): $@V = $V
context| with torch.autocast('cpu', torch.bfloat16): $@V = $V
context| with redirect_stdout(StringIO()) as out: print($I); $@S = out.getvalue()
context| with torch.random.fork_rng(): $@V = $v + torch.rand($v.shape)
autograd| $v.register_hook(lambda g: g * 2)
autograd| $@V, = torch.autograd.grad(($v ** 2).sum(), $v)
autograd| $@V = $V.detach().requires_grad_()\n$v.sum().backward()\n$@V = $v.grad
autograd| LAST.requires_grad_(); (LAST * $F).sum().backward()
logging| logging.getLogger('generated').warning('at %s', $I)
logging| logging.getLogger('generated').info($S)
logging| print($P)
logging| sys.stderr.write($S)
logging| warnings.warn($S, UserWarning)
match | $@I = classify($I)
match | $@S = describe($O)
walrus| if ($@I := $I) > 1: $@V = $v * $I
walrus| while ($@I := $I % 3) > 1: break
walrus| $@N = [m := $I, m + 1]
walrus| print(last := $I); $@I = last
walrus| $@L = [y := $R, y * 2]
errors| $@R = rescue($L, $I)
errors| raise Trouble($S, $R)
errors| try: raise Trouble('t', $R)\nexcept Trouble as t: $@R = t.row
errors| try: $@R = $l[$I]\nexcept IndexError as e: raise Trouble('chained') from e
errors| try: $@V = $v.view($I)\nexcept RuntimeError: LOG.append('shape'); raise
errors| try: $@F = $F / $I\nexcept ZeroDivisionError as e: LOG.append(repr(e))\nelse: $@F = 1.5\nfinally: LOG.append(1)
errors| try: guarded($V)\nfinally: $v.add_(1)
errors| try: int($S)\nexcept (ValueError, TypeError): $@I = $I
errors| assert $B, ('failed', $S)
late  | hs = [lambda t: t + $F, lambda t: t * $F]; $@V = hs[$I % 2]($V)
late  | def local(t=$v): return t + $F\n$@V = local()
late  | class Local: rate = $F\n$@V = $v * Local.rate
late  | $@I = (lambda: $I)()
""")

RISKY = table(r"""
set   | $z.remove($I)
pair  | $@F = $P[$I]
enum  | $@I = Mode($I).value
generator| $@R = next(rows_of($V[:0]))
protocol| $@R = WRAP[$I]
delete| del $d['z']
errors| $@V = guarded($V)
errors| raise Trouble('risk', $R) from None
match | $@I = strict($I)
collections| $@R = deque()[0]
context| with Manager('m'): raise ValueError($I)
context| with quiet('x'): raise IndexError($I)
""")
