"""cells.py - what is compared: forward attention of one size in every cell, with the same tokens and hidden size in each."""

NAMES = {"bf16": "bfloat16", "f16": "float16"}


class Cell:
    """batch x heads x seqlen x head_dim; batch = tokens / seqlen, heads = hidden / head_dim"""

    def __init__(self, dtype, head_dim, causal, seqlen, tokens, hidden):
        if tokens % seqlen or hidden % head_dim:
            raise ValueError("%d tokens are not whole sequences of %d, or a hidden size of %d not whole heads of %d" %
                             (tokens, seqlen, hidden, head_dim))
        self.dtype, self.head_dim, self.causal, self.seqlen = dtype, head_dim, causal, seqlen
        self.batch, self.heads = tokens // seqlen, hidden // head_dim

    @property
    def name(self):
        return "%s-%d-%s-%d" % (self.dtype, self.head_dim, "causal" if self.causal else "full", self.seqlen)

    @property
    def problem(self):
        return ("attention.forward dtype=%s batch=%d heads=%d seqlen_q=%d head_dim=%d causal=%d" %
                (self.dtype, self.batch, self.heads, self.seqlen, self.head_dim, self.causal))

    @property
    def operations(self):
        """of the two products; causal counts half, as is the custom, not the diagonal's few more"""
        whole = 4 * self.batch * self.heads * self.seqlen**2 * self.head_dim
        return whole // 2 if self.causal else whole

    def tensor_bytes(self):
        """of q, k, v and o together; both types have two bytes"""
        return 4 * 2 * self.batch * self.heads * self.seqlen * self.head_dim

    def describe(self):
        return {"name": self.name, "dtype": self.dtype, "head_dim": self.head_dim, "causal": self.causal,
                "seqlen": self.seqlen, "batch": self.batch, "heads": self.heads, "problem": self.problem,
                "operations": self.operations}


def grid(dtypes, head_dims, causals, seqlens, tokens, hidden):
    return [Cell(dtype, head_dim, causal, seqlen, tokens, hidden)
            for dtype in dtypes for head_dim in head_dims for causal in causals for seqlen in seqlens]


def problem_list(cells):
    """the lines of a file for `attune tune --problems`"""
    return ["%s: %s" % (cell.name, cell.problem) for cell in cells]
