"""How long each eBPF program of this host has run, by the kernel's own clock on them."""

import contextlib
import ctypes
import os
import pathlib
import platform
import struct

STATS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
PROG_GET_NEXT_ID, PROG_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD = 11, 13, 15
# Places in the kernel's struct bpf_prog_info.
INFO_BYTES, NAME_AT, NAME_BYTES, RUN_TIME_AT = 224, 64, 16, 192

libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def clock_on():
    """The kernel's clock costs each run of a program some 20 ns: it is on only while somebody looks."""
    before = STATS.read_text()
    STATS.write_text("1\n")
    try:
        yield
    finally:
        STATS.write_text(before)


def bpf(command, attributes):
    return libc.syscall(BPF, command, attributes, len(attributes))


def program_times():
    """By id: name, nanoseconds, runs."""
    times, number = {}, 0
    while True:
        attributes = ctypes.create_string_buffer(struct.pack("<3I", number, 0, 0), 12)
        if bpf(PROG_GET_NEXT_ID, attributes) < 0:
            return times
        number = struct.unpack_from("<I", attributes, 4)[0]
        descriptor = bpf(PROG_GET_FD_BY_ID, ctypes.create_string_buffer(struct.pack("<3I", number, 0, 0), 12))
        # It may have gone meanwhile.
        if descriptor < 0:
            continue
        info = ctypes.create_string_buffer(INFO_BYTES)
        asked = struct.pack("<IIQ", descriptor, INFO_BYTES, ctypes.addressof(info))
        if bpf(OBJ_GET_INFO_BY_FD, ctypes.create_string_buffer(asked, len(asked))) == 0:
            name = info.raw[NAME_AT:NAME_AT + NAME_BYTES].split(b"\0")[0].decode(errors="replace")
            times[number] = (name, *struct.unpack_from("<QQ", info, RUN_TIME_AT))
        os.close(descriptor)


def difference(before, after):
    """By name, what ran between two looks: nanoseconds and runs, most time first."""
    sums = {}
    for number, (name, ns, runs) in after.items():
        _, ns_before, runs_before = before.get(number, (name, 0, 0))
        of_name = sums.setdefault(name, [0, 0])
        of_name[0] += ns - ns_before
        of_name[1] += runs - runs_before
    return {name: tuple(sum) for name, sum in sorted(sums.items(), key=lambda one: -one[1][0]) if sum[1]}
