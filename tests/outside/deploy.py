"""deploy.py INCLUDE LIBRARIES STORE LISTED TRAIL DEVICE... - C07: what runs where nothing may be compiled.

LISTED is what `attune compile --defaults --json` printed. Each device that it made code for must find exactly the object
listed; a problem that differs in one part of the key is refused at once, with the key and the paths searched.
"""
import ctypes
import json
import os
import sys

import binding

# each one part of the specialisation changed; the word that the message must show
CHANGED = [("dtype=f16", "dtype=bf16", "q_dtype=bf16"), ("head_dim=32", "head_dim=40", "head_dim_qk=40"),
           ("causal=1", "causal=top_left", "causal=top_left"), ("lse=1", "lse=0", "head_ratio=2"),
           ("heads=4", "heads=2", "head_ratio=1"), (" lse=1", " lse=1 alignment=4", "alignment=4"),
           (" lse=1", " lse=1 dropout=0.5", "dropout")]
TEXT = os.environ["DEPLOY_PROBLEM"]


def prepare(library, context, device, text):
    problem, plan = ctypes.c_void_p(), ctypes.c_void_p(0xdead0)
    library.check(context, library.problem_parse(context, text.encode(), ctypes.byref(problem)))
    status = library.prepare(device, problem, None, ctypes.byref(plan))
    library.problem_destroy(problem)
    return status, plan


def check_device(library, context, name, store, objects):
    device, info = ctypes.c_void_p(), library.new("attune_device_info")
    library.check(context, library.device_open(context, name.encode(), ctypes.byref(device)))
    library.check(context, library.device_describe(device, info))
    target = info.target.decode().split(":")[0]
    status, plan = prepare(library, context, device, TEXT)
    library.check(context, status)
    about = library.new("attune_plan_info")
    library.check(context, library.plan_describe(plan, about))
    assert about.object.decode() == objects[target], "%s is served another object than was listed" % name
    library.plan_destroy(plan)
    for old, new, word in CHANGED:
        assert old in TEXT
        status, plan = prepare(library, context, device, TEXT.replace(old, new))
        message = library.last_error(context)
        assert status == library.value("ATTUNE_FORBIDDEN"), "%s on %s: status %d: %s" % (new, name, status, message)
        assert not plan.value
        for part in (word, "attention.forward", target, "ATTUNE_JIT=forbid", "compile --defaults", store + "/records/"):
            assert part in message, "'%s' is not in: %s" % (part, message)
    print("%s: object %.12s found; %d misses named" % (name, objects[target], len(CHANGED)))


def main():
    include, libraries, store, listed, trail, *devices = sys.argv[1:]
    with open(listed, encoding="utf-8") as file:
        rows = json.load(file)["objects"]
    objects = {row["target"].split(":")[0]: row["object"] for row in rows}
    for row in rows:
        path = "%s/objects/%.2s/%s" % (store, row["object"], row["object"])
        assert os.path.isfile(path), "%s is listed and not there" % path
    library = binding.Library(include, libraries, trail)
    os.environ["ATTUNE_CACHE"], os.environ["ATTUNE_JIT"] = store, "forbid"
    ctypes.CDLL(None).setenv(b"ATTUNE_CACHE", store.encode(), 1)
    ctypes.CDLL(None).setenv(b"ATTUNE_JIT", b"forbid", 1)
    for with_jit in (False, True):
        context = ctypes.c_void_p()
        library.check(None, library.context_create(None, ctypes.byref(context)))
        if with_jit:
            library.check(context, library.jit_register(context))
        for name in devices:
            check_device(library, context, name, store, objects)
        library.context_destroy(context)
    return 0


if __name__ == "__main__":
    sys.exit(main())
