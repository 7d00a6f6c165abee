"""Networks over the expressions in Python's standard library: every call has another tree, or other trees."""

from __future__ import annotations

import ast
import functools

import torch
import torch.nn.functional as F
from torch import nn

from janusc.demo.data import source_of

from . import Case, Decorator, program

KINDS = (
    "Attribute BinOp BoolOp Call Compare Constant Dict GeneratorExp IfExp JoinedStr Lambda List ListComp Name Set "
    "Slice Starred Subscript Tuple UnaryOp"
).split()
OTHER = len(KINDS)
DEEPEST, WIDTH = 12, 32


class Expression:
    """A node of an expression tree: the number of its kind, and its operands."""

    def __init__(self, kind, operands):
        self.kind, self.operands = kind, operands

    def depth(self):
        return 1 + max((operand.depth() for operand in self.operands), default=0)

    def size(self):
        return 1 + sum(operand.size() for operand in self.operands)


class Pair:
    """A node of the same tree in binary form: the first operand, and a node for the others."""

    def __init__(self, kind, left=None, right=None):
        self.kind, self.left, self.right = kind, left, right


def number_of(node):
    name = type(node).__name__
    return KINDS.index(name) if name in KINDS else OTHER


def expression_of(node: ast.AST) -> Expression:
    inner = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
    return Expression(number_of(node), [expression_of(n) for n in inner])


def pair_of(tree: Expression) -> Pair:
    if not tree.operands:
        return Pair(tree.kind)
    *others, last = map(pair_of, tree.operands)
    for other in reversed(others):
        last = Pair(tree.kind, other, last)
    return last if others else Pair(tree.kind, last, Pair(OTHER))


@functools.cache
def sources(module: str = "statistics") -> list[ast.expr]:
    """The expressions that statements of a module consist of, but for the smallest and largest."""
    statements = [s for s in ast.walk(ast.parse(source_of(module))) if isinstance(s, ast.stmt)]
    found = [n for s in statements for n in ast.iter_child_nodes(s) if isinstance(n, ast.expr)]
    return [n for n in found if 8 <= expression_of(n).size() <= 60]


@functools.cache
def expressions() -> list[Expression]:
    return list(map(expression_of, sources()))


@functools.cache
def binary() -> list[tuple[Pair, torch.Tensor]]:
    """Binary trees with the class of their depth."""
    return [(pair_of(e), torch.tensor(min(e.depth(), DEEPEST - 1))) for e in expressions()]


def pick(items, number):
    return items[number * 7 % len(items)]


class TreeRNN(nn.Module):
    def __init__(self, width=WIDTH, classes=DEEPEST):
        super().__init__()
        self.embedding = nn.Embedding(OTHER + 1, width)
        self.combine = nn.Linear(2 * width, width)
        self.out = nn.Linear(width, classes)

    def encode(self, node):
        if node.left is None:
            return self.embedding.weight[node.kind]
        children = torch.cat([self.encode(node.left), self.encode(node.right)])
        return torch.tanh(self.combine(children) + self.embedding.weight[node.kind])

    def forward(self, tree):
        return self.out(self.encode(tree))


class TreeLSTM(nn.Module):
    """A binary TreeLSTM with a forget gate for each side."""

    def __init__(self, width=WIDTH, classes=DEEPEST):
        super().__init__()
        self.embedding = nn.Embedding(OTHER + 1, width)
        self.leaf = nn.Linear(width, 2 * width)
        self.gates = nn.Linear(2 * width, 5 * width)
        self.out = nn.Linear(width, classes)

    def encode(self, node):
        if node.left is None and node.right is None:
            output, value = self.leaf(self.embedding.weight[node.kind]).chunk(2)
            cell = torch.tanh(value)
            return torch.sigmoid(output) * torch.tanh(cell), cell
        h_left, c_left = self.encode(node.left)
        h_right, c_right = self.encode(node.right)
        gates = self.gates(torch.cat([h_left, h_right]))
        i, f_left, f_right, o, u = gates.chunk(5)
        cell = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(f_left) * c_left + torch.sigmoid(f_right) * c_right
        return torch.sigmoid(o) * torch.tanh(cell), cell

    def forward(self, tree):
        hidden, _ = self.encode(tree)
        return self.out(hidden)


def classified(model: nn.Module, decorate: Decorator, model_only: bool = False) -> Case:
    """Training, one tree a step; what is compiled is the whole step, or the model in it."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    forward = decorate(model) if model_only else model

    def step(tree, depth):
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(tree), depth)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = step if model_only else decorate(step)
    target = forward if model_only else step
    return Case(lambda number: step(*pick(binary(), number)), [target], list(model.parameters()))


@program(fast=True)
def tree_rnn(decorate: Decorator) -> Case:
    return classified(TreeRNN(), decorate)


@program()
def tree_rnn_model_only(decorate: Decorator) -> Case:
    return classified(TreeRNN(), decorate, model_only=True)


@program(fast=True)
def tree_lstm(decorate: Decorator) -> Case:
    return classified(TreeLSTM(), decorate)


@program(fast=True)
def tree_rnn_evaluation(decorate: Decorator) -> Case:
    model = TreeRNN().eval()

    @decorate
    def predict(tree):
        with torch.no_grad():
            return int(model(tree).argmax())

    return Case(lambda number: predict(pick(binary(), number)[0]), [predict])


class Upwards(nn.Module):
    """A TreeRNN without recursion: a stack puts the nodes in order, and a dictionary holds what they came to."""

    def __init__(self, width=WIDTH, classes=DEEPEST):
        super().__init__()
        self.embedding = nn.Embedding(OTHER + 1, width)
        self.combine = nn.Linear(2 * width, width)
        self.out = nn.Linear(width, classes)

    def forward(self, tree):
        order, stack = [], [tree]
        while stack:
            node = stack.pop()
            order.append(node)
            stack.extend(node.operands)
        states = {}
        for node in reversed(order):
            state = self.embedding.weight[node.kind]
            for operand in node.operands:
                state = torch.tanh(self.combine(torch.cat([state, states[operand]])))
            states[node] = state
        return self.out(states[tree])


@program(fast=True)
def worklist(decorate: Decorator) -> Case:
    model = Upwards()
    predict = decorate(model)

    def call(number):
        with torch.no_grad():
            return predict(pick(expressions(), number))

    return Case(call, [predict])


class ChildSum(nn.Module):
    """A child-sum TreeLSTM, for any number of operands, that predicts the kind of the root from its operands."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(OTHER + 1, width)
        self.iou = nn.Linear(2 * width, 3 * width)
        self.forget_input, self.forget_state = nn.Linear(width, width), nn.Linear(width, width)
        self.out = nn.Linear(width, OTHER + 1)

    def node(self, x, states):
        total = torch.zeros(self.width)
        for hidden, _ in states:
            total = total + hidden
        i, o, u = self.iou(torch.cat([x, total])).chunk(3)
        cell = torch.sigmoid(i) * torch.tanh(u)
        for hidden, inner in states:
            cell = cell + torch.sigmoid(self.forget_input(x) + self.forget_state(hidden)) * inner
        return torch.sigmoid(o) * torch.tanh(cell), cell

    def encode(self, tree):
        states = [self.encode(operand) for operand in tree.operands]
        return self.node(self.embedding(torch.tensor(tree.kind)), states)

    def forward(self, tree):
        states = [self.encode(operand) for operand in tree.operands]
        hidden, _ = self.node(torch.zeros(self.width), states)
        return self.out(hidden)


@program(fast=True)
def child_sum_lstm(decorate: Decorator) -> Case:
    model = ChildSum()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @decorate
    def step(tree):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tree).unsqueeze(0), torch.tensor([tree.kind]))
        loss.backward()
        optimizer.step()
        return loss.item()

    return Case(lambda number: step(pick(expressions(), number)), [step], list(model.parameters()))


@program()
def batch_of_trees(decorate: Decorator) -> Case:
    """A list of trees, of another length in each call."""
    model = TreeRNN()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    @decorate
    def step(trees, depths):
        logits = torch.stack([model(tree) for tree in trees])
        correct = (logits.argmax(1) == torch.stack(depths)).sum().item()
        loss = F.cross_entropy(logits, torch.stack(depths))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), correct

    def call(number):
        batch = [pick(binary(), 11 * number + i) for i in range(1 + number * 3 % 5)]
        return step([tree for tree, _ in batch], [depth for _, depth in batch])

    return Case(call, [step], list(model.parameters()))


class Tagger(nn.Module):
    """A loss at each inner node: its kind, from what stands below it. The recursion carries what it collects."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.embedding = nn.Embedding(OTHER + 1, width)
        self.combine, self.out = nn.Linear(2 * width, width), nn.Linear(width, OTHER + 1)

    def visit(self, node, losses, counts):
        counts[node.kind] = counts.get(node.kind, 0) + 1
        if node.left is None:
            return self.embedding.weight[node.kind]
        left, right = self.visit(node.left, losses, counts), self.visit(node.right, losses, counts)
        hidden = torch.relu(self.combine(torch.cat((left, right))))
        losses.append(-F.log_softmax(self.out(hidden), dim=0)[node.kind])
        return hidden

    def forward(self, tree):
        losses, counts = [], {}
        self.visit(tree, losses, counts)
        return sum(losses) / len(losses), counts


@program()
def collecting(decorate: Decorator) -> Case:
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @decorate
    def step(tree):
        loss, counts = model(tree)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), counts

    def call(number):
        loss, counts = step(pick(binary(), number)[0])
        return loss, sorted(counts.items())

    return Case(call, [step], list(model.parameters()))


class Evaluator(nn.Module):
    """Follows the syntax tree itself: a rule for each kind of node, names by an environment."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.names, self.attributes, self.other = (
            nn.Embedding(16, width),
            nn.Embedding(16, width),
            nn.Embedding(8, width),
        )
        self.apply_, self.binary = nn.Linear(2 * width, width), nn.Bilinear(width, width, width)
        self.out = nn.Linear(width, 2)

    def value(self, node):
        if isinstance(node, ast.Name):
            return self.names.weight[len(node.id) % 16]
        if isinstance(node, ast.Attribute):
            return torch.tanh(self.value(node.value) + self.attributes.weight[len(node.attr) % 16])
        if isinstance(node, ast.BinOp):
            return torch.tanh(self.binary(self.value(node.left), self.value(node.right)))
        if isinstance(node, ast.Call):
            result = self.value(node.func)
            for argument in node.args:
                result = torch.tanh(self.apply_(torch.cat([result, self.value(argument)])))
            return result
        if isinstance(node, ast.Constant):
            return self.other.weight[1] if isinstance(node.value, str) else self.other.weight[2]
        return self.other.weight[0]

    def forward(self, node):
        return self.out(self.value(node)).log_softmax(0)


@program(fast=True)
def syntax_tree(decorate: Decorator) -> Case:
    """Whether an expression comes from a return, in the end, from the tree that the parser made."""
    model, large = Evaluator(), [node for node in sources() if expression_of(node).size() > 12]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @decorate
    def step(node, label):
        optimizer.zero_grad()
        loss = F.nll_loss(model(node), label)
        loss.backward()
        optimizer.step()
        return loss.item()

    def call(number):
        node = pick(large, number)
        return step(node, torch.tensor(int(isinstance(node, ast.Call))))

    return Case(call, [step], list(model.parameters()))


def nested(tree: Expression):
    return tuple(map(nested, tree.operands)) if tree.operands else tree.kind


@program()
def nested_tuples(decorate: Decorator) -> Case:
    """Trees as tuples of tuples, and two functions that call each other."""
    embedding, inner = nn.Embedding(OTHER + 1, WIDTH), nn.GRUCell(WIDTH, WIDTH)

    def encode(tree):
        return fold(tree) if isinstance(tree, tuple) else embedding.weight[tree].unsqueeze(0)

    def fold(trees):
        state = torch.zeros(1, WIDTH)
        for tree in trees:
            state = inner(encode(tree), state)
        return state

    @decorate
    def energy(tree):
        state = encode(tree)
        return (state * state).sum()

    def call(number):
        result = energy(nested(pick(expressions(), number)))
        result.backward()
        return result.detach(), inner.weight_hh.grad.clone()

    return Case(call, [energy])
