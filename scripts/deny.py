#!/usr/bin/env python3
"""What cargo-deny checks of deny.toml but advisories, where cargo-deny is not installed: scripts/deny.py [CARGO]

Compiling cargo-deny takes longer than all of this project's tests, so CI runs this instead. Licences, wildcards and
sources of all crates that gpuwhy is built from are told by `cargo tree` and `cargo metadata`.
"""

import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def used(cargo, targets):
    """The packages that one of the targets is built from: metadata has what no feature of a target asks for, too."""
    names = set()
    for target in targets:
        tree = [cargo, "tree", "--locked", "--workspace", "--target", target, "--prefix", "none", "--format", "{p}"]
        names |= {tuple(line.split()[:2]) for line in run(*tree).splitlines() if line}
    packages = json.loads(run(cargo, "metadata", "--format-version", "1", "--locked"))["packages"]
    return [package for package in packages if (package["name"], f"v{package['version']}") in names]


def holds(expression, allowed):
    """Whether an SPDX expression can be met with these licences."""
    words = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    place = 0

    def atom():
        nonlocal place
        if words[place] == "(":
            place += 1
            value = either()
            place += 1
            return value
        name = words[place]
        place += 1
        if place < len(words) and words[place] == "WITH":
            name = f"{name} WITH {words[place + 1]}"
            place += 2
        return name in allowed

    def both():
        nonlocal place
        value = atom()
        while place < len(words) and words[place] == "AND":
            place += 1
            value = atom() and value
        return value

    def either():
        nonlocal place
        value = both()
        while place < len(words) and words[place] == "OR":
            place += 1
            value = both() or value
        return value

    return either() and place == len(words)


def problems(packages, rules):
    """One sentence each."""
    allowed = set(rules["licenses"]["allow"])
    registries = {package["source"] for package in packages if package["source"]}
    for source in sorted(registries):
        if not source.startswith("registry+"):
            yield f"{source} is no registry"
    if len(registries) > 1:
        yield f"crates come from {len(registries)} places: {', '.join(sorted(registries))}"
    for package in packages:
        name = f"{package['name']} {package['version']}"
        is_ours = package["source"] is None
        licence = package["license"]
        if not licence:
            yield f"{name} names no licence"
        elif not holds(licence, allowed):
            yield f"{name} has the licence {licence}, which deny.toml does not allow"
        for dependency in package["dependencies"]:
            if dependency["registry"] is not None:
                yield f"{name} has {dependency['name']} from another registry"
            if is_ours and dependency["req"] == "*" and "path" not in dependency:
                yield f"{name} takes any version of {dependency['name']}"


def main():
    cargo = sys.argv[1] if len(sys.argv) > 1 else "cargo"
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    found = sorted(set(problems(used(cargo, rules["graph"]["targets"]), rules)))
    for problem in found:
        print(f"deny: {problem}", file=sys.stderr)
    if not found:
        print("licences, wildcards and sources are as deny.toml says; advisories were not looked at")
    sys.exit(1 if found else 0)


assert holds("MIT OR Apache-2.0", {"MIT"}) and not holds("MIT AND GPL-3.0", {"MIT"})
assert holds("(MIT OR GPL-2.0) AND Unicode-3.0", {"MIT", "Unicode-3.0"}) and holds("MIT/GPL-3.0", {"MIT"})
assert holds("Apache-2.0 WITH LLVM-exception", {"Apache-2.0 WITH LLVM-exception"})

if __name__ == "__main__":
    main()
