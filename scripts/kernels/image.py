"""The small system a kernel under test boots into: busybox, gpuwhy, the stand-in GPU, and the steps."""

import pathlib
import re
import shutil
import subprocess

import cache
import matrix

GUEST = pathlib.Path(__file__).parent / "guest"


def build(kernel, gpuwhy, stand_in, to):
    """Writes the initramfs of a kernel; `stand_in` is the folder with the simulated libraries."""
    root = to.with_suffix(".root")
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("bin", "dev", "proc", "sys", "tmp", "modules"):
        (root / folder).mkdir(parents=True)
    shutil.copy(shutil.which("busybox"), root / "bin" / "busybox")
    shutil.copytree(stand_in, root / "sim")
    # Debug information is most of it.
    subprocess.run(["strip", "-g", "-o", root / "bin" / "gpuwhy", gpuwhy], check=True)
    for library in _libraries([gpuwhy, *stand_in.iterdir()]):
        there = root / library.relative_to("/")
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, there)
    shutil.copytree(GUEST, root, dirs_exist_ok=True)
    (root / "flavours").write_text(f"FLAVOURS='{' '.join(kernel.flavours)}'\n")
    modules = [name for name in matrix.MODULES if (cache.folder() / kernel.name / f"{name}.ko").exists()]
    for name in modules:
        shutil.copy(cache.folder() / kernel.name / f"{name}.ko", root / "modules")
    (root / "modules" / "order").write_text("\n".join(modules))
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with open(to, "wb") as image:
        pack = ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"]
        subprocess.run(pack, cwd=root, input=names.encode(), stdout=image, check=True)
    shutil.rmtree(root)


def _libraries(programs):
    """The shared libraries they are linked to, and the dynamic linker, at their own paths."""
    found = set()
    for program in programs:
        listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        found.update(re.findall(r"(/\S*lib\S+) \(0x", listed))
    beside = {path.name for path in programs}
    return [path for path in map(pathlib.Path, sorted(found)) if path.name not in beside]
