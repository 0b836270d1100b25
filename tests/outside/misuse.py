"""misuse.py - every function of the header with every kind of wrong argument, one at a time, the others right.

The wrong values follow from the declared types: NULL for pointers, every field of a struct that is read, too small and
absurd sizes, numbers at the ends of their types, enumerators that are none, strings that are empty, long or binary.
What must be refused answers a status other than ATTUNE_OK, a message that names the argument or the field, and NULL in
every handle that it would have made. What the header declares legal is listed in LEGAL, and must succeed.
"""
import ctypes
import math
import mmap

import header
import work

# (function or struct, parameter or field): labels of the values below that the header allows there
LEGAL = {
    ("attune_context_create", "options"): {"NULL"},
    ("attune_prepare", "options"): {"NULL"},
    ("attune_device_open", "name"): {"NULL", "empty"},
    ("attune_launch", "stream"): {"NULL"},
    ("attune_launch_attention", "stream"): {"NULL"},
    ("attune_attention_forward", "stream"): {"NULL"},
    ("attune_launch", "workspace"): {"NULL"},  # the plan needs none
    ("attune_launch_attention", "workspace"): {"NULL"},
    ("attune_attention_forward", "workspace"): {"NULL"},
    ("attune_launch", "workspace_bytes"): {"maximum"},
    ("attune_launch_attention", "workspace_bytes"): {"maximum"},
    ("attune_attention_forward", "workspace_bytes"): {"maximum"},
    ("attune_context_options", "store"): {"NULL", "empty", "long", "binary"},  # a folder that cannot be used: memory only
    ("attune_prepare_options", "candidate"): {"NULL"},
    ("attune_attention", "scale"): {"minus one"},
    ("attune_attention_arguments", "scale"): {"minus one"},
    ("attune_attention_arguments", "seed"): {"maximum"},
    ("attune_attention_arguments", "seed_pointer"): {"NULL"},
    ("attune_attention_arguments", "offset_pointer"): {"NULL"},
}
# what the message may say instead of the parameter's or field's own name
OTHER_NAMES = {"alignment_bytes": ("alignment",), "name": ("device",), "text": ("problem", "family"),
               "kind": ("argument",), "pointer": ("q",)}  # kind, pointer: of the first attune_argument, called q
# the value of an attune_argument that its kind does not mean is not looked at
UNREAD = {("attune_argument", "real"), ("attune_argument", "integer")}
# of a struct that a function reads in part, the fields it reads; anything may be in the others
READ_IN_PART = {"attune_workspace_attention": {"size", "batch", "heads", "kv_heads", "seqlen_q", "seqlen_k",
                                               "explicit_sizes"}}
# handles are made by the library alone: a wrong one but NULL is outside of the contract
HANDLES = {"attune_context", "attune_device", "attune_problem", "attune_plan"}


def limits(bits, signed):
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


class Misuse:
    def __init__(self, library, context, device, problem, plan, candidate, store):
        self.library, self.context, self.device, self.problem, self.plan = library, context, device, problem, plan
        self.candidate, self.store = candidate, store
        self.case = work.Case(work.Sizes(2, 4, 2, 5, 7, 16), 99)
        self.count = 0
        self.faults = []
        self.keep = []
        guard = mmap.PAGESIZE
        self.guarded = mmap.mmap(-1, 2 * guard)
        self.guarded_address = ctypes.addressof(ctypes.c_char.from_buffer(self.guarded))
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        assert libc.mprotect(self.guarded_address + guard, guard, 0) == 0
        self.guard = self.guarded_address + guard  # nothing may be read from here on

    # ---- right arguments

    def struct(self, name):
        library = self.library
        if name == "attune_context_options":
            return library.new(name, store=self.store, jit=library.value("ATTUNE_JIT_FORBID"))
        if name == "attune_attention":
            return work.attention(library, batch=self.case.sizes.batch)
        if name == "attune_attention_arguments":
            return self.strided()
        if name == "attune_argument":
            return self.case.named(library)[0]
        if name == "attune_prepare_options":
            return library.new(name, candidate=self.candidate)
        if name in library.interface.structs:
            return library.new(name)
        raise AssertionError("no right value of struct %s: teach tests/outside/misuse.py" % name)

    def strided(self):
        """every stride given, so that one that is wrong is the only one"""
        s, arguments = self.case.sizes, self.case.arguments(self.library)
        arguments.explicit_strides = 1
        for tensor, rows, heads in (("q", s.seqlen_q, s.heads), ("k", s.seqlen_k, s.kv_heads),
                                    ("v", s.seqlen_k, s.kv_heads), ("o", s.seqlen_q, s.heads)):
            setattr(arguments, tensor + "_head_stride", s.dim)
            setattr(arguments, tensor + "_seq_stride", heads * s.dim)
            setattr(arguments, tensor + "_batch_stride", rows * heads * s.dim)
        return arguments

    def right(self, function):
        """a list of right arguments, and by parameter what lies behind the pointers"""
        handles = {"attune_context": self.context, "attune_device": self.device, "attune_problem": self.problem,
                   "attune_plan": self.plan}
        arguments, behind = [], {}
        for name, kind in function.parameters:
            if kind.base in handles and kind.pointers == 1:
                value = handles[kind.base]
            elif kind.base in handles and kind.pointers == 2:
                value = behind[name] = ctypes.c_void_p(0xdead0)
                value = ctypes.pointer(value)
            elif kind.base == "attune_argument":
                value = behind[name] = self.case.named(self.library)
                value = ctypes.cast(value, ctypes.POINTER(self.library.interface.structs[kind.base]["class"]))
            elif kind.base in self.library.interface.structs and kind.pointers == 1:
                value = behind[name] = self.struct(kind.base)
                value = ctypes.pointer(value)
            elif kind.base == "char" and kind.pointers == 1 and kind.constant:
                value = {"name": b"host", "text": work.TEXT}[name]
            elif kind.base == "char" and kind.pointers == 1:
                value = behind[name] = ctypes.create_string_buffer(b"#" * 64, 64)
                value = ctypes.cast(value, ctypes.POINTER(ctypes.c_char))
            elif kind.base == "void":
                value = None
            elif kind.base == "size_t" and kind.pointers == 1:
                value = behind[name] = ctypes.c_size_t(77)
                value = ctypes.pointer(value)
            elif kind.base == "size_t":
                value = {"bytes": 32, "count": 10, "workspace_bytes": 0}[name]
            elif kind.base in self.library.interface.enums:
                value = 1
            else:
                raise AssertionError("%s: no right value for %s %s: teach tests/outside/misuse.py" %
                                     (function.name, kind, name))
            arguments.append(value)
        self.keep = [behind]
        return arguments, behind

    # ---- wrong values

    def numbers(self, kind):
        """(label, value) of a number that is wrong nearly everywhere"""
        interface = self.library.interface
        if kind.base in interface.enums:
            yield from (("no enumerator", 99), ("minus one", -1), ("maximum", 2**31 - 1), ("minimum", -2**31))
        elif kind.base in ("double", "float"):
            yield from (("NaN", math.nan), ("infinite", math.inf), ("minus infinite", -math.inf), ("minus one", -1.0),
                        ("1e308", 1e308))
        else:
            bits = 8 * ctypes.sizeof(header.SCALARS[kind.base])
            low, high = limits(bits, kind.base.startswith("int"))
            yield "maximum", high
            if low:
                yield from (("minimum", low), ("minus one", -1))

    def strings(self):
        yield from (("NULL", None), ("empty", b""), ("long", b"x" * (1 << 20)),
                    ("binary", b"\x01\x1b[31m\xff\xfe%s%n%s%n\xc3\x28"))

    def struct_values(self, name):
        """(field, label, setter) for each field of a struct that is read"""
        for field, kind in self.library.interface.structs[name]["fields"]:
            if (name, field) in UNREAD:
                continue
            if field == "size":
                size = ctypes.sizeof(self.library.interface.structs[name]["class"])
                for value in (0, 1, 8, size - 1, 1 << 40, 2**64 - 1):
                    yield field, "%d" % value, lambda s, v=value: setattr(s, "size", v)
            elif kind.base == "char" and kind.pointers == 1:
                for label, value in self.strings():
                    yield field, label, lambda s, f=field, v=value: setattr(s, f, v)
            elif kind.pointers:
                for label, value in (("NULL", None), ("misaligned", 1)):
                    yield field, label, lambda s, f=field, v=value: self.set_pointer(s, f, v)
            else:
                for label, value in self.numbers(kind):
                    yield field, label, lambda s, f=field, v=value: setattr(s, f, v)

    @staticmethod
    def set_pointer(struct, field, offset):
        """NULL, or the address that is there moved by `offset` bytes (address 1 where there is none)"""
        place = ctypes.c_void_p.from_buffer(struct, getattr(type(struct), field).offset)
        place.value = None if offset is None else (place.value or 0) + offset

    # ---- judging

    def fault(self, text):
        self.faults.append(text)

    def judge(self, function, arguments, behind, where, word, label):
        """`where`: (function or struct, parameter or field)"""
        library, called = self.library, function.name
        about = "%s = %s" % (".".join(where), label)
        allowed = label in LEGAL.get(where, ()) or (called in READ_IN_PART and where[0] != called and
                                                    where[1] not in READ_IN_PART[called])
        context = next((a for (_, kind), a in zip(function.parameters, arguments) if kind.base in HANDLES and
                        kind.pointers == 1), None)
        # the message must be another one than the latest, which is unlike any other
        library.context_create(library.new("attune_context_options", jit=1000 + self.count), ctypes.byref(ctypes.c_void_p()))
        library.problem_parse(self.context, b"attention.forward heads=-%d" % self.count, ctypes.byref(ctypes.c_void_p()))
        before = library.last_error(self.context if context else None)
        status = library.call(called, arguments, about)
        self.count += 1
        made = {key: value for key, value in behind.items() if isinstance(value, ctypes.c_void_p)}
        if (status == 0) != allowed:
            self.fault("%s with %s answers %d (%s)%s" %
                       (called, about, status, library.status_name(status).decode(),
                        ": " + library.last_error(self.context if context else None) if status else ""))
        if status == 0:
            for (key, kind) in function.parameters:
                if key in made and made[key].value:
                    destroy = "attune_%s_destroy" % kind.base[len("attune_"):]
                    if destroy in library.interface.functions:
                        library.call(destroy, (made[key],), "")
            return
        message = library.last_error(self.context if context else None)
        if message == before or not message:
            self.fault("%s with %s leaves no message" % (called, about))
        elif not any(name in message for name in (word, *OTHER_NAMES.get(word, ()))):
            self.fault("%s with %s does not name %s: %s" % (called, about, word, message))
        if any(ord(c) < 32 and c != "\n" for c in message):
            self.fault("%s with %s brings control bytes: %r" % (called, about, message))
        for key, value in made.items():
            if value.value is not None and value.value != 0:
                self.fault("%s with %s leaves %r in *%s" % (called, about, value.value, key))

    # ---- every function that answers a status

    def function(self, function):
        for i, (name, kind) in enumerate(function.parameters):
            for label, value in self.parameter_values(name, kind):
                arguments, behind = self.right(function)
                arguments[i] = value
                behind = {key: kept for key, kept in behind.items() if key != name}
                self.judge(function, arguments, behind, (function.name, name), name, label)
            if kind.base in self.library.interface.structs and kind.pointers == 1:
                self.struct_parameter(function, name, kind)
        arguments, behind = self.right(function)  # and nothing of it did harm
        self.judge(function, arguments, behind, (function.name, "everything"), "", "right")

    def parameter_values(self, name, kind):
        if kind.base == "char" and kind.pointers == 1 and kind.constant:
            yield from self.strings()
        elif kind.pointers:
            yield "NULL", None
        else:
            yield from self.numbers(kind)

    def struct_parameter(self, function, name, kind):
        writable = not kind.constant
        for field, label, change in self.struct_values(kind.base):
            if writable and field != "size":
                continue  # an answer: what was in it is not read
            arguments, behind = self.right(function)
            target = behind[name][0] if kind.base == "attune_argument" else behind[name]
            change(target)
            self.judge(function, arguments, behind, (kind.base, field), field, label)
        if "size" in dict(self.library.interface.structs[kind.base]["fields"]):
            self.newer_struct(function, name, kind)

    def newer_struct(self, function, name, kind):
        """a struct of a later header: served while what is unknown is zero, refused by its size otherwise"""
        base = self.library.interface.structs[kind.base]["class"]
        later = type("later", (ctypes.Structure,), {"_fields_": [("known", base), ("field", ctypes.c_int64)]})
        position = [key for key, _ in function.parameters].index(name)
        for value in (0, 1):
            arguments, behind = self.right(function)
            newer = later(behind[name], value)
            newer.known.size = ctypes.sizeof(later)
            arguments[position] = ctypes.cast(ctypes.pointer(newer), ctypes.POINTER(base))
            label = "right" if value == 0 or not kind.constant else "newer"
            self.judge(function, arguments, behind, (function.name, "everything"), "size", label)

    def run(self):
        LEGAL.update({(name, "everything"): {"right"} for name in self.library.interface.functions})
        for function in self.library.interface.functions.values():
            if function.result.base == "attune_status" and not function.result.pointers:
                self.function(function)
            else:
                method = getattr(self, "of_" + function.name, None)
                if method is None:
                    raise AssertionError("%s answers no status: say in tests/outside/misuse.py what it answers to wrong "
                                         "arguments" % function.name)
                method(function.name)
        self.across_contexts()
        self.strings_without_end()
        return self.faults

    # ---- those that answer something else

    def of_attune_version(self, name):
        constants = self.library.interface.constants
        version = "%d.%d.%d" % tuple(constants["ATTUNE_VERSION_" + part] for part in ("MAJOR", "MINOR", "PATCH"))
        if self.library.call(name, (), "").decode() != version:
            self.fault("the library is not of the header's version")

    def of_attune_status_name(self, name):
        statuses = self.library.interface.enums["attune_status"]
        names = {value: self.library.call(name, (value,), label) for label, value in statuses.items()}
        unknown = self.library.call(name, (99,), "99")
        if len(set(names.values())) != len(statuses) or unknown in names.values():
            self.fault("statuses share a name: %r" % names)
        for value in (-1, len(statuses), 2**31 - 1, -2**31):
            if self.library.call(name, (value,), str(value)) != unknown:
                self.fault("status %d has a name" % value)

    def cut_text(self, name, handle, whole):
        """functions that copy a text into (buffer, bytes) and answer its length"""
        for bytes_ in (0, 1, 2, 63, 64, len(whole) + 1):
            memory = ctypes.create_string_buffer(b"#" * (len(whole) + 80), len(whole) + 80)
            length = self.library.call(name, (handle, ctypes.cast(memory, ctypes.POINTER(ctypes.c_char)), bytes_), "cut")
            expected = whole[:max(0, bytes_ - 1)] + (b"\0" if bytes_ else b"")
            expected += b"#" * (len(memory) - len(expected))
            if length != len(whole) or memory.raw != expected:
                self.fault("%s cuts to %d bytes wrongly: %d, %r" % (name, bytes_, length, memory.raw))
        for bytes_ in (0, 1, 2**64 - 1):
            if self.library.call(name, (handle, None, bytes_), "NULL") != len(whole):
                self.fault("%s without a buffer answers no length" % name)

    def of_attune_last_error(self, name):
        self.library.problem_parse(self.context, b"attention.forward heads=-3", ctypes.byref(ctypes.c_void_p()))
        self.cut_text(name, self.context, self.library.last_error(self.context).encode())
        self.library.context_create(None, None)
        self.cut_text(name, None, self.library.last_error(None).encode())

    def of_attune_problem_text(self, name):
        text = ctypes.create_string_buffer(2048)
        self.library.call(name, (self.problem, ctypes.cast(text, ctypes.POINTER(ctypes.c_char)), 2048), "whole")
        self.cut_text(name, self.problem, text.value)
        self.cut_text(name, None, b"")

    def of_attune_context_destroy(self, name):
        self.library.call(name, (None,), "NULL")

    of_attune_problem_destroy = of_attune_plan_destroy = of_attune_context_destroy

    # ---- what no single argument shows

    def across_contexts(self):
        """a problem of one context and a device of another"""
        library, other, problem, plan = self.library, ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(0xdead0)
        library.check(None, library.context_create(self.struct("attune_context_options"), ctypes.byref(other)))
        library.check(other, library.problem_parse(other, work.TEXT, ctypes.byref(problem)))
        status = library.prepare(self.device, problem, None, ctypes.byref(plan))
        if status != library.value("ATTUNE_INVALID") or "two contexts" not in library.last_error(self.context) or plan:
            self.fault("a problem of another context: status %d, %s" % (status, library.last_error(self.context)))
        library.problem_destroy(problem)
        library.context_destroy(other)

    def strings_without_end(self):
        """options.candidate is read to its limit and no further: the byte behind is not mapped"""
        limit = 1024
        ctypes.memset(self.guard - limit, ord("x"), limit)
        options, plan = self.struct("attune_prepare_options"), ctypes.c_void_p(0xdead0)
        place = ctypes.c_void_p.from_buffer(options, type(options).candidate.offset)
        place.value = self.guard - limit
        status = self.library.call("attune_prepare", (self.device, self.problem, options, ctypes.byref(plan)),
                                   "a candidate without end")
        if status != self.library.value("ATTUNE_INVALID") or plan:
            self.fault("a candidate without end answers %d" % status)
