#!/usr/bin/env python3
"""Divides the sources of each folder into sets that can be compiled as one, and writes those that are not of the first to cmake/unity-apart.txt.

usage: scripts/unity_apart.py   (takes some minutes; only the front end of the compiler runs; build/ must be configured)
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = ["-fsyntax-only", "-std=c++20", "-Wall", "-Wextra", "-Iinclude", "-Isrc", "-Ibuild/generated", "-Itests", "-DFMT_SHARED", '-DTOROID_SOURCE_DIR=""',
         "-DTOROID_LLVM_LINKED_IN=1", "-x", "c++", "-"]


def faults(sources):
    """The sources that the compiler stumbles over when these are one: those that say again what one before them has said."""
    text = "".join(f'#include "{ROOT}/{s}"\n' for s in sources)
    ran = subprocess.run(["g++", *FLAGS], input=text, capture_output=True, text=True, cwd=ROOT)
    if ran.returncode == 0 and "warning:" not in ran.stderr:
        return []
    hits = re.findall(rf"^{re.escape(str(ROOT))}/([^:\n]+\.cpp):\d+:\d+: (?:fatal error|error|warning)", ran.stderr, re.M)
    return sorted(set(hits) & set(sources)) or [sources[-1]]


def split(sources):
    """Sources that can be compiled as one, so that any groups of them will do, and those that cannot be with them."""
    apart = []
    while len(sources) > 1 and (bad := faults(sources)):
        bad = [s for s in bad if s != sources[0]] or sources[-1:]  # one stays at least
        sources = [s for s in sources if s not in bad]
        apart += bad
    return sources, sorted(apart)


def sets(sources):
    """A folder's sources in sets, each of which can be compiled as one."""
    out = []
    while sources:
        together, sources = split(sources)
        out.append(together)
    return out


def main():
    folders = {}
    for path in sorted([*(ROOT / "src").rglob("*.cpp"), *(ROOT / "tests").rglob("*.cpp")]):
        name = str(path.relative_to(ROOT))
        if "/jit/clang/" not in name and not re.search("src/extern/(no_|onednn/)|^src/ops/functions", name):
            folders.setdefault(path.parent, []).append(name)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [(name, at if len(names) > 1 else "alone")
                 for folder in pool.map(sets, folders.values()) for at, names in enumerate(folder) if at for name in sorted(names)]
    lines = ["# Files that share a name of their own with a neighbour of set 0, and their sets (scripts/unity_apart.py).",
             *(f"{at} {name}" for name, at in found)]
    (ROOT / "cmake/unity-apart.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
