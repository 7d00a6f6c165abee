"""Modules: layers from the library and the user's own, train and eval, hooks, weights that change outside."""

import copy

import torch
from torch import nn
from torch.nn import functional

from . import program


def batches(*shape, count=4):
    return [(torch.randn(shape),) for _ in range(count)]


@program()
def linear():
    return nn.Linear(3, 2), batches(2, 3) + batches(5, 3, count=2) + [(torch.randn(3),)]


@program()
def sequential():
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 2), nn.Softmax(-1))
    return model, batches(3, 4) + batches(1, 4) + [(torch.randn(3, 4, requires_grad=True),)]


@program()
def module_list():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

        def forward(self, x):
            for i, layer in enumerate(self.layers):
                x = torch.tanh(layer(x)) + i
            return x

    model = Stack()

    def grow(f):
        model.layers.append(nn.Linear(3, 3))
        return f(torch.ones(1, 3))

    return model, batches(2, 3) + [grow, (torch.ones(2, 3),)]


@program()
def module_dict():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 3)})

        def forward(self, x, key):
            return self.heads[key](x), {name: head(x).sum() for name, head in self.heads.items()}

    return Heads(), [(torch.ones(1, 2), key) for key in "aaababa"]


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 3, 5, padding=2)
        self.conv2 = nn.Conv2d(3, 4, 5)
        self.fc1 = nn.Linear(4 * 5 * 5, 12)
        self.fc2 = nn.Linear(12, 10)

    def forward(self, x):
        x = functional.max_pool2d(torch.sigmoid(self.conv1(x)), 2)
        x = functional.avg_pool2d(functional.relu(self.conv2(x)), 2)
        x = x.flatten(1)
        return functional.log_softmax(self.fc2(functional.relu(self.fc1(x))), dim=1)


@program(max_graphs=2)
def lenet():
    return LeNet(), batches(2, 1, 28, 28, count=3) + batches(1, 1, 28, 28, count=2) + batches(2, 1, 28, 28, count=1)


@program(graph=True)
def batch_norm():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.ReLU())

    def flip(training):
        def step(f):
            model.train(training)
            return f(torch.randn(4, 3))

        return step

    return model, batches(4, 3) + [flip(False), flip(False), flip(True), flip(False)]


@program()
def batch_norm_without_momentum():
    norm = nn.BatchNorm1d(2, momentum=None)

    def f(x):
        return norm(x) * 2

    return f, [(torch.tensor([[1.0, 2.0], [3.0, 6.0]]) * i,) for i in range(1, 6)]


@program()
def dropout():
    model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5))

    def evaluate(f):
        model.eval()
        return f(torch.ones(2, 3))

    def again(f):
        model.train()
        torch.manual_seed(7)
        return f(torch.ones(2, 3)), torch.rand(2)

    return model, batches(2, 3) + [evaluate, again, again]


@program()
def independent_dropouts():
    def f(x):
        left = functional.dropout(x, 0.5, True)
        right = functional.dropout(x * 2, 0.3, True)
        unused = torch.rand(3)
        return right + left

    return f, batches(6, count=5)


@program()
def embedding_and_layer_norm():
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(7, 4, padding_idx=0)
            self.norm = nn.LayerNorm(4)
            self.register_buffer("positions", torch.arange(8), persistent=False)

        def forward(self, tokens):
            n = tokens.shape[1]
            return self.norm(self.table(tokens) + self.positions[:n, None])

    return Encoder(), [(torch.randint(0, 7, (2, n)),) for n in (3, 3, 3, 5, 8, 3)]


@program()
def residual_block():
    class Block(nn.Module):
        def __init__(self, cin, cout):
            super().__init__()
            self.conv = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(cout)
            self.short = nn.Conv2d(cin, cout, 1) if cin != cout else None

        def forward(self, x):
            y = functional.relu(self.norm(self.conv(x)))
            if self.short is not None:
                x = self.short(x)
            return x + y

    return nn.Sequential(Block(2, 2), Block(2, 3)), batches(2, 2, 4, 4, count=4) + batches(1, 2, 3, 3, count=1)


@program()
def transformer_block():
    class Block(nn.Module):
        def __init__(self, size=8):
            super().__init__()
            self.attend = nn.MultiheadAttention(size, 2, batch_first=True)
            self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
            self.feed = nn.Sequential(nn.Linear(size, 16), nn.GELU(), nn.Linear(16, size))

        def forward(self, x, mask=None):
            y = self.norm1(x)
            x = x + self.attend(y, y, y, attn_mask=mask, need_weights=False)[0]
            return x + self.feed(self.norm2(x))

    mask = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
    return Block(), batches(2, 4, 8) + [(torch.randn(2, 4, 8), mask)] * 2 + batches(1, 6, 8, count=1)


@program()
def lstm_layer():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 4, batch_first=True)
            self.out = nn.Linear(4, 2)

        def forward(self, x, state=None):
            y, (h, c) = self.lstm(x, state)
            return self.out(y), h, c

    state = (torch.zeros(1, 2, 4), torch.ones(1, 2, 4))
    return Tagger(), [*batches(2, 3, 3), (torch.randn(2, 3, 3), state), *batches(2, 5, 3, count=2)]


@program(max_graphs=2)
def lstm_cell_loop():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTMCell(3, 4)
            self.out = nn.Linear(4, 2)

        def forward(self, xs):
            h = c = torch.zeros(xs.shape[1], 4)
            outputs = []
            for x in xs:
                h, c = self.cell(x, (h, c))
                outputs.append(self.out(h))
            return torch.stack(outputs)

    return Net(), [(torch.randn(n, 2, 3),) for n in (3, 3, 3, 5, 2, 7, 3, 1)]


@program(decorates=True)
def super_in_a_decorated_method(compiled):
    class Base(nn.Module):
        def forward(self, x):
            return x + 1

    class Child(Base):
        @compiled
        def forward(self, x):
            return super().forward(x) * 2

    class GrandChild(Child):
        def forward(self, x):
            return super().forward(x) + __class__.__name__.count("G")

    child, grand = Child(), GrandChild()

    def call(x):
        return child(x), grand(x)

    return call, batches(2, count=5)


@program(decorates=True)
def compiled_class(compiled):
    @compiled
    class Net(nn.Module):
        """Doc."""

        def __init__(self, width):
            super().__init__()
            self.inner = nn.Linear(2, width)

        def forward(self, x):
            return self.inner(x).relu()

    class Wider(Net):
        def forward(self, x):
            return super().forward(x) - 1

    models = [Net(2), Net(3), Wider(2)]

    def call(x):
        return [m(x) for m in models], [isinstance(m, Net) for m in models], list(models[0].state_dict()), Net.__doc__

    return call, batches(1, 2, count=5), models


@program()
def inheritance_and_properties():
    class Base(nn.Module):
        gain = 2.0

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))
            self._extra = 1

        @property
        def scaled(self):
            return self.weight * self.gain

        @staticmethod
        def shift(x):
            return x + 1

        @classmethod
        def named(cls):
            return len(cls.__name__)

        def hook(self, x):
            return x

        def forward(self, x):
            return self.shift(self.hook(x)) * self.scaled + self.named() + self._extra

    class Child(Base):
        def hook(self, x):
            return x * 3

        @property
        def scaled(self):
            return super().scaled + 1

    one, two = Base(), Child()

    def f(model, x):
        return model(x)

    def change(f):
        one._extra = 5
        Base.gain = 3.0
        return f(one, torch.ones(2)), f(two, torch.ones(2))

    x = torch.ones(2)
    return f, [(one, x), (one, x), (one, x), (two, x), (one, x), (two, x), change, (two, x)]


@program()
def overridden_by_instance_and_class():
    class Scaler:
        def go(self, x):
            return x + 100

    class Other(Scaler):
        def go(self, x):
            return x * 99

    def f(o, x):
        return o.go(x)

    a, b = Scaler(), Other()

    def on_instance(f):
        a.go = lambda x: x - 1
        return f(a, torch.ones(1))

    def on_class(f):
        Scaler.go = lambda self, x: x - 2
        return f(Scaler(), torch.ones(1)), f(a, torch.ones(1))

    x = torch.ones(1)
    return f, [(a, x), (a, x), (a, x), (b, x), (a, x), on_instance, on_class, (b, x)]


@program()
def late_forward_hook():
    model = nn.Linear(2, 2)
    seen = []

    def f(x):
        return model(x) + 1

    def register(f):
        model.register_forward_hook(lambda module, args, output: seen.append(output.shape) or output * 2)
        return f(torch.ones(1, 2))

    def register_pre(f):
        model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        return f(torch.ones(1, 2))

    return f, batches(1, 2) + [register, (torch.ones(1, 2),), register_pre], seen


@program()
def backward_hook_and_tensor_hook():
    model = nn.Linear(2, 2)
    seen = []
    model.weight.register_hook(lambda g: seen.append("weight"))

    def f(x):
        y = model(x)
        return (y * y).sum()

    def backward(f):
        loss = f(torch.ones(1, 2))
        loss.backward()
        return loss.detach()

    def register(f):
        model.register_full_backward_hook(lambda m, gi, go: seen.append(go[0].shape))
        return backward(f)

    return f, [backward, backward, backward, register, backward], seen


@program()
def weights_loaded_and_replaced():
    model = nn.Linear(2, 1)
    first = copy.deepcopy(model.state_dict())

    def f(x):
        return model(x) + 1

    def load(f):
        model.load_state_dict({k: v * 0 + 3 for k, v in first.items()})
        with torch.no_grad():
            return f(torch.ones(1, 2))

    def replace(f):
        model.weight = nn.Parameter(torch.full((1, 2), 5.0))
        return f(torch.ones(1, 2))

    def freeze(f):
        model.weight.requires_grad_(False)
        return f(torch.ones(1, 2))

    def double(f):
        model.double()
        return f(torch.ones(1, 2, dtype=torch.float64))

    return f, batches(1, 2) + [load, replace, freeze, double], first


@program()
def tied_weights():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5, 3)
            self.out = nn.Linear(3, 5, bias=False)
            self.out.weight = self.table.weight

        def forward(self, tokens):
            return self.out(self.table(tokens).mean(0))

    model = Model()

    def untie(f):
        model.out.weight = nn.Parameter(torch.ones(5, 3))
        return f(torch.tensor([1, 2]))

    return model, [(torch.tensor([1, 2]),)] * 4 + [untie, (torch.tensor([1, 2]),)]


@program()
def submodule_replaced():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def replace(f):
        model[1] = nn.Tanh()
        return f(torch.ones(1, 2))

    def insert(f):
        model.append(nn.Linear(2, 1))
        return f(torch.ones(1, 2))

    return model, batches(1, 2) + [replace, insert, (torch.ones(1, 2),)]


@program()
def created_on_first_use():
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = None

        def forward(self, x):
            if self.layer is None:
                self.layer = nn.Linear(x.shape[-1], 1)
            return self.layer(x)

    return Lazy(), batches(1, 3) + batches(2, 3, count=2)


@program(max_graphs=2)
def fresh_modules():
    def f(model, x):
        return model(x) * 2

    return f, [(nn.Linear(2, 2), torch.ones(1, 2)) for _ in range(6)]


@program(max_graphs=2, decorates=True)
def instances_that_differ_in_an_int(compiled):
    class Model(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k

        @compiled
        def forward(self, x):
            return x + self.k

    models = [Model(k) for k in range(6)]

    def call(x, k):
        return models[k](x)

    return call, [(torch.ones(2), k) for k in (0, 0, 0, 1, 2, 3, 4, 5, 0)]
