"""Kernels on disk: fetched once, then used as they are."""

import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

import archive
import matrix

IMAGE = re.compile(r"linux-image-\d[^-]*(-\d+)?-amd64$")
# The newest suites split the image into several packages.
PARTS = re.compile(r"linux-(?:binary|modules)-\S+-amd64")


def folder():
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "gpuwhy" / "kernels"


def about(kernel):
    """What is there of a kernel; None where nothing is."""
    file = folder() / kernel.name / "about.json"
    return json.loads(file.read_text()) if file.exists() else None


def fetch(kernel):
    """Puts the newest package of a kernel into the cache."""
    found, why = [], []
    for suite in kernel.suites:
        try:
            base, packages = archive.index(suite)
        except archive.NotThere as error:
            why.append(str(error))
            continue
        by_name = {package["Package"]: package for package in packages}
        for package in packages:
            if IMAGE.match(package["Package"]) and package["Version"].startswith(kernel.series and kernel.series + "."):
                found.append((_numbers(package["Version"]), base, package, by_name))
    if not found:
        raise archive.NotThere("; ".join(why) or f"none of {', '.join(kernel.suites)} has it")
    _, base, image, by_name = max(found, key=lambda row: row[0])
    parts = [by_name[name] for name in PARTS.findall(image.get("Depends", "")) if name in by_name]
    fresh = folder() / f".{kernel.name}.{os.getpid()}"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    debs = [archive.download(base, package, folder()) for package in [image, *parts]]
    for deb in debs:
        _unpack(deb, fresh)
    if not (fresh / "vmlinuz").exists():
        raise archive.NotThere(f"{image['Package']} has no kernel in it")
    (fresh / "about.json").write_text(json.dumps({"package": image["Package"], "version": image["Version"]}))
    shutil.rmtree(folder() / kernel.name, ignore_errors=True)
    fresh.rename(folder() / kernel.name)
    for deb in debs:
        deb.unlink()


def _numbers(version):
    """6.12~rc7 is before 6.12."""
    release = re.split(r"[-+]", version)[0].replace("~rc", ".-1.").replace("~", ".")
    return [int(number) for number in re.findall(r"-?\d+", release)]


def _unpack(deb, to):
    """Only the kernel and the modules that are used."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as contents:
        with tarfile.open(fileobj=contents.stdout, mode="r|") as files:
            for file in files:
                name = file.name.rsplit("/", 1)[-1]
                stem, _, suffix = name.partition(".ko")
                if not file.isfile():
                    continue
                if name.startswith("vmlinuz"):
                    (to / "vmlinuz").write_bytes(files.extractfile(file).read())
                elif suffix in ("", ".xz") and name != stem and stem in matrix.MODULES:
                    data = files.extractfile(file).read()
                    (to / f"{stem}.ko").write_bytes(lzma.decompress(data) if suffix else data)
