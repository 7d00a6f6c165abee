"""The expressions of generated programs: templates by kind and topic.

A kind is a letter: V a matrix of four columns, R a row of four, W a tensor without dimensions, I an int, F a float, B a
truth (a bool or a tensor), L a list of rows, D a dict of rows, O a row or None, C a function from matrix to matrix, S a
text, N a list of ints. In
a template ``$V`` stands for an expression of that kind, ``$v`` for a variable that is bound, ``$@V`` for a variable to
be bound. A line is ``topic weight| template``; a program has a few of the topics.
"""

from __future__ import annotations

from .templates import table

TOPICS = (
    "inplace", "list", "dict", "box", "net", "global", "random", "host", "closure", "item", "option", "view", "text",
    "numbers", "object", "grad", "alias", "jump", "shape", "new", "carry", "dispatch", "layers", "tree", "module",
    "opaque",
)  # fmt: skip


# Where nothing of the kind is bound, or no depth is left; the last of each needs no variable.
LEAVES = {
    "V": ["($v * 1)", "torch.ones(3, 4)"],
    "R": ["$v[0]", "$v.sum(0)", "torch.arange(4.0)"],
    "W": ["$v.sum()", "$r.max()", "torch.tensor(-0.5)"],
    "I": ["$v.shape[0]", "0", "1", "2", "3", "-1"],
    "F": ["0.5", "2.0", "-1.5", "0.0"],
    "B": ["($v.sum() > 0)", "($v[0, 0] < 0.5)", "($i > 1)", "($i == 2)", "($f < 1.0)", "True"],
    "L": ["[$r]", "[$v[0], $v[-1]]", "[]"],
    "D": ["{'a': $r}", "{'a': torch.ones(4)}"],
    "O": ["$r", "None"],
    "C": ["torch.relu", "(lambda t: t + 1)"],
    "S": ["'b'", "'a'"],
    "N": ["[$i, 1]", "[1, 2]"],
}

EXPRESSIONS = {
    "V": table(r"""
core 3| ($V + $V)
core 2| ($V * $F)
core 2| ($V * $I)
core  | ($V - $W)
core  | ($V + $R)
core  | ($V / $I)
core  | ($V ** 2)
core  | (-$V)
core  | torch.relu($V)
core  | torch.tanh(input=$V)
core  | torch.where($V > $F, $V, $V)
core  | ($V @ WEIGHT)
core  | $V.softmax(-1)
core  | $V.abs().sqrt()
core  | torch.zeros_like($V)
core  | $V.reshape(-1).view($v.shape)
core  | torch.stack([$V, $V]).sum(0)
core  | torch.cat([$V, $V])[: $v.shape[0]]
core 2| ($V if $B else $V)
core  | torch.full_like($v, $F)
core  | $v.new_zeros($v.shape)
core  | $V.clamp(min=$F)
core  | torch.ones($v.size(0), $v.size(1))
view 3| $v
view  | $v.t().contiguous().t()
view  | $v[:]
view  | $v.clone()
view  | $v.detach()
view  | $v.view($v.shape[0], -1)
view  | $v.flip(0)
view  | $v[torch.arange($v.shape[0])]
net  2| NET.lin($V)
net  2| NET.seq($V)
net   | NET.bn($V)
net   | NET.drop($V)
net  2| NET($V)
net   | ($V * NET.acc)
net   | F.linear($V, NET.lin.weight)
random| torch.rand_like($v)
random| torch.randn($v.shape)
random| F.dropout($V, 0.5)
random| ($V * torch.rand(1))
random| torch.bernoulli($V.sigmoid())
closure 2| $C($V)
closure| (lambda t, a=$F: t * a)($V)
list  | sum($L, $V)
list  | torch.stack([torch.ones(4), *$L]).sum(0, keepdim=True)
view  | $v[..., :4]
view  | $v[:, None].squeeze(1)
view  | $v.expand(3, 4)
view  | $v.masked_fill($v > $F, $F)
view  | $v.narrow(1, 0, 4)
view  | torch.chunk($v, 2, dim=1)[0].repeat(1, 2)
view  | $v[:, [3, 2, 1, 0]]
view  | torch.atleast_2d($R)
core  | torch.addcmul($V, $V, $V, value=$F)
core  | ($V > $V).float()
core  | $V.float()
core  | $V.to($v.dtype)
core  | $V.type_as($v)
core  | torch.cumsum($V, dim=$I % 2)
core  | ($F - $V)
core  | ($V - $V.mean(-1, keepdim=True)) / ($V.std() + 1)
core  | F.gelu($V)
numbers| $V * sum($N)
numbers| $V.reshape(*$v.shape)
object| ITEM.scale($V)
object| ($V * PAIR.low)
object| PAIR.row + $V
object| apply(torch.relu, $V)
object| apply(lambda t: t * $F, $V)
object| (ITEM + $V)
object| ITEM($V, $I)
object| Item.make($V)
grad  | NET.lin($V)
grad  | $V.detach().requires_grad_()
grad  | $V.detach()
shape | $V[$V[:, 0] > $F]
shape | $V[: $I % 4]
shape | $V.new_full(($I % 4, 4), $F)
shape | torch.cat([$V, $V])
shape | $V[torch.nonzero($v.sum(-1) > 0).squeeze(-1)]
shape | $V.unsqueeze(0)[0]
shape | torch.zeros(len($V), 4)
new   | Item($F)($V)
new   | Child($F).scale($V)
new   | Point($V, $I).shifted()
new   | Point($V, n=$I).v
dispatch 2| {'a': torch.relu, 'b': torch.tanh}.get($S, torch.sigmoid)($V)
dispatch| (torch.relu if $B else torch.tanh)($V)
dispatch| getattr(torch, $S + 'bs' if $S == 'a' else 'relu')($V)
dispatch| partial(torch.mul, other=$F)($V)
dispatch| reduce(torch.add, $L, $V)
dispatch| ACTIONS[$I % 2]($V)
layers 2| NET.stack($V)
layers| NET.layers[$I % 2]($V)
layers| NET.layers[-1]($V)
layers| NET.heads['a']($V)
layers| NET.heads[$S]($V)
layers| NET.frozen($V)
layers| F.batch_norm($V, None, None, training=True)
layers| F.layer_norm($V, (4,))
layers| F.dropout($V, $F, NET.training)
tree 2| $V * walk(TREE).sum()
tree  | $V + walk((TREE, $R))
module 2| self.lin($V)
module| self.drop($V)
module 2| self.mix($V)
module| self.mix($V, a=$F)
"""),
    "R": table(r"""
core 2| ($R + $R)
core  | ($R * $F)
core  | ($R - $I)
core 2| $V.sum(0)
core  | $V.mean(dim=0)
core  | $V[0]
core  | ($R if $B else $R)
core  | torch.full((4,), $F)
core  | torch.maximum($R, $R)
view  | $v[-1]
view  | $v[$I % max($v.shape[0], 1)]
view  | $v[0][:]
view  | $r.view(4)
view  | $v.unbind(0)[0]
list 2| $l[-1]
list 2| $l[$I]
list  | sum($L)
dict 2| $d['a']
dict  | $d.get('b', $R)
dict  | sum($d.values())
box   | BOX.total
box   | BOX.step($R)
box   | BOX.items[-1]
net   | NET.acc
net   | NET.lin.bias
global| LAST
global| TABLE['a']
option| ($o if $o is not None else $R)
option| ($o or $R)
random| torch.rand(4)
object| ITEM.row
object| ITEM[$I]
object| PAIR.row
object| PAIR._replace(low=$F).row
numbers| torch.tensor([float(i) for i in $N] + [0.0] * 4)[:4]
grad  | NET.lin.bias
tree  | walk(TREE)
tree  | walk(($R, (None, $R)))
layers| NET.heads['a'].bias
new   | Item(0.5).row
new   | Child($F).row
module 2| self.acc
module| self.lin.bias
module| (self.cache if self.cache is not None else $R)
module| self.history[-1]
module| self.table['a']
opaque 2| swap($R)
opaque| (LAST + swap($R))
opaque| TABLE['a'] * tick()
"""),
    "W": table(r"""
core 2| $V.sum()
core  | $V.mean()
core  | $R.max()
core  | ($W + $W)
core  | ($W * $F)
core  | torch.tensor($F)
core  | ($R @ $R)
core  | $R[$I % 4]
view  | $v[0, 0]
opaque 2| stir($V)
opaque| stir($v, $I % 3)
opaque| $v.sum() * stir($v)
"""),
    "I": table(r"""
core 2| ($I + $I)
core  | ($I * 2)
core  | ($I % 3)
core  | ($I // 2)
core 2| $v.shape[0]
core  | $v.size(-1)
core  | $v.dim()
core  | $v.numel()
core  | max($I, $I)
core  | -$I
core  | ($I if $B else $I)
core  | int($F)
core  | (sum($v.shape) % 5)
list 2| len($l)
dict  | len($d)
box  2| BOX.count
net   | NET.steps
global 2| COUNT
host  | len(LOG)
item  | int($W)
item  | $V.argmax().item()
numbers 2| sum($N)
numbers| len($N)
numbers| $n[-1]
numbers| max([1, *$N])
numbers| len({*$N})
numbers| divmod($I, 3)[0]
numbers| ($I & 3)
numbers| round($F)
numbers| sum(i for i in $N if i > $I)
text  | len($S)
text  | $S.count('a')
object| ITEM.double
object| len(ITEM)
object| Item.made
object| getattr(ITEM, 'size', 3)
object| getattr(ITEM, 'missing', $I)
grad  | torch.is_grad_enabled() + 0
tree  | size(TREE)
new   | Point($V, $I).n
new   | Child($F).double
shape | ($V > $F).sum().item()
shape | $V.nonzero().shape[0]
shape | list($V.shape)[-1]
layers| len(NET.layers)
layers| sum(p.numel() for p in NET.heads.parameters())
core  | ($I ** 2)
core  | ($I - 2 ** 3)
core  | abs($I)
core  | ($I or $I)
core  | ($I and $I)
core  | (1 if isinstance($I, bool) else $I)
module 2| self.n
module| self.twice
module| len(self.history)
opaque 2| tick()
opaque| tick($I)
opaque| (COUNT + tick())
opaque| [COUNT, tick(), COUNT][$I % 3]
opaque| (COUNT if MODE else tick())
box   | poke()
box   | (BOX.count - poke($I))
"""),
    "F": table(r"""
core 2| ($F + $F)
core  | ($F * $I)
core  | ($I / 2)
core  | abs($F)
core  | min($F, $F)
core  | ($F if $B else $F)
item 2| $W.item()
item 2| float($W)
global 2| SCALE
random| random.random()
box   | BOX.rate
numbers| float(sum($N))
numbers| ($F ** 2)
numbers| ($I + 0.5)
object| PAIR.low
object| ITEM.rate
core  | ($F or $F)
core  | ($F // 0.5)
core  | ($F % 0.7)
core  | math.floor($F) + 0.5
core  | math.sqrt(abs($F))
layers| NET.drop.p
layers| NET.bn.momentum
opaque| (SCALE * tick())
opaque| float(stir($V))
"""),
    "B": table(r"""
core 2| ($I > $I)
core  | ($I == $I)
core  | ($I % 2 == 0)
core  | (0 < $I < 5)
core  | ($F < $F)
core 3| ($W > $F)
core  | ($V > 0).any()
core  | ($B and $B)
core  | ($B or $B)
core  | (not $B)
core  | ($v.shape == $v.shape)
core  | ($v.dtype == torch.float32)
core  | $v.requires_grad
core  | ($V.sum() > 0 > $I)
item  | ($W > $F).item()
item  | bool($W)
list  | $l
list  | (len($l) > $I)
dict  | ('b' in $d)
option 2| ($o is None)
option| ($o is not None and $W > 0)
net   | NET.training
box   | (BOX.last is None)
box   | isinstance(BOX.last, torch.Tensor)
global| MODE
host  | ('JANUSC_GENERATED' in os.environ)
random| (random.random() > 0.5)
random| (torch.rand(1) > 0.5)
numbers| ($I in $N)
numbers| any(i > 1 for i in $N)
numbers| all([i > 0 for i in $N])
numbers| ($N == $N)
text  | ($S == $S)
text  | $S.startswith('a')
text  | ($S in ('a', 'b'))
object| ITEM
object| hasattr(ITEM, 'size')
object| isinstance(ITEM, Item)
grad  | torch.is_grad_enabled()
grad  | (NET.lin.weight.grad is not None)
core  | ($I != $I)
core  | ($V.shape[0] > 2)
core  | (len($v) == 3)
alias 2| ($v is $v)
alias | ($r is $r)
alias | (BOX.total is LAST)
alias | ($l is BOX.items)
core  | (type($I) is int)
core  | ($F != $F)
core  | ($F is None)
core  | (($B) is True)
core  | (not ($W > $F))
core  | all(t > 0 for t in $v[0])
layers| any(p.requires_grad for p in NET.parameters())
layers| isinstance(NET.layers[0], nn.Linear)
shape | ($V.numel() > 4)
carry | ($o is not None)
module| self.cache is None
module| self.n > $I
module| ('a' in self.table)
module| self.history
opaque| (COUNT < tick() < 9)
opaque| (MODE or tick() > 3)
opaque| (MODE and swap($R).sum() > 0)
"""),
    "L": table(r"""
core  | [$R, $R]
core  | [$R]
list  | [$R for _ in range($I % 3)]
list  | [t * $F for t in $l[:4]]
list  | [t + i for i, t in enumerate($l[:4]) if i != $I]
list  | [a + b for a, b in zip($L, $L)]
list  | list($l)
list  | ($L + [$R])
list  | $l[:2]
list  | list($V)
list  | list($V.unbind(0))
list  | $l[::-1]
box   | BOX.items
dict  | list($d.values())
list  | [*$L, *$L][:5]
list  | [t if $B else -t for t in $l[:4]]
list  | [t for t in $l[:4] if t.sum() > $F]
list  | list(map(torch.neg, $l[:4]))
list  | list(reversed($l))
list  | sorted($l, key=lambda t: t.sum().item())
view  | list($v.split(1))
view  | [$v[0], $v[1]]
alias | [$r] * 2
alias | [$r, $r.view(4)]
"""),
    "D": table(r"""
core  | {'a': $R, 'b': $R}
dict  | dict($d)
dict  | {**$d, 'b': $R}
dict  | {key: t * $F for key, t in $d.items()}
dict  | {'a': $R, **{str(i): t for i, t in enumerate($L)}}
global| TABLE
dict  | {key: $R for key in ('a', 'b')}
dict  | dict(a=$R, b=$R)
dict  | ($d | {'b': $R})
text  | {'a': $R, $S: $R}
"""),
    "O": table(r"""
core  | None
core  | $R
option| ($R if $B else None)
dict  | $d.get('b')
box   | BOX.last
"""),
    "S": table(r"""
core  | str($I)
core 2| f'n{$i}'
text  | f'{$f:.2f} {$i:>3}'
text  | f'{tuple($v.shape)} {$v.sum():.3f}'
text  | $S.upper()
text  | ($S + $S)
text  | '-'.join([$S, $S])
text  | '%d of %s' % ($I, $S)
text  | ($S if $B else $S)
text  | str($v.dtype)
text  | repr($F)
"""),
    "N": table(r"""
core  | [$I, $I]
core  | list(range($I % 4))
numbers| sorted($N)
numbers| [i * 2 for i in $N]
numbers| [i for i in $N if i != $I]
numbers| ($N + $N)[:5]
numbers| [*$v.shape]
numbers| list($v.shape)
numbers| $n[::-1]
numbers| [i + j for i in $N[:3] for j in $N[:2]]
item  | $r.int().tolist()
"""),
    "C": table(r"""
object| ITEM.scale
closure| (lambda t, c=$C: c(c(t)))
closure| (lambda *ts: sum(ts))
core  | (lambda t: t * $F)
core  | (lambda t: t + $R)
closure| (lambda t: $v + t * $I)
closure| torch.sigmoid
net   | NET.lin
net   | NET.seq
"""),
}
