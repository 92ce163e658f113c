"""The Debian archive that this machine installs from, and what its indexes say. No address is written down here."""

import hashlib
import lzma
import os
import pathlib
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
INDEX = "main/binary-amd64/Packages.xz"


class NotThere(Exception):
    """The archive does not have it, or cannot be reached."""


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise NotThere(f"{url}: {error}") from error


def addresses():
    """Of the archives in apt's sources, and where their mirrors keep security updates and old suites."""
    named = os.environ.get("GPUWHY_DEBIAN_ARCHIVE", "").split()
    for uri in named + list(_sources()):
        base = uri.rstrip("/").removesuffix("-security")
        for sibling in ("", "-security", "-archive/debian", "-archive/debian-security"):
            yield base + sibling


def _sources():
    apt = pathlib.Path("/etc/apt")
    for file in [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]:
        if file.suffix not in (".list", ".sources") or not file.is_file():
            continue
        for line in file.read_text(errors="replace").splitlines():
            words = line.split()
            if file.suffix == ".sources":
                found = words[1:] if words[:1] == ["URIs:"] else []
            else:
                found = [word for word in words if "://" in word][:1] if words[:1] == ["deb"] else []
            # Others' archives have no Debian suites.
            yield from (uri for uri in found if uri.startswith("http") and "debian" in uri.rstrip("/").split("/")[-1])


def index(suite):
    """Address of the archive that has a suite, and its packages by name and version."""
    tried = []
    for base in dict.fromkeys(addresses()):
        try:
            release = get(f"{base}/dists/{suite}/InRelease")
        except NotThere as error:
            tried.append(str(error))
            continue
        packages = get(f"{base}/dists/{suite}/{INDEX}")
        if hashlib.sha256(packages).hexdigest() != _listed(_verified(release, suite)):
            raise NotThere(f"{base}: the index of {suite} is not the one that was signed")
        return base, list(_paragraphs(lzma.decompress(packages).decode()))
    raise NotThere(f"no archive of apt's sources has {suite}" + (f" ({tried[0]})" if tried else ""))


def _verified(release, suite):
    if not (shutil.which("gpgv") and KEYRING.exists()):
        print(f"{suite}: signature not checked: that needs gpgv and debian-archive-keyring")
        return release.decode()
    with tempfile.NamedTemporaryFile() as file:
        file.write(release)
        file.flush()
        known = subprocess.run(["gpgv", "-q", "--keyring", KEYRING, file.name], capture_output=True, text=True)
    if known.returncode != 0:
        raise NotThere(f"the signature of {suite} is not right: {known.stderr.strip()}")
    return release.decode()


def _listed(release):
    """The index's sum, as the signed release lists it."""
    of_sha256 = release.partition("\nSHA256:\n")[2]
    for line in of_sha256.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == INDEX:
            return words[0]
    return None


def _paragraphs(text):
    for paragraph in text.split("\n\n"):
        fields = {}
        for line in paragraph.splitlines():
            name, colon, value = line.partition(": ")
            if colon and not line.startswith(" "):
                fields[name] = value
        if "Package" in fields:
            yield fields


def download(base, package, folder):
    """The package's file, checked; one that is there already is not fetched again."""
    file = folder / package["Filename"].rsplit("/", 1)[1]
    if not (file.exists() and _sum(file) == package["SHA256"]):
        print(f"fetching {file.name}, {int(package['Size']) >> 20} MiB", flush=True)
        file.write_bytes(get(f"{base}/{package['Filename']}"))
        if _sum(file) != package["SHA256"]:
            file.unlink()
            raise NotThere(f"{file.name} is not what the index says (SHA256)")
    return file


def _sum(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()
