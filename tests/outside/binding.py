"""binding.py - the installed libraries through ctypes, with the declarations that header.py found."""
import ctypes
import os

import header


class Library:
    """Each call is counted and written to `trail` before it is made, so that a crash has a name."""

    def __init__(self, prefix_include, folder, trail):
        self.interface = header.read(prefix_include)
        self.trail = os.open(trail, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self.runtime = ctypes.CDLL(os.path.join(folder, "libattune.so"))
        self.jit = ctypes.CDLL(os.path.join(folder, "libattune-jit.so"))
        self.calls = {name: 0 for name in self.interface.functions}
        self.entries = {}
        for name, function in self.interface.functions.items():
            entry = self.find(name)
            entry.argtypes = [self.interface.ctype(kind) for _, kind in function.parameters]
            result = function.result
            entry.restype = None if result.base == "void" and not result.pointers else self.interface.ctype(result)
            self.entries[name] = entry

    def find(self, name):
        for library in (self.runtime, self.jit):
            entry = getattr(library, name, None)
            if entry is not None:
                return entry
        raise AssertionError("%s is in the header and in no library" % name)

    def __getattr__(self, name):
        """library.prepare(...) calls attune_prepare(...)"""
        full = "attune_" + name
        if full not in self.interface.functions:
            raise AttributeError(name)
        return lambda *arguments: self.call(full, arguments, "")

    def call(self, name, arguments, about):
        self.calls[name] += 1
        line = ("%s %s" % (name, about)).encode()[:200]
        os.pwrite(self.trail, line.ljust(200) + b"\n", 0)
        result = self.entries[name](*arguments)
        os.pwrite(self.trail, b"returned".ljust(200) + b"\n", 0)
        return result

    def new(self, struct, **fields):
        """a struct of the header with its size set"""
        made = self.interface.structs[struct]["class"](**fields)
        if hasattr(made, "size"):
            made.size = ctypes.sizeof(made)
        return made

    def value(self, label):
        """an enumerator, as ATTUNE_OK"""
        for items in self.interface.enums.values():
            if label in items:
                return items[label]
        raise AttributeError(label)

    def last_error(self, context):
        length = self.call("attune_last_error", (context, None, 0), "length")
        message = ctypes.create_string_buffer(length + 1)
        assert self.call("attune_last_error", (context, message, length + 1), "message") == length
        return message.value.decode(errors="replace")

    def check(self, context, status, expected="ATTUNE_OK"):
        if status != self.value(expected):
            name = self.call("attune_status_name", (status,), "").decode()
            raise AssertionError("status '%s', expected %s: %s" % (name, expected, self.last_error(context)))
