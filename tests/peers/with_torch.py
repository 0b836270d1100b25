"""with_torch.py SOURCE LIBRARY STORE - what only torch itself can show: the arithmetic of bench/peers/reference.py, and a whole
run on the CPU. The store is that of peers_test.py."""
import contextlib
import io
import math
import os
import sys

SOURCE, LIBRARY, STORE = sys.argv[1:]
sys.path[:0] = [os.path.join(SOURCE, "bench", "peers")]
import torch

import peers
import reference


def plain_rows(q, k, v, causal):
    """attention in Python's own arithmetic, key by key"""
    batch, heads, seqlen, dim = q.shape
    q, k, v = (x.double().tolist() for x in (q, k, v))
    found = torch.empty(batch, heads, seqlen, dim, dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for i in range(seqlen):
                keys = range(i + 1 if causal else seqlen)
                scores = [sum(x * y for x, y in zip(q[b][h][i], k[b][h][j])) / math.sqrt(dim) for j in keys]
                weights = [math.exp(score - max(scores)) for score in scores]
                found[b, h, i] = torch.tensor([sum(w * v[b][h][j][d] for w, j in zip(weights, keys)) / sum(weights)
                                               for d in range(dim)], dtype=torch.float64)
    return found


def the_reference_is_attention():
    elements, reference.ELEMENTS = reference.ELEMENTS, 2 * 13 * 13  # parts of two heads, the last of one
    for dtype in (torch.float16, torch.bfloat16):
        for causal in (0, 1):
            # as views of (batch, seq, head, dim) memory
            q, k, v = (torch.randn(1, 13, 3, 8).to(dtype).transpose(1, 2) for _ in range(3))
            answer, right = reference.Answer(q, k, v, causal), plain_rows(q, k, v, causal)
            assert (answer.right.reshape(right.shape) - right).abs().max() < 1e-12
            assert answer.worst(right.to(dtype)) < 0.6, "the right answer, rounded"
            for name, wrong in mistakes(q, k, v, causal, right):
                assert answer.worst(wrong.to(dtype)) > 1.0, (name, dtype, causal, answer.worst(wrong.to(dtype)))
    reference.ELEMENTS = elements


def mistakes(q, k, v, causal, right):
    spoilt = right.clone()
    spoilt[0, 2, 12, 3] = math.nan
    yield "a NaN", spoilt
    yield "another scale", plain_rows(q * 1.25, k, v, causal)
    yield "two per cent too much", right * 1.02
    yield "the mask", plain_rows(q, k, v, not causal)
    lacking = v.clone()
    lacking[:, :, 0] = 0
    yield "a key left out of the product", plain_rows(q, k, lacking, causal)
    yield "heads exchanged", right.flip(1)


def a_run_on_the_cpu_judges_and_times_nothing():
    for layout in ("bshd", "bhsd"):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = peers.main(["--device", "host", "--library", LIBRARY, "--store", STORE, "--layout", layout, "--tokens", "16",
                               "--hidden", "16", "--head-dim", "8", "--seqlen", "8", "--dtype", "f16",
                               "--contenders", "attune,flash"])
        rows = [line for line in output.getvalue().splitlines() if line.startswith("| f16 ")]
        assert code == 0 and len(rows) == 2, output.getvalue()
        assert all(row.count("right, not timed") == 2 and " - " in row for row in rows), rows


if __name__ == "__main__":
    torch.manual_seed(1)
    for test in (the_reference_is_attention, a_run_on_the_cpu_judges_and_times_nothing):
        test()
        print("passed: " + test.__name__.replace("_", " "))
