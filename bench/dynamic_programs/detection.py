"""Detection: what is left of many overlapping boxes depends on the boxes."""

from __future__ import annotations

import torch

from . import Case, Decorator, program
from .digits import load


def overlap(box, boxes):
    """Intersection over union of one box and many."""
    low = torch.maximum(box[:2], boxes[:, :2])
    high = torch.minimum(box[2:], boxes[:, 2:])
    sides = (high - low).clamp(min=0)
    shared = sides[:, 0] * sides[:, 1]
    size = (box[2] - box[0]) * (box[3] - box[1])
    sizes = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return shared / (size + sizes - shared)


def suppress(boxes, scores, threshold):
    """Greedy non-maximum suppression: the best box stays, what overlaps with it goes, until none is left."""
    keep = []
    order = scores.argsort(descending=True)
    while order.numel() > 0:
        best = order[0]
        keep.append(best.item())
        rest = order[1:]
        if len(rest) == 0:
            break
        order = rest[overlap(boxes[best], boxes[rest]) <= threshold]
    return keep


@program()
def greedy_suppression(decorate: Decorator) -> Case:
    """Windows over a page of digits, scored by how much ink is in them."""
    pixels = load().pixels.view(-1, 8, 8)
    f = decorate(suppress)

    def call(number: int):
        page = pixels[number * 4 : number * 4 + 4].permute(1, 0, 2).reshape(8, 32)
        windows = page.unfold(0, 5, 1).unfold(1, 5, 1 + number % 2)
        scores = windows.mean((-1, -2))
        rows, columns = torch.where(scores > 0.3)
        corners = torch.stack([rows, columns * (1 + number % 2)], -1).float()
        boxes = torch.cat([corners, corners + 5], -1)
        return f(boxes, scores[rows, columns], 0.1 + 0.1 * (number % 4))

    return Case(call, [f])
