"""stand_in.py - as much of torch as bench/peers/torch_side.py uses, on lists of numbers in real memory.

Time is a counter: each launch of attention adds what `speeds` says of its kind. A graph keeps the launches that were made
while it was captured and makes them again, into the same memory, as torch does. What torch would refuse is refused: an
output read before the device was waited for, a graph that is replayed while another is captured.
"""
import contextlib
import ctypes
import math
import random
import struct
import sys
import types


class State:
    def __init__(self):
        self.clock = 0.0            # milliseconds
        self.speeds = {}            # kind -> milliseconds of a launch, 5 unless told
        self.spoil = {}             # kind -> what is done to its output's numbers
        self.refused = set()        # kinds that torch has no backend for
        self.capturing = None       # the graph
        self.streams = [0]
        self.log = []               # (kind, stream, captured)
        self.backend = None
        self.answers = {}           # of attention, by the memory of its inputs, which nobody changes
        self.cache_bytes = 0        # of the last cache

    def launched(self, kind, work):
        self.log.append((kind, self.streams[-1], self.capturing is not None))
        if self.capturing is not None:
            self.capturing.launches.append((kind, work))
            return
        self.run(kind, work)

    def run(self, kind, work):
        self.clock += self.speeds.get(kind, 5.0)
        work()


state = State()


class Tensor:
    """f16 numbers in memory of its own; a transposed one shares it"""

    def __init__(self, shape, memory=None, strides=None):
        self.shape = shape
        size = math.prod(shape)
        self.memory = memory if memory is not None else ctypes.create_string_buffer(2 * size)
        if strides is None:
            strides = [math.prod(shape[axis + 1:]) for axis in range(len(shape))]
        self.strides = tuple(strides)

    def data_ptr(self):
        return ctypes.addressof(self.memory)

    def stride(self):
        return self.strides

    def transpose(self, one, two):
        shape, strides = list(self.shape), list(self.strides)
        shape[one], shape[two] = shape[two], shape[one]
        strides[one], strides[two] = strides[two], strides[one]
        return Tensor(tuple(shape), self.memory, strides)

    def at(self, *index):
        return struct.unpack_from("e", self.memory, 2 * sum(i * s for i, s in zip(index, self.strides)))[0]

    def put(self, value, *index):
        struct.pack_into("e", self.memory, 2 * sum(i * s for i, s in zip(index, self.strides)), value)

    def fill_(self, value):
        for place in range(len(self.memory) // 2):
            struct.pack_into("e", self.memory, 2 * place, value)
        return self

    def __matmul__(self, other):
        state.launched("matmul", lambda: None)
        return self


def attention(q, k, v, causal):
    """rows in fp64, as {(batch, head, query): list}"""
    memory = (q.memory, k.memory, v.memory)
    key = (*map(id, memory), causal)
    if key not in state.answers:
        state.answers[key] = rows(q, k, v, causal), memory  # kept, so that its id stays its own
    return state.answers[key][0]


def rows(q, k, v, causal):
    batch, heads, seqlen, dim = q.shape
    found = {}
    for b in range(batch):
        for h in range(heads):
            for i in range(seqlen):
                keys = range(i + 1 if causal else seqlen)
                scores = [sum(q.at(b, h, i, d) * k.at(b, h, j, d) for d in range(dim)) / math.sqrt(dim) for j in keys]
                weights = [math.exp(score - max(scores)) for score in scores]
                found[b, h, i] = [sum(w * v.at(b, h, j, d) for w, j in zip(weights, keys)) / sum(weights)
                                  for d in range(dim)]
    return found


def scaled_dot_product_attention(q, k, v, is_causal):
    kind = state.backend
    if kind in state.refused:
        raise RuntimeError("No viable backend for scaled_dot_product_attention was found.\nsecond line")
    output = Tensor(q.shape)

    def work():
        for (b, h, i), row in attention(q, k, v, is_causal).items():
            for d, value in enumerate(row):
                output.put(state.spoil.get(kind, lambda x: x)(value), b, h, i, d)

    state.launched(kind, work)
    return output


class Answer:
    """in place of bench/peers/reference.py, whose arithmetic only torch itself can do: a fixed bound"""

    def __init__(self, q, k, v, causal):
        self.right = attention(q, k, v, causal)

    def worst(self, output):
        errors = [abs(output.at(b, h, i, d) - value) / 0.01
                  for (b, h, i), row in self.right.items() for d, value in enumerate(row)]
        return max(error if math.isfinite(error) else math.inf for error in errors)


class Event:
    def __init__(self, enable_timing=False):
        self.timing, self.time, self.waited = enable_timing, None, False

    def record(self):
        self.time = state.clock

    def synchronize(self):
        self.waited = True

    def elapsed_time(self, end):
        assert self.timing and end.timing and end.waited, "an event was read before it was waited for"
        return end.time - self.time


class Stream:
    number = 0

    def __init__(self, device=None):
        Stream.number += 1
        self.cuda_stream = 1000 + Stream.number

    def wait_stream(self, other):
        pass


class Current:
    def __init__(self):
        self.cuda_stream = state.streams[-1]

    def wait_stream(self, other):
        pass


class CUDAGraph:
    def __init__(self):
        self.launches = []

    def replay(self):
        assert state.capturing is None, "a graph is replayed while another is captured"
        for kind, work in self.launches:
            state.run(kind, work)


@contextlib.contextmanager
def on(stream):
    state.streams.append(stream)
    try:
        yield
    finally:
        state.streams.pop()


@contextlib.contextmanager
def captured(graph):
    assert state.capturing is None
    with on(7777):
        state.capturing = graph
        try:
            yield
        finally:
            state.capturing = None


@contextlib.contextmanager
def sdpa_kernel(backend):
    state.backend = backend
    yield
    state.backend = None


def randn(*shape, device=None, dtype=None):
    made = Tensor(shape)
    for place in range(len(made.memory) // 2):
        struct.pack_into("e", made.memory, 2 * place, random.gauss(0, 1))
    return made


def install():
    """puts the stand-in where `import torch` and `import reference` find it"""
    torch = types.ModuleType("torch")
    torch.__version__ = "stand-in"
    torch.device = lambda text: types.SimpleNamespace(type=text.split(":")[0])
    torch.float16 = torch.bfloat16 = torch.uint8 = None
    torch.set_float32_matmul_precision = lambda text: None
    torch.manual_seed = random.seed
    torch.no_grad = contextlib.nullcontext
    torch.randn = randn
    torch.empty = lambda *shape, device=None, dtype=None: Tensor(shape)
    torch.zeros = torch.empty
    torch.version = types.SimpleNamespace(cuda="0")
    torch.backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 0))
    torch.cuda = types.SimpleNamespace(
        Event=Event, Stream=Stream, CUDAGraph=CUDAGraph, graph=captured, set_device=lambda device: None,
        stream=lambda stream: on(stream.cuda_stream), current_stream=lambda device: Current(),
        synchronize=lambda device: None, empty_cache=lambda: None,
        get_device_properties=lambda device: types.SimpleNamespace(L2_cache_size=state.cache_bytes))
    functional = types.ModuleType("torch.nn.functional")
    functional.scaled_dot_product_attention = scaled_dot_product_attention
    attention_module = types.ModuleType("torch.nn.attention")
    attention_module.SDPBackend = types.SimpleNamespace(FLASH_ATTENTION="flash", CUDNN_ATTENTION="cudnn",
                                                        EFFICIENT_ATTENTION="efficient")
    attention_module.sdpa_kernel = sdpa_kernel
    nn = types.ModuleType("torch.nn")
    nn.functional, nn.attention, torch.nn = functional, attention_module, nn
    reference = types.ModuleType("reference")
    reference.Answer = Answer
    sys.modules.update({"torch": torch, "torch.nn": nn, "torch.nn.functional": functional,
                        "torch.nn.attention": attention_module, "reference": reference})
    return torch
