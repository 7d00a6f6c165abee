"""Layers of torch with attention in training: part of a block like any other layer, and of a whole step."""

import pytest
import torch
import torch.nn.functional as F
from stepped import STEPPED, run_beside_eager
from torch import nn

import janusc as janus

CAUSAL = nn.Transformer.generate_square_subsequent_mask(5)
PADDED = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 1, 1]]).bool()

pytestmark = pytest.mark.usefixtures("uncompiled")


def encoder_layer(**options):
    return nn.TransformerEncoderLayer(8, 2, 16, **{"batch_first": True, "dropout": 0.0, **options})


def attention(**options):
    return nn.MultiheadAttention(8, 2, **{"batch_first": True, **options})


def attend_to_self(layer, x):
    return layer(x, x, x)[0]


CASES = {
    "layer": (encoder_layer, None),
    "sequence first": (lambda: encoder_layer(batch_first=False), None),
    "norm first": (lambda: encoder_layer(norm_first=True), None),
    "dropout": (lambda: encoder_layer(dropout=0.3), None),
    "gelu, without biases": (lambda: encoder_layer(activation="gelu", bias=False), None),
    "mask": (encoder_layer, lambda layer, x: layer(x, src_mask=CAUSAL)),
    "causal": (encoder_layer, lambda layer, x: layer(x, src_mask=CAUSAL, is_causal=True)),
    "padding": (encoder_layer, lambda layer, x: layer(x, src_key_padding_mask=PADDED)),
    "encoder": (lambda: nn.TransformerEncoder(encoder_layer(dropout=0.2), 2, norm=nn.LayerNorm(8)), None),
    "encoder, mask": (
        lambda: nn.TransformerEncoder(encoder_layer(), 2),
        lambda layer, x: layer(x, mask=CAUSAL),
    ),
    "encoder, padding": (
        lambda: nn.TransformerEncoder(encoder_layer(), 2),
        lambda layer, x: layer(x, src_key_padding_mask=PADDED),
    ),
    "attention": (lambda: attention(dropout=0.1), attend_to_self),
    "attention, sequence first": (lambda: attention(batch_first=False), attend_to_self),
    "attention without weights": (
        lambda: attention(dropout=0.1),
        lambda layer, x: layer(x, x, x, need_weights=False)[0],
    ),
    "attention, all weights": (
        attention,
        lambda layer, x: layer(x, x, x, average_attn_weights=False)[1].mean() + layer(x, x, x)[0],
    ),
    "others": (
        lambda: attention(kdim=4, vdim=6, add_bias_kv=True, add_zero_attn=True),
        lambda layer, x: layer(x, x[..., :4], x[..., :6])[0],
    ),
    "decoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.1, batch_first=True), 1),
        lambda layer, x: layer(x, x * 2, tgt_mask=CAUSAL),
    ),
    "transformer": (
        lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True),
        lambda layer, x: layer(x, x * 2),
    ),
}


class Training:
    def __init__(self, make, call=None):
        self.table, self.layer, self.head = nn.Embedding(11, 8), make(), nn.Linear(8, 11)
        self.net = nn.ModuleList([self.table, self.layer, self.head])
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.parts = [self.net, self.optimizer]
        self.call = call

    def step(self, x, y, **given):
        self.optimizer.zero_grad()
        inside = self.table(x)
        inside = self.layer(inside, **given) if self.call is None else self.call(self.layer, inside)
        loss = F.cross_entropy(self.head(inside).flatten(0, 1), y.flatten())
        loss.backward()
        self.optimizer.step()
        return loss.item()


def batches(count):
    torch.manual_seed(0)
    return [(torch.randint(0, 11, (2, 5)), torch.randint(0, 11, (2, 5))) for _ in range(count)]


@pytest.mark.parametrize("name", CASES)
def test_attention_trains_by_a_whole_step(name, finished):
    compiled = run_beside_eager(lambda: Training(*CASES[name]), batches(8))
    assert len(finished) >= 4
    assert "block 1: a kernel" in str(janus.explain(compiled)) and "block 2" not in str(janus.explain(compiled))


@pytest.mark.parametrize("name", CASES)
def test_attention_is_exact_by_operations(name):
    compiled = run_beside_eager(lambda: Training(*CASES[name]), batches(5), "aten")
    assert janus.stats(compiled).graph_calls == 3 and janus.stats(compiled).fallbacks == 0
    assert "module.call" not in str(janus.graphs(compiled))


def test_without_training_the_layer_is_called_as_it_is():
    """It takes torch's fast path then, which no other operations give."""

    class Evaluation(Training):
        def step(self, x, is_training):
            self.layer.train(is_training)
            with torch.no_grad():
                return self.head(self.layer(self.table(x)))

    calls = [(x, number % 4 > 1) for number, (x, _) in enumerate(batches(24))]
    compiled = run_beside_eager(lambda: Evaluation(encoder_layer), calls, "aten")
    assert janus.stats(compiled).graph_calls > 12
    assert "module.call TransformerEncoderLayer" in str(janus.graphs(compiled))


class Modes(Training):
    """What decides about the fast path is set from outside."""

    def step(self, x):
        with torch.no_grad():
            return self.head(self.layer(self.table(x)))


def test_the_mode_of_an_inner_layer_is_seen():
    parts = []

    def make():
        parts.append(Modes(lambda: nn.TransformerEncoder(encoder_layer(), 2)))
        return parts[-1]

    class Calls(list):
        def __iter__(self):
            for number, (x, _) in enumerate(batches(24)):
                for training in parts:
                    training.layer.layers[1].train(number % 8 < 4)
                    training.layer.layers[0].self_attn.train(number % 6 < 3)
                yield (x,)

    compiled = run_beside_eager(make, Calls(), "aten")
    assert janus.stats(compiled).graph_calls > 8


def test_a_mask_that_is_causal_no_longer():
    other = torch.zeros(5, 5)
    masks = [CAUSAL] * 6 + [other] * 6 + [CAUSAL, other] * 4

    class Masked(Training):
        def step(self, x, y, mask):
            return super().step(x, y, mask=mask)

    calls = [(x, y, mask) for (x, y), mask in zip(batches(len(masks)), masks)]
    for backend in ("aten", STEPPED):
        compiled = run_beside_eager(lambda: Masked(lambda: nn.TransformerEncoder(encoder_layer(), 1)), calls, backend)
        assert janus.stats(compiled).graph_calls > 8


@pytest.mark.parametrize("batch_first", [True, False])
def test_one_tensor_or_several(batch_first):
    """Attention asks whether what it gets is one tensor, and computes in another way."""

    class Attention(Training):
        def step(self, query, key, value):
            return self.layer(query, key, value)[0]

    one, two = torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    several, kv, same = (one, two, one * 2), (one, two, two), (one, one, one)
    calls = [several] * 5 + [same] * 5 + [kv] * 5 + [several, same, kv] * 3
    compiled = run_beside_eager(lambda: Attention(lambda: attention(batch_first=batch_first)), calls, "aten")
    assert janus.stats(compiled).graph_calls > 8


def test_a_hook_that_comes_later_is_called():
    training = Training(encoder_layer)
    compiled = janus.compile(training.step, backend=STEPPED, warmup=1)
    for x, y in batches(5):
        compiled(x, y)
    told = []
    training.layer.self_attn.register_forward_hook(lambda *_: told.append("attention"))
    training.layer.linear1.register_forward_pre_hook(lambda *_: told.append("linear"))
    for x, y in batches(3):
        compiled(x, y)
    assert janus.stats(compiled).graph_calls >= 4 and told == ["attention", "linear"] * 3


def test_a_flag_decides_whether_there_are_weights():
    class Flagged(Training):
        def step(self, x, has_weights):
            attended, weights = self.layer(x, x, x, need_weights=has_weights)
            return attended if weights is None else attended * weights.mean()

    x = torch.randn(2, 5, 8)
    flags = [False] * 5 + [True] * 5 + [False, True] * 4
    compiled = run_beside_eager(lambda: Flagged(attention), [(x, flag) for flag in flags], "aten")
    assert janus.stats(compiled).graph_calls > 8


@pytest.mark.parametrize("mode", [True, False])
def test_an_activation_of_the_programs_own_is_called_once(mode):
    class Own(Training):
        def __init__(self):
            self.called = []
            super().__init__(lambda: encoder_layer(activation=self.activate).train(mode))

        def activate(self, x):
            self.called.append(1)
            return F.relu(x)

        def step(self, x, limit):
            inside = self.layer(self.table(x)).sum()
            return inside if inside > limit else -inside

    training = Own()
    compiled = janus.compile(training.step, backend="aten", warmup=1)
    calls = [-1e9] * 5 + [1e9] * 3
    for (x, _), limit in zip(batches(8), calls):
        compiled(x, limit)
    assert len(training.called) == len(calls)


@pytest.mark.parametrize("is_training", [True, False])
def test_the_fast_path_may_be_forbidden(is_training):
    calls = [(x,) for x, _ in batches(5)]
    try:
        for allowed in (True, False):
            torch.backends.mha.set_fastpath_enabled(allowed)
            run_beside_eager(lambda: Modes(lambda: encoder_layer().train(is_training)), calls, "aten")
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
