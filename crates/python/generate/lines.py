"""Records line tables and what the interpreter itself makes of them: python3.X lines.py > ../src/lines/3.X.json

One JSON object a line: `first`, `table` (hex), and `lines`: [end, line] for each range of instruction bytes, in order.
The truth is `co_lines()`, or, in 3.9, which has none, the C function that tracebacks use.
"""

import ctypes
import json
import sys
import types

BODY = '''
def plain(a, b=(1,
                2)):
    c = a + b

    return (
        c
        + a(
            b,
            c)
    )


class Thing(
    object,
):
    """A text."""

    def method(self):
        try:
            with self as one, self as two:
                for x in (y for y in one if y):
                    yield [z for z in x
                           if z], two
        except ValueError as error:
            raise TypeError(
                "far") from error
        finally:
            self = lambda: (self,
                            1)

    async def wait(self):
        async for x in self:
            await x if x else (
                await self)


def far(a):
    a()
%s
    a(
%s
        a)
    return a


def long(a):
    return [%s,
            a]
''' % ("\n" * 300, "\n" * 150, ", ".join("a(%d)" % number for number in range(80)))


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def ranges(code):
    if hasattr(code, "co_lines"):
        return [[end, line] for start, end, line in code.co_lines() if end > start]
    line_of = ctypes.pythonapi.PyCode_Addr2Line
    line_of.argtypes = [ctypes.py_object, ctypes.c_int]
    return [[at + 2, line_of(code, at)] for at in range(0, len(code.co_code), 2)]


for code in codes(compile(BODY, "body", "exec")):
    table = code.co_lnotab if sys.version_info < (3, 10) else code.co_linetable
    lines = []
    for end, line in ranges(code):
        if lines and lines[-1][1] == line:
            lines[-1][0] = end
        else:
            lines.append([end, line])
    print(json.dumps({"first": code.co_firstlineno, "table": table.hex(), "lines": lines}))
