"""What a local user may put in the way of whoever traces all processes. strangers.py KIND FOLDER: says `ready`, then waits for its input to end."""

import mmap
import os
import shutil
import struct
import subprocess
import sys

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


kept = {"pipe": pipe, "claims": claims, "many": many}[sys.argv[1]](sys.argv[2])
print("ready", flush=True)
sys.stdin.read()
