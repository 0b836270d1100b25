"""header.py - reads attune.h and attune_status.h as they are installed: every function, struct, enum and constant.

Everything in tests/outside is driven by what this finds, so that a new function or field cannot be forgotten: one whose
type is not understood here fails the tests. The headers keep to a small part of C (no macros but constants, no
bitfields, no unions, no function pointers); what is outside of it is refused with its text.

  header.py FOLDER OUT   writes OUT/functions.inc, OUT/structs.inc and OUT/layout.c for the C and C++ programs
"""
import ctypes
import os
import re
import sys

SCALARS = {
    "char": ctypes.c_char,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "size_t": ctypes.c_size_t,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
}


class Type:
    """base with `pointers` stars; `constant`: what the first star points at may not be written; `count`: of an array"""

    def __init__(self, base, pointers, constant, count=None):
        self.base, self.pointers, self.constant, self.count = base, pointers, constant, count

    def __str__(self):
        text = ("const " if self.constant else "") + self.base + (" " + "*" * self.pointers if self.pointers else "")
        return text if self.count is None else "%s[%d]" % (text, self.count)


class Function:
    def __init__(self, name, result, parameters):
        self.name, self.result, self.parameters = name, result, parameters  # [(name, Type)]


class Interface:
    def __init__(self):
        self.functions, self.structs, self.enums, self.opaque, self.constants = {}, {}, {}, set(), {}

    def ctype(self, kind):
        """the ctypes class of a Type"""
        if kind.base in self.structs:
            value = self.structs[kind.base]["class"]
        elif kind.base in self.enums:
            value = ctypes.c_int
        elif kind.base in SCALARS:
            value = SCALARS[kind.base]
        elif kind.pointers and (kind.base == "void" or kind.base in self.opaque):
            value = None
        else:
            raise ValueError("type '%s' is not understood: teach tests/outside/header.py" % kind)
        for depth in range(kind.pointers):
            if value is None:
                value = ctypes.c_void_p
            elif value is ctypes.c_char:
                value = ctypes.c_char_p if kind.constant and depth == 0 else ctypes.POINTER(value)
            else:
                value = ctypes.POINTER(value)
        return value * kind.count if kind.count is not None else value


def declarator(text, where):
    """'const uint64_t *seed_pointer' -> name, Type"""
    match = re.fullmatch(r"(const )?\s*(?:struct |enum )?(\w+)\s*((?:\*\s*(?:const)?\s*)*)(\w+)\s*(\[\s*(\w+)\s*\])?",
                         text.strip())
    if match is None:
        raise ValueError("'%s' in %s is not understood: teach tests/outside/header.py" % (text, where))
    constant, base, stars, name, array, count = match.groups()
    return name, Type(base, stars.count("*"), bool(constant), int(count) if array else None)


def split_fields(body, where):
    """'int64_t batch, *heads; char name[128];' -> [(name, Type)]"""
    fields = []
    for statement in filter(None, (s.strip() for s in body.split(";"))):
        if ":" in statement or "(" in statement:
            raise ValueError("%s has a bitfield or a function pointer: '%s'" % (where, statement))
        first, *rest = statement.split(",")
        name, kind = declarator(first, where)
        fields.append((name, kind))
        for other in rest:
            prefix = ("const " if kind.constant else "") + kind.base + " "
            fields.append(declarator(prefix + other.strip(), where))
    return fields


def read_enum(interface, name, body):
    value, items = -1, {}
    for item in filter(None, (s.strip() for s in body.split(","))):
        label, _, given = (part.strip() for part in item.partition("="))
        value = int(given, 0) if given else value + 1
        items[label] = value
    interface.enums[name] = items


def read_struct(interface, name, body):
    fields = split_fields(body, name)
    members = [(field, interface.ctype(kind)) for field, kind in fields]
    interface.structs[name] = {"fields": fields, "class": type(name, (ctypes.Structure,), {"_fields_": members})}


def read_text(interface, text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    for name, value in re.findall(r"^#define (ATTUNE_\w+)[ \t]+(\S+)[ \t]*$", text, re.M):
        interface.constants[name] = int(value, 0)
    for name in re.findall(r"^#define (\w+)\(", text, re.M):
        raise ValueError("the header has a macro with arguments, %s: other languages cannot call it" % name)
    text = re.sub(r"^#.*$", "", text, flags=re.M).replace('extern "C" {', "")
    text = re.sub(r"\s+", " ", text)
    declarations = re.compile(
        r"typedef enum (?P<enum>\w+) \{(?P<items>[^}]*)\} (?P=enum);"
        r"|typedef struct (?P<struct>\w+) \{(?P<fields>[^}]*)\} (?P=struct);"
        r"|typedef struct (?P<opaque>\w+) (?P=opaque);"
        r"|(?P<result>(?:const )?\w+ \**) ?(?P<function>attune_\w+)\((?P<parameters>[^)]*)\);")
    at = 0
    for found in declarations.finditer(text):
        refuse_rest(text[at:found.start()])
        at = found.end()
        if found["enum"]:
            read_enum(interface, found["enum"], found["items"])
        elif found["struct"]:
            read_struct(interface, found["struct"], found["fields"])
        elif found["opaque"]:
            interface.opaque.add(found["opaque"])
        else:
            name, inside = found["function"], found["parameters"].strip()
            parameters = [] if inside == "void" else [declarator(p, name) for p in inside.split(",")]
            _, result = declarator(found["result"] + " result", name)
            interface.functions[name] = Function(name, result, parameters)
    refuse_rest(text[at:])


def refuse_rest(text):
    if text.strip(" }"):
        raise ValueError("'%s' in the header is not understood: teach tests/outside/header.py" % text.strip())


def read(folder):
    interface = Interface()
    for name in ("attune_status.h", "attune.h"):
        with open(os.path.join(folder, name), encoding="ascii") as file:
            read_text(interface, file.read())
    if not interface.functions or not interface.structs:
        raise ValueError("no function or no struct in %s" % folder)
    return interface


def layout_lines(interface):
    """the layout as ctypes sees it, in the words of layout.c"""
    for name, struct in interface.structs.items():
        yield "%s %d" % (name, ctypes.sizeof(struct["class"]))
        for field, _ in struct["fields"]:
            member = getattr(struct["class"], field)
            yield "%s.%s %d %d" % (name, field, member.offset, member.size)
    for name, items in interface.enums.items():
        yield "%s %d" % (name, ctypes.sizeof(ctypes.c_int))
        for label, value in items.items():
            yield "%s %d" % (label, value)


def write_sources(interface, out):
    with open(os.path.join(out, "functions.inc"), "w", encoding="ascii") as file:
        file.writelines("FUNCTION(%s)\n" % name for name in interface.functions)
    with open(os.path.join(out, "structs.inc"), "w", encoding="ascii") as file:
        file.writelines("STRUCT(%s)\n" % name for name in interface.structs)
    with open(os.path.join(out, "layout.c"), "w", encoding="ascii") as file:
        file.write("#include <attune.h>\n#include <stdio.h>\nint main(void)\n{\n")
        for name, struct in interface.structs.items():
            file.write('    printf("%s %%zu\\n", sizeof(%s));\n' % (name, name))
            for field, _ in struct["fields"]:
                file.write('    printf("%s.%s %%zu %%zu\\n", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n' %
                           (name, field, name, field, name, field))
        for name, items in interface.enums.items():
            file.write('    printf("%s %%zu\\n", sizeof(%s));\n' % (name, name))
            for label in items:
                file.write('    printf("%s %%d\\n", (int)%s);\n' % (label, label))
        file.write("    return 0;\n}\n")


if __name__ == "__main__":
    write_sources(read(sys.argv[1]), sys.argv[2])
