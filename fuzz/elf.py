#!/usr/bin/env python3
"""Makes the seeds that are ELF files or parts of them, with gcc: fuzz/elf.py. Small ones: no C library, no padding to pages."""

import struct
import subprocess
import sys
import tempfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
FLAGS = ["-nostdlib", "-Wl,-z,noseparate-code", "-Wl,-z,max-page-size=4096", "-Wl,--build-id", "-fasynchronous-unwind-tables"]
SECTIONS = [
    ".debug_abbrev", ".debug_addr", ".debug_aranges", ".debug_info", ".debug_line", ".debug_line_str", ".debug_ranges",
    ".debug_rnglists", ".debug_str", ".debug_str_offsets"
]

PROGRAM = """
int out;
static inline __attribute__((always_inline)) int inner(int n) { return n * out; }
__attribute__((noinline)) int middle(int n) { char many[n]; many[0] = n; return inner(n) + inner(n + 1) + many[n - 1]; }
__attribute__((noinline)) int outer(int n) { return middle(n) + inner(n); }
int last(int argc) { return outer(argc); }
"""

NAMED = """
namespace at { struct Tensor { int n; }; namespace native {
template <typename T> __attribute__((noinline)) T add(const Tensor &a, T b) { return a.n + b; } } }
int use(int n) { at::Tensor t{n}; return at::native::add<int>(t, 1) + at::native::add<short>(t, 2); }
"""

LIBRARY = """
struct comm { int pad[82]; int rank, nranks; };
int ncclCommUserRank(struct comm *comm, int *out) { *out = comm->rank; return 0; }
int ncclCommCount(struct comm *comm, int *out) { *out = comm->nranks; return 0; }
int ncclAllReduce(int a) { return a; }
int cuLaunchKernel(int a) { return a + 1; }
int cudaMalloc(void **p) { *p = p; return 0; }
"""

PYTHON = """
%s
__attribute__((section(".PyRuntime"))) unsigned long _PyRuntime[8] = {1};
const char text[] = "3.10.13";
const char *Py_GetVersion(void) { return text; }
"""


def build(folder, name, source, *flags, language="c"):
    out = folder / name
    code = folder / f"{name}.{'cc' if language == 'c++' else 'c'}"
    code.write_text(source)
    compiler = "g++" if language == "c++" else "gcc"
    subprocess.run([compiler, *FLAGS, *flags, code.name, "-o", out.name], cwd=folder, check=True)
    return out.read_bytes()


def sections(elf):
    """Name, address and bytes of each section of a 64-bit file."""
    offset, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3a)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, offset + at * size) for at in range(count)]
    texts = elf[headers[names][4]:][:headers[names][5]]
    for name, kind, _, address, at, length, *_ in headers:
        if kind != 8:
            yield texts[name:texts.index(b"\0", name)].decode(), address, elf[at:at + length]


def put(target, name, content):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def described():
    """Names and symbols with nothing else: where each is, in the bytes that the target reads of a number."""
    names = b"\0cuLaunchKernel\0_PyRuntime\0"
    symbols = b"".join(struct.pack("<IBBHQQ", place, 0x12, 0, 3, 0x20, 8) for place in (1, 16, 19))
    numbers = [0, len(names), len(names), len(symbols)] * 2
    return b"p" + b"".join(struct.pack("<HBB", number, 0, 0) for number in numbers) + names + symbols


def unwind(elf):
    found = {name: (address, content) for name, address, content in sections(elf)}
    address, section = found[".eh_frame"]
    start, index = found.get(".eh_frame_hdr", (address, b""))
    text = found[".text"][0]
    index = index.ljust(address - start, b"\0")
    stack = b"".join(struct.pack("<Q", value) for value in [0x7040, text + 5, 0x10, text + 9, 0x7080, text + 0x20, 0, 0] * 4)
    return struct.pack("<IIIIIHH", start, text, text + 4, text + 0x18, text + 0x30, len(index), len(section)) + index + section + stack


def lines(elf):
    text = next(address for name, address, _ in sections(elf) if name == ".text")
    out = struct.pack("<IIII", text, text + 0x10, text + 0x24, text + 0x38)
    for name, _, content in sections(elf):
        if name in SECTIONS:
            out += struct.pack("<BH", SECTIONS.index(name), len(content)) + content
    return out


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        made = {
            "dwarf5": build(folder, "dwarf5", PROGRAM, "-g", "-O1", "-shared", "-fPIC", "-gdwarf-5"),
            "dwarf4": build(folder, "dwarf4", PROGRAM, "-g", "-O2", "-shared", "-fPIC", "-gdwarf-4"),
            "compressed": build(folder, "compressed", PROGRAM, "-g", "-O1", "-shared", "-fPIC", "-gz=zlib"),
            "fixed": build(folder, "fixed", PROGRAM, "-O2", "-static", "-Wl,-e,last", "-fno-omit-frame-pointer"),
            "names": build(folder, "names", NAMED, "-O1", "-shared", "-fPIC", language="c++"),
        }
        for name, elf in made.items():
            put("symbol_elf", name, elf)
        for name in ["dwarf5", "fixed", "names"]:
            put("unwind_tables", name, unwind(made[name]))
        for name in ["dwarf5", "dwarf4"]:
            put("debug_lines", name, lines(made[name]))
        split = build(folder, "split", PROGRAM, "-g", "-O1", "-shared", "-fPIC", "-gsplit-dwarf")
        put("debug_lines", "split", lines(split))
        put("library_elf", "library", build(folder, "library", LIBRARY, "-O2", "-shared", "-fPIC"))
        put("library_elf", "protected", build(folder, "protected", LIBRARY, "-O0", "-shared", "-fPIC", "-fcf-protection", "-s"))
        put("elf_symbols", "library", build(folder, "found", LIBRARY, "-O2", "-shared", "-fPIC", "-Wl,-rpath,/opt/gpu/lib"))
        hexed = "const unsigned long Py_Version = 0x030c04f0;"
        put("python_elf", "3.12", build(folder, "3.12", PYTHON % hexed, "-O1", "-shared", "-fPIC"))
        put("python_elf", "3.10", build(folder, "3.10", PYTHON % "", "-O1", "-shared", "-fPIC"))
        put("python_elf", "stripped", build(folder, "stripped", PYTHON % "", "-O1", "-static", "-s", "-Wl,-e,Py_GetVersion"))
    put("elf_symbols", "described", described())
    put("symbol_elf", "mangled-cpp", b"m_ZN2at6native3addERKNS_6TensorE")
    put("symbol_elf", "mangled-rust", b"m_ZN4core3fmt5write17h0123456789abcdefE")
    put("symbol_elf", "mangled-v0", b"m_RNvC6_123foo3bar")
    put("symbol_elf", "mangled-twice", b"m_Z1fPFvvEPFvS_S_EPFvS0_S0_EPFvS1_S1_E")
    put("symbol_elf", "perf-map", b"p1000 100 py::train:/job/train.py\n1100 80 second\n1080 20 third\nzz\n")


if __name__ == "__main__":
    sys.exit(main())
