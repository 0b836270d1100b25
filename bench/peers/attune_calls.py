"""attune_calls.py - libattune through ctypes: a filled store, a device, plans, launches on the caller's memory and stream.

Only what serving needs: nothing is compiled (a miss is an error with the key that is missing). The struct layouts are
written out here and compared with the header by tests/peers.
"""
import ctypes

JIT_FORBID = 1
RUNGS = {1: "default", 2: "near", 3: "exact"}
TENSORS = ("q", "k", "v", "o")


class AttuneError(Exception):
    """a call that failed, with libattune's own sentence"""


class ContextOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("store", ctypes.c_char_p), ("jit", ctypes.c_int),
                ("tune_seconds", ctypes.c_double)]


class DeviceInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char * 128), ("target", ctypes.c_char * 64),
                ("driver", ctypes.c_char * 64), ("compute_units", ctypes.c_int32), ("wave_size", ctypes.c_int32),
                ("shared_bytes", ctypes.c_uint64), ("memory_bytes", ctypes.c_uint64)]


class PlanInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("rung", ctypes.c_int), ("candidate", ctypes.c_char * 1024),
                ("candidate_id", ctypes.c_char * 16), ("object", ctypes.c_char * 72), ("compiler", ctypes.c_char * 64),
                ("workspace_bytes", ctypes.c_uint64), ("threads", ctypes.c_uint32), ("shared_bytes", ctypes.c_uint32),
                ("winner_microseconds", ctypes.c_double), ("default_microseconds", ctypes.c_double),
                ("stale", ctypes.c_int32), ("note", ctypes.c_char * 256)]


class AttentionArguments(ctypes.Structure):
    _fields_ = ([("size", ctypes.c_size_t)] + [(name, ctypes.c_void_p) for name in ("q", "k", "v", "o", "lse")] +
                [(name, ctypes.c_int64) for name in ("batch", "heads", "kv_heads", "seqlen_q", "seqlen_k")] +
                [("%s_%s_stride" % (tensor, axis), ctypes.c_int64)
                 for tensor in TENSORS for axis in ("batch", "seq", "head")] +
                [("explicit_strides", ctypes.c_int32), ("explicit_sizes", ctypes.c_int32), ("scale", ctypes.c_double),
                 ("dropout", ctypes.c_double), ("explicit_dropout", ctypes.c_int32), ("seed", ctypes.c_uint64),
                 ("offset", ctypes.c_uint64), ("seed_pointer", ctypes.c_void_p), ("offset_pointer", ctypes.c_void_p)])


HANDLE = ctypes.c_void_p
OUT = ctypes.POINTER(ctypes.c_void_p)
FUNCTIONS = {
    "attune_version": (ctypes.c_char_p, []),
    "attune_status_name": (ctypes.c_char_p, [ctypes.c_int]),
    "attune_context_create": (ctypes.c_int, [ctypes.POINTER(ContextOptions), OUT]),
    "attune_context_destroy": (None, [HANDLE]),
    "attune_last_error": (ctypes.c_size_t, [HANDLE, ctypes.c_char_p, ctypes.c_size_t]),
    "attune_device_open": (ctypes.c_int, [HANDLE, ctypes.c_char_p, OUT]),
    "attune_device_describe": (ctypes.c_int, [HANDLE, ctypes.POINTER(DeviceInfo)]),
    "attune_problem_parse": (ctypes.c_int, [HANDLE, ctypes.c_char_p, OUT]),
    "attune_problem_destroy": (None, [HANDLE]),
    "attune_prepare": (ctypes.c_int, [HANDLE, HANDLE, ctypes.c_void_p, OUT]),
    "attune_plan_destroy": (None, [HANDLE]),
    "attune_plan_describe": (ctypes.c_int, [HANDLE, ctypes.POINTER(PlanInfo)]),
    "attune_launch_attention": (ctypes.c_int, [HANDLE, ctypes.POINTER(AttentionArguments), ctypes.c_void_p,
                                               ctypes.c_void_p, ctypes.c_size_t]),
}


def values(struct):
    """a struct's fields as plain Python values"""
    found = {name: getattr(struct, name) for name, *_ in struct._fields_ if name != "size"}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}


class Tensor:
    """where a tensor lies: an address and the strides, in elements, of (batch, seq, head); the head dimension is contiguous"""

    def __init__(self, pointer, strides):
        self.pointer, self.strides = pointer, strides


class Plan:
    """A prepared problem. Close it before its place."""

    def __init__(self, place, handle):
        self.place, self.handle = place, handle
        info = PlanInfo(size=ctypes.sizeof(PlanInfo))
        place.check(place.library.attune_plan_describe(handle, info))
        self.info = values(info)
        self.info["rung"] = RUNGS[info.rung]

    def bind(self, q, k, v, o, workspace=None):
        """A function of one argument, the stream's address (None: the default stream), that launches on these tensors.

        workspace: device memory of info["workspace_bytes"], None where that is 0. Memory and stream stay the caller's.
        """
        arguments = AttentionArguments(size=ctypes.sizeof(AttentionArguments), explicit_strides=1)
        for name, tensor in zip(TENSORS, (q, k, v, o)):
            setattr(arguments, name, tensor.pointer)
            for axis, stride in zip(("batch", "seq", "head"), tensor.strides):
                setattr(arguments, "%s_%s_stride" % (name, axis), stride)
        launch, handle, pointer = self.place.library.attune_launch_attention, self.handle, ctypes.byref(arguments)
        workspace_bytes = self.info["workspace_bytes"] if workspace else 0

        def run(stream):
            status = launch(handle, pointer, stream, workspace, workspace_bytes)
            if status != 0:
                self.place.check(status)

        run.arguments = arguments  # byref keeps nothing alive
        return run

    def close(self):
        self.place.library.attune_plan_destroy(self.handle)
        self.handle = None


class Place:
    """A context on a filled store and one of its devices."""

    def __init__(self, library, store, device):
        """library: path of libattune.so; store: folder; device: "cuda:0", "host" ... as attune_device_open takes them"""
        self.library = ctypes.CDLL(library)
        self.context, self.device = ctypes.c_void_p(), ctypes.c_void_p()
        for name, (result, arguments) in FUNCTIONS.items():
            entry = getattr(self.library, name)
            entry.restype, entry.argtypes = result, arguments
        options = ContextOptions(size=ctypes.sizeof(ContextOptions), store=store.encode(), jit=JIT_FORBID)
        self.check(self.library.attune_context_create(options, self.context))
        try:
            self.check(self.library.attune_device_open(self.context, device.encode(), self.device))
            info = DeviceInfo(size=ctypes.sizeof(DeviceInfo))
            self.check(self.library.attune_device_describe(self.device, info))
        except AttuneError:
            self.close()
            raise
        self.info = values(info)
        self.version = self.library.attune_version().decode()

    def check(self, status):
        if status != 0:
            message = ctypes.create_string_buffer(4096)
            self.library.attune_last_error(self.context, message, len(message))
            name = self.library.attune_status_name(status).decode()
            raise AttuneError("%s: %s" % (name, message.value.decode(errors="replace")))

    def prepare(self, problem):
        """the plan of a problem's text; AttuneError where the store has none"""
        parsed, plan = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.library.attune_problem_parse(self.context, problem.encode(), parsed))
        try:
            self.check(self.library.attune_prepare(self.device, parsed, None, plan))
        finally:
            self.library.attune_problem_destroy(parsed)
        return Plan(self, plan)

    def close(self):
        self.library.attune_context_destroy(self.context)
        self.context = ctypes.c_void_p()
