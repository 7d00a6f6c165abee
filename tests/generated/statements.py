"""The statements of generated programs: templates by topic, as in ``expressions``."""

from __future__ import annotations

from .templates import table

STATEMENTS = table(r"""
core 6| $@V = $V
core 2| $@R = $R
core 2| $@W = $W
core 2| $@I = $I
core 2| $@F = $F
core  | $@B = $B
core  | $@O = $O
core  | $@V, $@R = $V, $R
core  | $@I, $@F = $I, $F
core  | $@V, $@V = $v, $v
core  | $@R = $@R = $R
core  | $i += $I
core  | $f *= $F
core 2| $@V = $v + $V
core  | assert $B
core  | assert $I != 7, ('seven', $I)
core  | $@V: torch.Tensor = $V
view 2| $@V = $v
view  | $@R = $v[0]
view  | $@R = $r
inplace 2| $v += $V
inplace 2| $v *= $F
inplace 2| $v.add_($R)
inplace| $v.mul_($F)
inplace 2| $v[0] = $R
inplace| $v[:, 1] = $W
inplace| $v[:, 0] *= $F
inplace| $v[0].add_($R)
inplace| $v.view(-1)[0] = $F
inplace| $v[$I % 2, 1] += $W
inplace| $v.t()[0].neg_()
inplace| $v[$v > $F] = 0.0
inplace| $v.clamp_(min=$F)
inplace| $v.relu_()
inplace| $v.zero_()
inplace| torch.add($v, $R, out=$v)
inplace| $r.copy_($R)
inplace| $r[$I % 4] = $F
inplace| $r[1:3].fill_($F)
inplace| $r += $R
inplace| $w.add_($F)
inplace| $@R = $r.neg_()
inplace| F.relu($v, inplace=True)
list 2| $@L = $L
list 2| $l.append($R)
list  | $l[-1] = $R
list  | $l[0] += $R
list  | $l[0].add_($F)
list  | $l.insert(0, $R)
list  | $l.extend([$R, $R])
list  | $l += [$R]
list  | $@R = $l.pop()
list  | $@R = $l.pop(0)
list  | $l.reverse()
list  | del $l[0]
list  | $@R, *$@L = $l
list  | $l[:1] = [$R, $R]
dict  | $@D = $D
dict 2| $d['a'] = $R
dict  | $d['b'] = $R
dict  | $d['a'] += $R
dict  | $d['a'].mul_($F)
dict  | $d.update(b=$R)
dict  | $@O = $d.pop('b', None)
dict  | $@R = $d.setdefault('c', $R)
dict  | del $d['b']
box  2| BOX.count += 1
box  2| BOX.total = $R
box   | BOX.total += $R
box   | BOX.total = BOX.total + $R
box   | BOX.total.add_($R)
box   | BOX.last = $O
box   | BOX.items.append($R)
box   | BOX.items = $L
box   | BOX.rate = $F
box   | BOX.count = $I
box   | setattr(BOX, 'extra', $F)
box   | $@R = BOX.step($R, scale=$F)
net   | NET.acc = $R
net   | NET.acc = NET.acc * $F
net   | NET.acc.mul_($F)
net   | NET.acc += $R
net  2| NET.steps += 1
net   | NET.train($B)
net   | NET.eval()
net  2| $@V = NET($V)
global 2| COUNT += 1
global| COUNT = $I
global| SCALE = $F
global| LAST = $R
global| MODE = not MODE
global| TABLE['a'] = $R
random| torch.manual_seed($I)
random| random.seed($I)
random| $@V = $v + torch.rand($v.shape[0], 4)
random| $@F = random.random()
random| $v.uniform_()
host 2| print('at', $I, $F)
host  | print($W)
host 2| LOG.append($I)
host  | LOG.append($W.item())
host  | os.environ['JANUSC_GENERATED'] = str($I)
closure| $@C = $C
option| $@O = $O
item  | $@F = $W.item()
item  | $@I = int($W)
core  | $@B = $B
core  | $@S = $S
core  | pass
core  | if $B: $@V = $v * $F
core  | ($@I, $@R), $@F = ($I, $R), $F
core  | $@V = $@V = $V
jump  | if $B: assert $I < 4
jump 2| if $B: return $V
jump  | if $B: raise ValueError($I)
text 2| $@S = $S
text  | $s += $S
text  | print(f'{$s} {$i}', $S)
text  | print($S, end=' ')
numbers 2| $@N = $N
numbers| $n.append($I)
numbers| $n[-1] += 1
numbers| $n.sort()
numbers| $n.extend($N)
numbers| $@I = $n.pop()
numbers| $@I, *$@N = [$I, *$N]
numbers| $@I = ($@I := $I) + 1
alias 2| BOX.total = LAST
alias 2| $@R = BOX.total
alias 2| BOX.last = $r
alias | BOX.items.append(BOX.total)
alias | BOX.items[-1].add_($F)
alias 2| $@R = $v[0]
alias | $r.mul_($F)
alias | $@V = $v.view(-1, 4)
alias | BOX.total.copy_($R)
alias | $@L = [$r, $r]
alias | LAST.add_($F)
object| ITEM.row = $R
object| ITEM.row += $F
object| ITEM[$I] = $R
object| ITEM.double = $I
object| ITEM.rate *= $F
object| Item.made += 1
object| del ITEM[0]
object| ITEM.size = $I
object| $@R, $@F = PAIR
object| $@R = PAIR[0]
object| with Manager($S): $@V = $V
object| with Manager('m') as m: $@R = $R; m.append('in')
grad  | NET($V).sum().backward()
grad  | NET.lin.weight.grad = None
grad  | NET.zero_grad()
grad  | OPTIM.zero_grad()
grad 2| OPTIM.step()
grad 2| OPTIM.zero_grad(); (NET.lin($V) ** 2).mean().backward(); OPTIM.step()
grad  | $v.requires_grad_($B)
grad  | torch.set_grad_enabled($B)
grad  | with torch.no_grad(): NET.lin.weight.mul_($F)
grad  | NET.lin.bias.data = NET.lin.bias.data * $F
grad  | nn.utils.clip_grad_norm_(NET.parameters(), 1.0)
host  | warnings.warn('generated')
host  | warnings.warn(f'at {$i}')
carry 4| $@O = $R if $o is None else $o + $R
carry 2| if $o is None: $@O = $R
carry | $r, $@R = $R, $r
carry 2| $@R, $@R = $R, $R
carry | $w = $w + $v.sum()
carry | $@V = $v if $o is None else $v + $o
carry | $l = $l + [$R]
carry | $f = $f + $w
carry | $i = $i / 1
carry | $i = $w
carry | $r = $r[None]
shape | $v.t_()
shape | $v.unsqueeze_(0)
shape | $v.squeeze_()
shape | $v.transpose_(0, 1)
shape | if $v.is_contiguous(): $v.resize_(1, $v.numel())
shape | $v.data = $V
shape | $@V = $v[$v[:, 0] > $F]
shape | assert $v.shape[0] > 1
new   | $@R = Item($F).row
new   | BOX.last = Item($F).row
new   | BOX.child = Child($F)
new   | $@I = getattr(BOX, 'child', ITEM).double
new   | BOX.point = Point($V, $I)
new   | del BOX.extra
new   | BOX.extra = $F
new   | $@B = hasattr(BOX, 'extra')
dispatch| ACTIONS.append(ACTIONS[$I])
dispatch| ACTIONS[0] = $C
dispatch| $@C = BOX.step if $B else torch.neg
dispatch| $@C = h0 if $B else torch.neg
layers| for layer in NET.layers: $v = layer($v)
layers| for name, p in NET.named_parameters(): $@W = p.sum()
layers| NET.layers[0].weight.data.mul_($F)
layers| NET.drop.p = 0.25
layers| NET.bn.eval()
layers| NET.bn.running_mean.zero_()
layers| NET.extra = $R
layers| NET.bn.reset_running_stats()
tree  | $@R = walk(TREE, $I)
random| $@I = random.randrange(4)
random| $@R = torch.randperm(4) * $F
random| $@V = $v[torch.randint(0, 3, (3,))]
random| torch.nn.init.uniform_($v)
random| $@V = torch.normal($v, 1.0)
host  | time.time()
host  | $@I = len(sys.argv) * 0
host  | print($v)
host  | print(*$L, sep='|')
host  | sys.stdout.write($S)
closure| $@C = lambda t, keep=$v: t + keep
closure| $@C = [(lambda t: t * i) for i in range(3)][$I % 3]
object| ITEM.rows.append($R)
object| ITEM.rows[0] += $R
object| for t in ITEM: $@R = t
object| try: $@R = ITEM[$I]\nexcept IndexError as error: LOG.append(str(error))
core  | del $v; $@V = torch.ones(3, 4)
core  | try: $@V = $v + $v[:, :$I]\nexcept RuntimeError: $@V = $v
core  | try: $v.add_(1).view(-1)[$I] += $F\nfinally: $@F = $F
module 3| self.n += 1
module 2| self.acc = self.acc * $F + $R
module| self.acc += $R
module| self.acc.add_($R)
module| self.acc = $R
module 2| self.history.append($R)
module| self.history = self.history[-2:]
module| self.history[-1] = $R
module| self.cache = $O
module| if self.cache is None: self.cache = $R
module| self.table['a'] = $R
module| self.table[$S] = $R
module| self.n = $I
module| $@V = self.mix($V, $F)
module| self.step = self.twice + $I
module| self.n, self.cache = $I, $R
module| self.lin.bias.data.add_($F)
module| for t in self.history[-3:]: $@R = t + $R
opaque 3| tick()
opaque| tick($I)
opaque 2| swap($R)
opaque 2| stir($v)
opaque| COUNT = tick() + COUNT
opaque| COUNT += tick()
opaque| TABLE['a'] += swap($R)
opaque| $@I, $@R = tick(), LAST
opaque| if MODE: tick()
opaque| LAST = LAST + swap($R)
box   | poke()
box   | BOX.count += poke()
box   | BOX.items.append(BOX.total * poke())
box   | BOX.total += poke()
shape | $@I, $@I = $v.shape
shape | $@I, *$@N = $v.shape
shape | $@N = [n for n in $v.shape]
shape | $@I, $@I = $v.size()[-2:]
shape | for n in $v.shape: $@I = n + $I
""")

# What fails for some inputs; written inside try, and now and then outside.
RISKY = table(r"""
core  | $@V = $v @ torch.ones($I, 4)
core  | $@V = $v + torch.ones($v.shape[0] % 3 + 1, 4)
core  | $@R = $v[$I]
core  | $@F = $F / $I
core  | $@I = $I // $I
core  | $@I = int('x' if $B else '7')
core  | $@R = $l[$I]
core  | $@R = $d['b']
core  | $v.view(-1)[$I] = 1.0
core  | $@W = $o.sum()
core  | raise ValueError('generated', $I)
core  | $@V = $v.add_(1) + torch.ones($I % 5 + 1, 4)
core  | $@W = BOX.step($r)[$I]
core  | LOG.append(1); $@R = $v[$I]
core  | print('risk'); $@V = $v.view(2, $I)
core  | $@I = {0: 1, 2: 3}[$I]
core  | $@V, $@V = $v.split($I)
core  | $@F = math.sqrt($F)
core  | $@R = next(iter($l))
core  | $@I = int($W)
core  | $@F = math.log($W)
""")
