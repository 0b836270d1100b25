"""outside.py PREFIX_INCLUDE LIBRARIES STORE LAYOUT TRAIL - attune from Python with nothing but what is installed."""
import ctypes
import faulthandler
import shutil
import subprocess
import sys
import threading

import binding
import header
import misuse
import work


def the_layout_is_the_compilers(library, path):
    with open(path, encoding="ascii") as file:
        compiled = file.read().splitlines()
    seen = list(header.layout_lines(library.interface))
    assert compiled == seen, "ctypes and the C compiler differ: %s" % sorted(set(compiled) ^ set(seen))


def the_libraries_show_what_the_header_declares(library, folder):
    """neither a function without declaration nor one without definition"""
    if shutil.which("nm") is None:
        print("skipped: nm is not installed: exported functions are not compared with the header")
        return
    exported = set()
    for name in ("libattune.so", "libattune-jit.so"):
        text = subprocess.run(["nm", "-D", "--defined-only", "%s/%s" % (folder, name)], check=True, text=True,
                              capture_output=True).stdout
        exported |= {line.split()[2] for line in text.splitlines() if line.split()[2].startswith("attune_")}
    public = {name.split("@")[0] for name in exported if name.endswith("@@ATTUNE_0")}
    assert exported == {name + "@@ATTUNE_0" for name in public}, "without version: %s" % sorted(exported)
    assert public == set(library.interface.functions), "only in one of header and library: %s" % sorted(
        public ^ set(library.interface.functions))


class Place:
    def __init__(self, library, store, mode):
        self.library, self.context = library, ctypes.c_void_p()
        self.device, self.problem, self.plan = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        options = library.new("attune_context_options", store=store, jit=library.value(mode))
        library.check(None, library.context_create(options, ctypes.byref(self.context)))
        if mode != "ATTUNE_JIT_FORBID":
            library.check(self.context, library.jit_register(self.context))
        library.check(self.context, library.device_open(self.context, b"host", ctypes.byref(self.device)))
        library.check(self.context, library.problem_parse(self.context, work.TEXT, ctypes.byref(self.problem)))
        library.check(self.context, library.prepare(self.device, self.problem, None, ctypes.byref(self.plan)))

    def close(self):
        self.library.plan_destroy(self.plan)
        self.library.problem_destroy(self.problem)
        self.library.context_destroy(self.context)


def each_thread_reads_its_own_message(library, context):
    """a failure here is not told to another thread, whose own call works meanwhile"""
    texts = []

    def other():
        texts.append(library.last_error(context))
        problem = ctypes.c_void_p()
        library.check(context, library.problem_parse(context, work.TEXT, ctypes.byref(problem)))
        library.problem_destroy(problem)

    library.check(context, library.problem_parse(context, b"attention.forward heads=-3", ctypes.byref(ctypes.c_void_p())),
                  "ATTUNE_INVALID")
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert texts == [""], texts
    assert "heads=-3" in library.last_error(context)


def main():
    include, folder, store, layout, trail = sys.argv[1:]
    faulthandler.enable()
    library = binding.Library(include, folder, trail)
    the_layout_is_the_compilers(library, layout)
    the_libraries_show_what_the_header_declares(library, folder)
    place = Place(library, store.encode(), "ATTUNE_JIT_COMPILE")
    work.run(library, place.context, place.device, place.plan)
    place.close()
    # the store is filled: the runtime alone serves it
    place = Place(library, store.encode(), "ATTUNE_JIT_FORBID")
    work.run(library, place.context, place.device, place.plan)
    each_thread_reads_its_own_message(library, place.context)
    info = library.new("attune_plan_info")
    library.check(place.context, library.plan_describe(place.plan, info))
    wrong = misuse.Misuse(library, place.context, place.device, place.problem, place.plan, info.candidate,
                          store.encode())
    faults = wrong.run()
    place.close()
    for fault in faults:
        print("FAULT: " + fault)
    missed = [name for name, calls in library.calls.items() if calls == 0]
    assert not missed, "never called: %s" % missed
    print("%d wrong calls of %d functions, %d faults" % (wrong.count, len(library.calls), len(faults)))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
