"""work.py - real work from Python: a problem, a plan, launches by struct and by name, against a reference of its own."""
import ctypes
import math
import random
import struct


def f16(value):
    return struct.unpack("<e", struct.pack("<e", value))[0]


def fill(count, seed):
    generator = random.Random(seed)
    return [f16(generator.gauss(0, 1)) for _ in range(count)]


class Tensor:
    """contiguous f16 or f32 in memory of 64-byte alignment"""

    def __init__(self, count, code, values=None):
        self.count, self.code = count, code
        self.bytes = count * struct.calcsize(code)
        self.memory = ctypes.create_string_buffer(self.bytes + 128)
        self.address = (ctypes.addressof(self.memory) + 63) // 64 * 64
        packed = struct.pack("<%d%s" % (count, code), *(values or [float("nan")] * count))
        ctypes.memmove(self.address, packed, self.bytes)

    def read(self):
        return struct.unpack("<%d%s" % (self.count, self.code), ctypes.string_at(self.address, self.bytes))


class Sizes:
    def __init__(self, batch, heads, kv_heads, seqlen_q, seqlen_k, dim):
        self.batch, self.heads, self.kv_heads = batch, heads, kv_heads
        self.seqlen_q, self.seqlen_k, self.dim = seqlen_q, seqlen_k, dim


def reference(s, q, k, v, causal):
    """o and lse in double precision, as the header defines them"""
    o, lse = [0.0] * (s.batch * s.seqlen_q * s.heads * s.dim), [0.0] * (s.batch * s.heads * s.seqlen_q)
    for b in range(s.batch):
        for h in range(s.heads):
            kv = h // (s.heads // s.kv_heads)
            for i in range(s.seqlen_q):
                row = ((b * s.seqlen_q + i) * s.heads + h) * s.dim
                last = i + s.seqlen_k - s.seqlen_q if causal else s.seqlen_k - 1
                keys = [((b * s.seqlen_k + j) * s.kv_heads + kv) * s.dim for j in range(s.seqlen_k) if j <= last]
                scores = [sum(q[row + d] * k[key + d] for d in range(s.dim)) / math.sqrt(s.dim) for key in keys]
                at = (b * s.heads + h) * s.seqlen_q + i
                if not scores:
                    lse[at] = -math.inf
                    continue
                largest = max(scores)
                weights = [math.exp(score - largest) for score in scores]
                total = sum(weights)
                lse[at] = largest + math.log(total)
                for d in range(s.dim):
                    o[row + d] = sum(w * v[key + d] for w, key in zip(weights, keys)) / total
    return o, lse


class Case:
    """inputs, outputs and what is expected in them"""

    def __init__(self, sizes, seed):
        s = self.sizes = sizes
        rows, keys = s.batch * s.seqlen_q * s.heads * s.dim, s.batch * s.seqlen_k * s.kv_heads * s.dim
        q, k, v = fill(rows, seed), fill(keys, seed + 1), fill(keys, seed + 2)
        self.q, self.k, self.v = Tensor(rows, "e", q), Tensor(keys, "e", k), Tensor(keys, "e", v)
        self.o, self.lse = Tensor(rows, "e"), Tensor(s.batch * s.heads * s.seqlen_q, "f")
        self.expected = reference(s, q, k, v, True)

    def check(self):
        for name, got, wanted, bound in (("o", self.o.read(), self.expected[0], 4e-3),
                                         ("lse", self.lse.read(), self.expected[1], 1e-4)):
            for i, (a, b) in enumerate(zip(got, wanted)):
                if a != b and not abs(a - b) <= bound * max(1.0, abs(b)):
                    raise AssertionError("%s[%d] is %r, expected %r" % (name, i, a, b))

    def arguments(self, library):
        s = self.sizes
        return library.new("attune_attention_arguments", q=self.q.address, k=self.k.address, v=self.v.address,
                           o=self.o.address, lse=ctypes.cast(self.lse.address, ctypes.POINTER(ctypes.c_float)),
                           batch=s.batch, heads=s.heads, kv_heads=s.kv_heads, seqlen_q=s.seqlen_q,
                           seqlen_k=s.seqlen_k)

    def named(self, library):
        """the same for attune_launch"""
        pointer, integer = library.value("ATTUNE_ARGUMENT_POINTER"), library.value("ATTUNE_ARGUMENT_INTEGER")
        items = [(name, pointer, getattr(self, name).address, 0) for name in ("q", "k", "v", "o", "lse")]
        items += [(name, integer, None, getattr(self.sizes, name)) for name in ("batch", "heads", "kv_heads",
                                                                                "seqlen_q", "seqlen_k")]
        array = (library.interface.structs["attune_argument"]["class"] * len(items))()
        for entry, (name, kind, address, number) in zip(array, items):
            entry.name, entry.kind, entry.pointer, entry.integer = name.encode(), kind, address, number
        return array


TEXT = b"attention.forward dtype=f16 batch=1 heads=4 kv_heads=2 seqlen_q=5 seqlen_k=7 head_dim=16 causal=1 lse=1"


def attention(library, **fields):
    """the struct that says what TEXT says"""
    given = dict(q_dtype=library.value("ATTUNE_F16"), batch=1, heads=4, kv_heads=2, seqlen_q=5, seqlen_k=7,
                 head_dim_qk=16, causal=library.value("ATTUNE_CAUSAL_BOTTOM_RIGHT"), lse=1)
    given.update(fields)
    return library.new("attune_attention", **given)


def run(library, context, device, plan):
    """launches of several sizes through each of the three calls"""
    none = (None, None, 0)  # stream and workspace
    for seed, sizes in enumerate([Sizes(1, 4, 2, 5, 7, 16), Sizes(2, 2, 1, 9, 4, 16), Sizes(1, 6, 3, 1, 33, 16)]):
        case = Case(sizes, 10 * seed + 1)
        library.check(context, library.launch_attention(plan, case.arguments(library), *none))
        case.check()
        case = Case(sizes, 10 * seed + 5)
        named = case.named(library)
        library.check(context, library.launch(plan, named, len(named), *none))
        case.check()
        case = Case(sizes, 10 * seed + 7)
        problem = attention(library, batch=sizes.batch, heads=sizes.heads, kv_heads=sizes.kv_heads,
                            seqlen_q=sizes.seqlen_q, seqlen_k=sizes.seqlen_k)
        library.check(context, library.attention_forward(device, problem, case.arguments(library), *none))
        case.check()
