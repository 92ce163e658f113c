"""What a local user may put in the way of whoever traces all processes. strangers.py KIND FOLDER: says `ready`, then waits for its input to end."""

import ctypes
import mmap
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

NAME = "libcuda.so.1"


def map_code(path):
    descriptor = os.open(path, os.O_RDONLY)
    mapped = mmap.mmap(descriptor, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE)
    os.close(descriptor)
    return mapped


def pipe(folder):
    """A pipe at the path of the file that is mapped, with its inode number."""
    mount = ["mount", "-t", "tmpfs", "none", folder]
    subprocess.run(mount, check=True)
    path = os.path.join(folder, NAME)
    with open(path, "wb") as file:
        file.truncate(4096)
    mapped, wanted = map_code(path), os.stat(path).st_ino
    # Another filesystem counts its files from the beginning.
    subprocess.run(mount, check=True)
    for number in range(wanted):
        other = os.path.join(folder, str(number))
        os.mkfifo(other)
        if os.stat(other).st_ino == wanted:
            os.rename(other, path)
            return mapped
    sys.exit("no file has got that number")


def claims(folder):
    """A small file whose headers claim tables of gigabytes, with a hole as long as that."""
    names = b"\0.shstrtab\0.dynsym\0.dynstr\0.symtab\0.strtab\0"
    large = 2 << 30

    def section(name, kind, offset, size):
        return struct.pack("<IIQQQQIIQQ", names.find(name), kind, 0, 0, offset, size, 0, 0, 8, 24)

    sections = [
        bytes(64), section(b".shstrtab", 3, 64, len(names)), section(b".dynsym", 11, 8192, large), section(b".dynstr", 3, 8192, large),
        section(b".symtab", 2, 8192, large), section(b".strtab", 3, 8192, large),
    ]
    header = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 4096, 0, 64, 56, 0, 64, len(sections), 1)
    path = os.path.join(folder, NAME)
    with open(path, "wb") as file:
        file.write(header + names)
        file.seek(4096)
        file.write(b"".join(sections))
        file.truncate(8192 + large)
    return map_code(path)


def many(folder):
    """Copies of a real library, each a file of its own, in several processes."""
    mapped = []
    for number in range(120):
        path = os.path.join(folder, str(number), NAME)
        os.mkdir(os.path.dirname(path))
        shutil.copy(os.path.join(os.path.dirname(folder), NAME), path)
        mapped.append(map_code(path))
        if number % 30 == 29:
            if os.fork() == 0:
                sys.stdin.read()
                os._exit(0)
            mapped.clear()
    return mapped


def unanswered(folder):
    """A file system that opens its files and never says what is in them; and a process that maps one of them as a library, and holds
    the lock of its own memory for ever. Says its process id before `ready`."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = b"fd=%d,rootmode=40000,user_id=0,group_id=0" % device
    if libc.mount(b"fuse", folder.encode(), b"fuse", 0, options) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    go, begin = os.pipe()
    child = os.fork()
    if child == 0:
        # The file system ends with its server, and with it whoever waits for it.
        os.close(device)
        libc.prctl(1, signal.SIGKILL)
        os.read(go, 1)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        file = os.open(os.path.join(folder, NAME), os.O_RDONLY)
        at = libc.mmap(None, 65536, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, file, 0)
        own = os.open("/proc/self/mem", os.O_RDONLY)
        print(os.getpid(), hex(at), flush=True)
        # It waits for the file system with the lock held, who wants to write waits for that, and who comes then waits as well.
        threading.Thread(target=os.pread, args=(own, 8, at), daemon=True).start()
        os.read(go, 1)
        while True:
            libc.mmap(None, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
            time.sleep(60)
    os.write(begin, b"x")
    root, other = 1, 2

    def attributes(node):
        mode = 0o40755 if node == root else 0o100755
        return struct.pack("<QQQQQQIIIIIIIIII", node, 65536, 128, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    is_asked = is_ready = False
    while True:
        ready = select.select([device, sys.stdin], [], [], 0.05)[0]
        if sys.stdin in ready:
            os._exit(0)
        if is_asked and not is_ready:
            with open(f"/proc/{child}/stat", encoding="utf-8") as stat:
                is_ready = stat.read().rsplit(")", 1)[1].split()[0] == "D"
            if is_ready:
                print("ready", flush=True)
        if not ready:
            continue
        request = os.read(device, 1 << 17)
        _, kind, unique, node = struct.unpack_from("<IIQQ", request)
        answers = {
            26: lambda: struct.pack("<IIIIHHIIHHIII", 7, 31, 65536, 0, 0, 0, 65536, 1, 1, 0, 0, 0, 0) + bytes(20),
            1: lambda: struct.pack("<QQQQII", other, 0, 3600, 3600, 0, 0) + attributes(other),
            3: lambda: struct.pack("<QII", 3600, 0, 0) + attributes(node),
            14: lambda: struct.pack("<QII", 1, 2, 0),
        }
        read = 15
        if kind in answers:
            body = answers[kind]()
            os.write(device, struct.pack("<IiQ", 16 + len(body), 0, unique) + body)
        elif kind == read:
            is_asked = is_asked or bool(os.write(begin, b"x"))
        else:
            os.write(device, struct.pack("<IiQ", 16, -38, unique))


kinds = {"pipe": pipe, "claims": claims, "many": many, "unanswered": unanswered}
kept = kinds[sys.argv[1]](sys.argv[2])
print("ready", flush=True)
sys.stdin.read()
