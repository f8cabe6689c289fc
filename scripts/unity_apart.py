#!/usr/bin/env python3
"""Finds the sources that cannot be compiled as one with their neighbours, and writes them to cmake/unity-apart.txt.

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


def apart(sources):
    """Those of a folder's sources that stay by themselves. All others are tried as one, so that any groups of them will do."""
    out = []
    while len(sources) > 1 and (bad := faults(sources)):
        sources = [s for s in sources if s not in bad]
        out += bad
    return sorted(out)


def main():
    folders = {}
    for path in sorted([*(ROOT / "src").rglob("*.cpp"), *(ROOT / "tests").rglob("*.cpp")]):
        name = str(path.relative_to(ROOT))
        if "/jit/clang/" not in name and not re.search("src/extern/(no_|onednn/)|^src/ops/functions", name):
            folders.setdefault(path.parent, []).append(name)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [name for names in pool.map(apart, folders.values()) for name in names]
    lines = ["# Files that share a name of their own with a neighbour (scripts/unity_apart.py).", *found]
    (ROOT / "cmake/unity-apart.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
