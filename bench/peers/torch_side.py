"""torch_side.py - everything that needs torch: tensors, the contenders' calls, capture, timing, judging.

All contenders of a cell read the same tensors, are launched the same number of milliseconds at a time on torch's current
stream and are timed by the same two events. What one launch is: whatever the contender does when it is asked for an
output; torch's allocations cost nothing inside a captured graph.

Shapes here are torch's (batch, heads, seq, dim), as views of memory in the order that Machine.layout names.
"""
import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import attune_calls
import cells
import reference

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
            "efficient": SDPBackend.EFFICIENT_ATTENTION}
WARM_LAUNCHES = 3
CEILING = 8192  # rows and columns of the matrix product that is the ceiling


class Machine:
    """One GPU that torch and attune both have open, or the CPU, where nothing is timed."""

    def __init__(self, device, library, store, layout="bshd", eager=False):
        """device: as attune names it, "cuda:0" or "host"; layout: "bshd" or "bhsd", the order of axes in memory"""
        self.timed = device != "host"
        self.device = torch.device(device if self.timed else "cpu")
        self.layout, self.eager = layout, eager
        if self.timed:
            torch.cuda.set_device(self.device)
            torch.zeros(1, device=self.device)  # torch's context is there first, and attune works in it
        torch.set_float32_matmul_precision("highest")  # no tf32 in the reference
        self.place = attune_calls.Place(library, store, device)

    def describe(self):
        about = {"device": self.place.info["name"], "target": self.place.info["target"],
                 "driver": self.place.info["driver"], "torch": torch.__version__, "attune": self.place.version,
                 "layout": self.layout, "launched": "one by one" if self.eager else "as captured graphs"}
        if self.timed:
            about["cuda"], about["cudnn"] = torch.version.cuda, torch.backends.cudnn.version()
        return about

    def cache_bytes(self):
        return torch.cuda.get_device_properties(self.device).L2_cache_size if self.timed else 0

    def tensor(self, cell, random):
        seq_heads = (cell.seqlen, cell.heads) if self.layout == "bshd" else (cell.heads, cell.seqlen)
        make = torch.randn if random else torch.empty
        made = make(cell.batch, *seq_heads, cell.head_dim, device=self.device, dtype=getattr(torch, cells.NAMES[cell.dtype]))
        return made.transpose(1, 2) if self.layout == "bshd" else made

    def stream(self):
        return torch.cuda.current_stream(self.device).cuda_stream if self.timed else None

    def synchronize(self):
        if self.timed:
            torch.cuda.synchronize(self.device)

    def time(self, run, launches):
        """milliseconds a launch of one run"""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / launches

    def repeat(self, calls, launches):
        """(run, output): run launches so many times, going through calls; output is a function that returns what the
        last launch of a run wrote"""
        last = [None]

        def one_by_one():
            for number in range(launches):
                last[0] = calls[number % len(calls)]()

        if self.eager or not self.timed:
            one_by_one()
            return one_by_one, lambda: last[0]
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for call in calls[:WARM_LAUNCHES]:
                call()
        torch.cuda.current_stream(self.device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            one_by_one()
        return graph.replay, lambda: last[0]

    def ceiling(self, dtype, rounds=9, launches=5):
        """TFLOP/s of a large matrix product: median of the rounds"""
        a, b = (torch.randn(CEILING, CEILING, device=self.device, dtype=getattr(torch, cells.NAMES[dtype]))
                for _ in range(2))
        run, _ = self.repeat([lambda: a @ b], launches)
        run()
        times = sorted(self.time(run, launches) for _ in range(rounds))
        return 2 * CEILING**3 / times[len(times) // 2] / 1e9

    def release(self):
        """gives freed memory back, that of captured graphs too"""
        if self.timed:
            torch.cuda.empty_cache()

    def close(self):
        self.place.close()


class Work:
    """One cell on one machine: its tensors, its right answer, its contenders.

    `sets` sets of tensors are used in turn, so that what a launch reads is not in the cache from the launch before.
    """

    def __init__(self, machine, cell, sets, seed):
        self.machine, self.cell, self.plan = machine, cell, None
        torch.manual_seed(seed)
        self.sets = [tuple(machine.tensor(cell, True) for _ in range(3)) for _ in range(sets)]
        self.answers = {}

    def calls(self, name):
        """the contender's launch on each set: functions that return the output; raises where it is not to be had"""
        if name == "attune":
            return self.attune()
        if name == "flex":
            return self.flex()
        return [self.backend(BACKENDS[name], *tensors) for tensors in self.sets]

    def backend(self, backend, q, k, v):
        causal = bool(self.cell.causal)

        def call():
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return call

    def flex(self):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        torch._dynamo.reset()  # sizes are compiled in: what another cell compiled is not taken for this one
        compiled, mask = torch.compile(flex_attention), None
        if self.cell.causal:
            mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, self.cell.seqlen, self.cell.seqlen,
                                     device=self.machine.device.type)
        return [lambda q=q, k=k, v=v: compiled(q, k, v, block_mask=mask) for q, k, v in self.sets]

    def attune(self):
        self.plan = self.machine.place.prepare(self.cell.problem)
        need = self.plan.info["workspace_bytes"]
        self.workspace = torch.empty(need, dtype=torch.uint8, device=self.machine.device) if need else None
        pointer = self.workspace.data_ptr() if need else None
        calls = []
        for tensors in self.sets:
            output = self.machine.tensor(self.cell, False)
            launch = self.plan.bind(*(where(x) for x in (*tensors, output)), pointer)
            calls.append(lambda launch=launch, output=output: launch(self.machine.stream()) or output)
        return calls

    def describe_plan(self):
        return {key: self.plan.info[key] for key in ("candidate", "candidate_id", "rung", "object", "compiler",
                                                     "winner_microseconds", "default_microseconds", "stale", "note")}

    def error(self, contender):
        """runs the contender on outputs that are poisoned; the largest error of a row in units of the allowed one"""
        contender.output().fill_(float("nan"))
        contender.run()
        self.machine.synchronize()
        which = (contender.launches - 1) % len(self.sets)
        if which not in self.answers:
            self.answers[which] = reference.Answer(*self.sets[which], self.cell.causal)
        return self.answers[which].worst(contender.output())

    def close(self):
        if self.plan is not None:
            self.plan.close()
        self.__dict__.clear()


class Contender:
    """One contender of a cell, captured and warm."""

    def __init__(self, machine, calls, sample_milliseconds, launches_for):
        """launches_for(milliseconds, sample_milliseconds): how many launches one run makes"""
        self.machine, self.launches = machine, 1
        for call in calls[:WARM_LAUNCHES]:
            call()
        if machine.timed:
            once, _ = machine.repeat(calls[:1], 1)
            once()
            milliseconds = min(machine.time(once, 1) for _ in range(3))
            self.launches = launches_for(milliseconds, sample_milliseconds)
        self.run, self.output = machine.repeat(calls, self.launches)
        self.run()
        machine.synchronize()

    def sample(self):
        return self.machine.time(self.run, self.launches)


def where(tensor):
    """a (batch, heads, seq, dim) view as attune is told of it"""
    batch, head, seq, dim = tensor.stride()
    if dim != 1:
        raise ValueError("the head dimension is not contiguous")
    return attune_calls.Tensor(tensor.data_ptr(), (batch, seq, head))


quiet = torch.no_grad
