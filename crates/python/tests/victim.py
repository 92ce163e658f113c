"""A Python program whose stack is known: victim.py CASE[,CASE...], CASE one of CASES below.

It nests through the case's functions, prints one line of JSON and blocks in the innermost one until its standard input
ends:

    {"case": ..., "pid": ..., "tid": ..., "thread": pthread_self(), "frames": [[file, function, line], ...]}

With VICTIM_GPU=FOLDER it does not block: the innermost function allocates GPU memory with the CUDA runtime of that
folder, `bytes` of the line of JSON, which differ from call to call. Lines then go to VICTIM_GATE.says. Before the first case
it makes another call, so that whoever traces knows it, writes its pid into VICTIM_GATE.ready and waits for VICTIM_GATE.

Frames are innermost first. A frame's function is its qualified name, of which versions before 3.11 keep the last part;
its line is that of the marker `at FUNCTION` in this text, so that nothing of the interpreter's own view of its stack is
needed. Frames of the standard library (threading, asyncio) that are further out are not told: more may follow.
"""

import atexit
import functools
import json
import os
import sys
import threading

CASES = (
    "plain callbacks generators comprehension init async thread subinterpreter fork unicode hot spin ctypes_callback"
    " deep many last replaced crowd"
).split()
FILE = __file__
GPU = os.environ.get("VICTIM_GPU")
SAYS = os.environ.get("VICTIM_GATE", "").replace("-next", "") + ".says"
MARKER = "  # at "


def say(functions):
    """Tells the truth, innermost frame first. A function is the name of its marker, or all of its frame. Gives what the
    innermost function is to call."""
    with open(FILE, encoding="utf-8") as text:
        at = {line.rpartition(MARKER)[2].strip(): number for number, line in enumerate(text, 1) if MARKER in line}
    frames = [
        function if isinstance(function, tuple) else (FILE, function.partition("@")[0], at[function])
        for function in functions
    ]
    told = {"case": CASE, "pid": os.getpid(), "tid": threading.get_native_id()}
    told.update(thread=threading.get_ident(), frames=frames)
    call = functools.partial(os.read, 0, 1)
    if GPU:
        import ctypes

        told["bytes"] = 4096 * (len(CASES) * NUMBER + CASES.index(CASE) + 1)
        malloc = ctypes.CDLL(os.path.join(GPU, "libcudart.so.12")).cudaMalloc
        call = functools.partial(malloc, ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(told["bytes"]))
    speak(told)
    return call


def speak(told):
    # One write, as several threads may speak at once.
    out = os.open(SAYS, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if GPU else os.dup(1)
    os.write(out, (json.dumps(told) + "\n").encode())
    os.close(out)


def wait_at_gate():
    import ctypes
    import time

    gate = os.environ["VICTIM_GATE"]
    ctypes.CDLL(os.path.join(GPU, "libcudart.so.12")).cudaFree(None)
    with open(gate + ".part", "w") as file:
        file.write(str(os.getpid()))
    os.rename(gate + ".part", gate + ".ready")
    forgotten = time.monotonic() + 120
    while not os.path.exists(gate) and time.monotonic() < forgotten:
        time.sleep(0.001)


def block(functions):
    call = say(functions)
    call()  # at block


# Calls of Python functions, spread over lines so that the line of the call is not that of the definition.


def plain(functions, depth):
    if depth == 0:
        value = block(functions)  # at plain@0
        return value
    return (
        1
        and plain(  # at plain@1
            functions,
            depth - 1,
        )
    )


def run_plain():
    plain(["block", "plain@0"] + ["plain@1"] * 10 + ["run_plain", "<module>"], 10)  # at run_plain


# Python called back from C.


def callbacks(functions):
    def by_key(value):
        block(functions)  # at callbacks.<locals>.by_key
        return value

    def by_reduce(one, two):
        return list(map(by_map, [one]))  # at callbacks.<locals>.by_reduce

    def by_map(value):
        return sorted([value], key=by_key)  # at callbacks.<locals>.by_map

    class Indexed:
        def __getitem__(self, key):
            return functools.reduce(by_reduce, [1, 2])  # at callbacks.<locals>.Indexed.__getitem__

        def __len__(self):
            return self[0] and 1  # at callbacks.<locals>.Indexed.__len__

    def by_partial(thing):
        return len(thing)  # at callbacks.<locals>.by_partial

    functools.partial(by_partial, Indexed())()  # at callbacks


def run_callbacks():
    inner = "by_key by_map by_reduce Indexed.__getitem__ Indexed.__len__ by_partial".split()
    inner = ["callbacks.<locals>." + name for name in inner]
    callbacks(["block"] + inner + ["callbacks", "run_callbacks", "<module>"])  # at run_callbacks


# Generators, each running the next.


def generate(functions, depth):
    yield depth
    if depth == 0:
        block(functions)  # at generate@0
    elif depth % 2:
        for value in generate(functions, depth - 1):  # at generate@1
            yield value
    else:
        yield from generate(functions, depth - 1)  # at generate@2


def run_generators():
    order = ["generate@0", "generate@1"] + ["generate@2", "generate@1"] * 3 + ["generate@2"]
    sum(generate(["block"] + order + ["run_generators", "<module>"], 8))  # at run_generators


def run_comprehension():
    # Whether a comprehension has a frame of its own depends on the version; a generator expression always has.
    def inner(value):
        block(expected)  # at run_comprehension.<locals>.inner
        return value

    def outer(value, depth):
        if depth == 0:
            return inner(value)  # at run_comprehension.<locals>.outer@0
        expression = (
            outer(value, depth - 1)  # at run_comprehension.<locals>.outer.<locals>.<genexpr>
            for _ in range(2)
        )
        return any(expression)  # at run_comprehension.<locals>.outer@1

    pair = ["run_comprehension.<locals>.outer.<locals>.<genexpr>", "run_comprehension.<locals>.outer@1"]
    names = ["block", "run_comprehension.<locals>.inner", "run_comprehension.<locals>.outer@0"] + pair * 4
    expected = names + ["run_comprehension", "<module>"]
    outer(1, 4)  # at run_comprehension


# Objects being made: from 3.12 on the interpreter may put a frame of its own there once the place is hot.


class Made:
    def __init__(self, functions, depth):
        if functions is None:
            return
        if depth == 0:
            block(functions)  # at Made.__init__@0
            return
        make(functions, depth - 1)  # at Made.__init__@1


def make(functions, depth):
    return Made(functions, depth)  # at make


def run_init():
    for _ in range(1000):
        make(None, 0)
    make(["block", "Made.__init__@0"] + ["make", "Made.__init__@1"] * 4 + ["make", "run_init", "<module>"], 4)  # at run_init


async def task(functions, depth):
    import asyncio

    await asyncio.sleep(0)
    if depth == 0:
        block(functions)  # at task@0
        return
    await task(functions, depth - 1)  # at task@1


def run_async():
    import asyncio

    async def main():
        # A task runs from the event loop: its awaiter is not on the stack.
        await asyncio.create_task(task(["block", "task@0"] + ["task@1"] * 9, 9))

    asyncio.run(main())


def run_thread():
    """Two threads: the second is the one that is told of, the main thread waits for it."""
    functions = ["block", "plain@0"] + ["plain@1"] * 10
    second = threading.Thread(target=plain, args=(functions, 10))
    second.start()
    second.join()


def run_fork():
    """The child is the one that is told of. The parent waits."""
    # A thread that ends loads a library, and a child that is forked meanwhile cannot load any.
    while len(os.listdir("/proc/self/task")) > 1:
        threading.Event().wait(0.001)
    child = os.fork()
    if child == 0:
        plain(["block", "plain@0"] + ["plain@1"] * 10 + ["run_fork", "<module>"], 10)  # at run_fork
        os._exit(0)
    os.waitpid(child, 0)


def run_subinterpreter():
    """The same thread in a second interpreter, which loads this file as a module."""
    code = (
        "import sys, importlib.util\n"
        "spec = importlib.util.spec_from_file_location('victim', %r)\n"
        "victim = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(victim)\n"
        "victim.CASE, victim.NUMBER = 'subinterpreter', %d\n"
        "victim.plain(['block', 'plain@0'] + ['plain@1'] * 10, 10)\n"
    ) % (FILE, NUMBER)
    try:
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
    except ImportError:
        speak({"case": "subinterpreter", "missing": "this Python has no subinterpreters"})
        return
    # Modules such as ctypes may not be for those that share nothing.
    try:
        interpreter = interpreters.create("legacy") if GPU else interpreters.create()
    except TypeError:
        interpreter = interpreters.create(isolated=False)
    # It stays until the end, so that the cases after this one have two to choose from.
    atexit.register(interpreters.destroy, interpreter)
    failure = interpreters.run_string(interpreter, code)
    if failure:
        raise SystemExit(str(failure))


def run_unicode():
    """Latin-1, then UCS2, then UCS4, as the name of the function and of the file. Each calls in its third line."""
    names = ["caf\u00e9", "za\u017c\u00f3\u0142\u0107", "\u03bb\u03ac\u03bc\u03b4\u03b1", "\U00020000x"]
    call = lambda: block(expected)  # at run_unicode.<locals>.<lambda>
    for name in names:
        space = {"call": call}
        exec(compile("def %s():\n\n    return call()\n" % name, name + ".py", "exec"), space)
        call = space[name]
    made = [(name + ".py", name, 3) for name in names]
    expected = ["block", "run_unicode.<locals>.<lambda>"] + made + ["run_unicode", "<module>"]
    call()  # at run_unicode


def run_hot():
    """Hot code in a second thread: specialised instructions, and free-threaded its own copy of them."""

    def leaf(functions, last):
        if last:
            block(functions)  # at run_hot.<locals>.leaf
        return last

    def branch(functions, last):
        total = 0
        for _ in range(2):
            total += leaf(functions, last and not total)  # at run_hot.<locals>.branch
        return total

    def nest(functions, last, depth):
        if depth:
            return nest(functions, last, depth - 1)  # at run_hot.<locals>.nest@1
        return branch(functions, last)  # at run_hot.<locals>.nest@0

    def work(functions):
        for turn in range(5001):
            nest(functions, turn == 5000, 8)  # at run_hot.<locals>.work

    names = ["leaf", "branch", "nest@0"] + ["nest@1"] * 8 + ["work"]
    functions = ["block"] + ["run_hot.<locals>." + name for name in names]
    nest(functions, False, 8)
    second = threading.Thread(target=work, args=(functions,))
    second.start()
    second.join()


def run_spin():
    """Never gives up the GIL by itself, so it holds it. Ends with the process."""

    def spin():
        say(["run_spin.<locals>.spin", "run_spin", "<module>"])
        while True: pass  # at run_spin.<locals>.spin

    threading.Thread(target=lambda: os.read(0, 1) or os._exit(0), daemon=True).start()
    spin()  # at run_spin


def run_ctypes_callback():
    """Python called back from native code that knows nothing of Python."""
    import ctypes

    def compare(one, two):
        plain(["block", "plain@0"] + ["plain@1"] * 6 + outer, 6)  # at run_ctypes_callback.<locals>.compare
        return 0

    outer = ["run_ctypes_callback.<locals>.compare", "run_ctypes_callback", "<module>"]
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    two = (ctypes.c_int * 2)(1, 2)
    ctypes.CDLL(None).qsort(  # at run_ctypes_callback
        two,
        ctypes.c_size_t(2),
        ctypes.c_size_t(4),
        kind(compare),
    )


def run_deep():
    """More than a reader takes."""
    plain(["block", "plain@0"] + ["plain@1"] * 150 + ["run_deep", "<module>"], 150)  # at run_deep


def run_many():
    """Threads that all run when the first of them speaks, and until the last has called."""
    count = int(os.environ.get("VICTIM_THREADS", "60"))
    barrier = threading.Barrier(count)

    def work():
        barrier.wait()
        plain(["block", "plain@0"] + ["plain@1"] * 10 + ["run_many.<locals>.work"], 10)  # at run_many.<locals>.work
        barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_crowd():
    """So many threads that the first is far down their list. It calls, and the main thread and the last one do."""
    gates = [threading.Event() for _ in range(int(os.environ.get("VICTIM_THREADS", "400")))]

    def work(number, calls):
        gates[number].wait()
        if calls:
            plain(["block", "plain@0"] + ["plain@1"] * 10 + ["run_crowd.<locals>.work"], 10)  # at run_crowd.<locals>.work

    last = len(gates) - 1
    threads = [threading.Thread(target=work, args=(number, number in (0, last))) for number in range(len(gates))]
    for thread in threads:
        thread.start()
    plain(["block", "plain@0"] + ["plain@1"] * 10 + ["run_crowd", "<module>"], 10)  # at run_crowd
    for number in [0, last] + list(range(1, last)):
        gates[number].set()
        threads[number].join()


def run_last():
    """The call is the last thing the process does."""
    plain(["block", "plain@0"] + ["plain@1"] * 10 + ["run_last", "<module>"], 10)  # at run_last
    os._exit(0)


def run_replaced():
    """Calls, then becomes VICTIM_NEXT, another Python, which calls."""
    plain(["block", "plain@0"] + ["plain@1"] * 10 + ["run_replaced", "<module>"], 10)  # at run_replaced
    following = os.environ["VICTIM_NEXT"]
    os.environ.pop("PYTHONHOME", None)
    os.environ["VICTIM_GATE"] += "-next"
    os.execv(following, [following, FILE, "plain"])


if __name__ == "__main__":
    if GPU:
        wait_at_gate()
    for NUMBER, CASE in enumerate(sys.argv[1].split(",")):
        globals()["run_" + CASE]()  # at <module>
