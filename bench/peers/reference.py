"""reference.py - what attention is, in fp64, and how far from it a right output may be; with torch, on its device.

The bound is the one attune's own verification uses (docs/numerics.md): a row passes when the norm of its error is at
most twice that of a plain computation in fp32, whose weights are rounded to the tensors' type, plus a rounding of that
type. It holds for attune and the others alike.
"""
import math

import torch

ELEMENTS = 2**28  # scores of this many elements at once: 2 GiB in fp64
ROUNDING = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


class Answer:
    """of q, k, v as (batch, heads, seq, dim) tensors; every row of every head is computed"""

    def __init__(self, q, k, v, causal):
        batch, heads, seqlen, dim = q.shape
        self.right = torch.empty(batch * heads, seqlen, dim, dtype=torch.float64, device=q.device)
        self.allowed = torch.empty(batch * heads, seqlen, dtype=torch.float64, device=q.device)
        q, k, v = (x.reshape(batch * heads, seqlen, dim) for x in (q, k, v))
        hidden = torch.ones(seqlen, seqlen, dtype=torch.bool, device=q.device).triu(1) if causal else None
        step = max(1, ELEMENTS // seqlen**2)
        for at in range(0, batch * heads, step):
            part = slice(at, at + step)
            self.right[part], self.allowed[part] = rows(q[part], k[part], v[part], hidden)

    def worst(self, output):
        """the largest error of a row of output, in units of the allowed one; infinite where a value is NaN or infinite"""
        output = output.reshape(self.right.shape).double()
        error = (output - self.right).norm(dim=-1) / self.allowed
        return torch.where(error.isfinite(), error, math.inf).max().item()


def rows(q, k, v, hidden):
    """fp64 rows and the norm of the error that each may have"""
    scores = q.double() @ k.double().transpose(1, 2)
    scores *= q.shape[-1]**-0.5
    if hidden is not None:
        scores.masked_fill_(hidden, -math.inf)
    largest = torch.where(scores.isfinite(), scores.abs(), 0.0).amax(dim=-1)
    weights = scores.softmax(dim=-1)
    del scores
    wide = v.double()
    right = weights @ wide
    spread = (weights.square_() @ wide.square()).sum(dim=-1).sqrt()
    del weights
    plain_error = (plain(q, k, v, hidden).double() - right).norm(dim=-1)
    rounding = ROUNDING[v.dtype] + 2.0**-22 * (1.0 + largest)
    return right, 2.0 * plain_error + rounding * (right.norm(dim=-1) + spread)


def plain(q, k, v, hidden):
    """fp32 scores and softmax, weights rounded to v's type, an fp32 product, rounded"""
    scores = q.float() @ k.float().transpose(1, 2)
    scores *= q.shape[-1]**-0.5
    if hidden is not None:
        scores.masked_fill_(hidden, -math.inf)
    return (scores.softmax(dim=-1).to(v.dtype).float() @ v.float()).to(v.dtype)
