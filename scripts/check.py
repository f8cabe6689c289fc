#!/usr/bin/env python3
"""Checks the house rules: includes between rooms, include cycles, file sizes, texts that must not appear, where options are read, where
files lie that are no text.

Usage: check.py [ROOT]. Prints one line a finding; exit status 1 when there is an error (warnings alone are no error)."""

import fnmatch
import os
import re
import sys

CODE_FOLDERS = ("src", "include", "python", "tests", "bench", "examples")
SOURCE_LIMIT, SOURCE_WARNING, HEADER_LIMIT = 800, 600, 400
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.M)
# Put together from parts, so that this file does not contain what it looks for.
FORBIDDEN = [re.compile(r"(?<![\w.$}~/-])/(%s)/" % "|".join(("work", "root", "home" + r"/\w+")))]
# The doors of compiles: there alone the options of the process are read for a compile (or set); below a door the value is passed down.
# Options of the process itself (get_option) are read where they are used: their keys have a type of their own.
OPTION_DOORS = ("src/base/", "src/cli/", "src/package/interface/", "src/front/eager.cpp", "src/front/settings.cpp", "src/front/compile_model.cpp",
                "src/tune/isolate/worker.cpp", "src/tune/isolate/worker/run_job.cpp")
PROCESS_OPTIONS = re.compile(r"\b(of_process|process_key_number|list_options|set_option|ScopedOption)\b")
TEXT_SUFFIXES = (".cpp", ".h", ".md", ".txt", ".py", ".sh", ".json", ".cmake", ".yml", ".toml", ".cu", ".c", ".in", "")
ALWAYS = ("base", "sym")
DATA_FOLDERS = ("tests/data/", "examples/")


def code_files(root):
    for folder in CODE_FOLDERS:
        for path, folders, names in os.walk(os.path.join(root, folder)):
            folders.sort()
            for name in sorted(names):
                if name.endswith((".h", ".cpp", ".c", ".cu", ".cuh")):
                    yield os.path.relpath(os.path.join(path, name), root)


def all_files(root):
    for path, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f == ".ci" or not f.startswith(("build", ".", "__pycache__")))
        for name in sorted(names):
            yield os.path.relpath(os.path.join(path, name), root)


def text_files(root):
    return (path for path in all_files(root) if os.path.splitext(path)[1] in TEXT_SUFFIXES)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


class Layers:
    """The table of layers.txt."""

    def __init__(self, text):
        self.rooms, self.headers, self.errors = {}, [], []
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            if line.startswith("header "):
                words = line.split()
                if len(words) != 3 or words[2] not in self.rooms:
                    self.errors.append(f"scripts/layers.txt:{number}: expected 'header <pattern> <room>' with a room named above")
                else:
                    self.headers.append((words[1], words[2]))
                continue
            room, colon, allowed = line.partition(":")
            names = allowed.split()
            if names == ["*"]:
                names = list(self.rooms)
            for name in names:
                if not colon or (name != "public" and name.split("/")[0] not in self.rooms):
                    self.errors.append(f"scripts/layers.txt:{number}: room '{room}' may only name rooms above it, not '{name}'")
            self.rooms[room] = names

    def public_room(self, header):
        """The room of include/toroid/<header>, or None."""
        for pattern, room in self.headers:
            if fnmatch.fnmatchcase(header, pattern):
                return room
        return None

    def room_of(self, path):
        """The room of a file of src/ or include/, None for a file outside of every room, '?' for one that the table does not know."""
        parts = path.split("/")
        if parts[0] == "include":
            return self.public_room("/".join(parts[2:] if parts[1] == "toroid" else parts[1:])) or "?"
        if parts[0] != "src":
            return None
        return parts[1] if parts[1] in self.rooms else "?"

    def complaint(self, room, target):
        """Why a file of `room` may not include `target` (a path from the root), or None."""
        allowed = self.rooms[room]
        if target.startswith("src/") and target[4:] in allowed:
            return None
        other = self.room_of(target)
        if other == room or (target.startswith("include/") and "public" in allowed):
            return None
        if "public" in allowed and other not in allowed:
            return f"room '{room}' may only include public headers (toroid/...) and its own"
        if other in ALWAYS and not (room == "base" and other == "sym"):
            return None
        if other in allowed:
            return None
        names = [n for n in ALWAYS if n != room and room != "base"] + allowed
        return f"room '{room}' may not include room '{other}' (allowed: {', '.join(names) or 'nothing'})"


def includes_of(root, path, known):
    """The includes of a file that are files of this tree: (line number, path from the root)."""
    text = read(root, path)
    for match in INCLUDE.finditer(text):
        name = match.group(1)
        for candidate in (os.path.join(os.path.dirname(path), name), "src/" + name, "include/" + name, "tests/" + name):
            candidate = os.path.normpath(candidate)
            if candidate in known:
                yield text.count("\n", 0, match.start(1)) + 1, candidate
                break


def check_layers(layers, graph):
    for path, includes in graph.items():
        room = layers.room_of(path)
        if room is None:
            continue
        if room == "?":
            yield f"error: {path}: scripts/layers.txt names no room for this file; add one"
            continue
        for line, target in includes:
            complaint = None if layers.room_of(target) == "?" else layers.complaint(room, target)
            if complaint:
                yield f"error: {path}:{line}: includes {target}: {complaint}"


def check_cycles(graph):
    """Depth-first walk with a stack of its own; each cycle is reported once."""
    state = dict.fromkeys(graph, 0)
    for start in graph:
        if state[start]:
            continue
        state[start] = 1
        trail, work = [start], [iter(graph[start])]
        while work:
            for _, target in work[-1]:
                if state[target] == 1:
                    yield "error: include cycle: " + " -> ".join(trail[trail.index(target):] + [target])
                elif state[target] == 0:
                    state[target] = 1
                    trail.append(target)
                    work.append(iter(graph[target]))
                    break
            else:
                state[trail.pop()] = 2
                work.pop()


def check_sizes(root, paths):
    for path in paths:
        text = read(root, path)
        if "\n// Generated from " in text:  # nobody edits it
            continue
        lines = text.count("\n")
        header = path.endswith((".h", ".cuh"))
        limit = HEADER_LIMIT if header else SOURCE_LIMIT
        if lines > limit:
            yield f"error: {path}: {lines} lines, the limit is {limit}; split it"
        elif not header and lines > SOURCE_WARNING:
            yield f"warning: {path}: {lines} lines, more than {SOURCE_WARNING}"


def check_texts(root):
    for path in text_files(root):
        for number, line in enumerate(read(root, path).splitlines(), 1):
            for pattern in FORBIDDEN:
                if match := pattern.search(line):
                    yield f"error: {path}:{number}: contains '{match.group(0)}', a path of one machine"


def check_binaries(root):
    for path in all_files(root):
        if path.startswith(DATA_FOLDERS):
            continue
        with open(os.path.join(root, path), "rb") as file:
            if b"\0" in file.read(8192):
                yield f"error: {path}: is no text, and lies outside of {' and '.join(DATA_FOLDERS)}; remove it, or put it there"


def check_options(root, paths):
    for path in paths:
        if not path.startswith("src/") or path.startswith(OPTION_DOORS):
            continue
        for number, line in enumerate(read(root, path).splitlines(), 1):
            if match := PROCESS_OPTIONS.search(line.split("//")[0]):
                yield (f"error: {path}:{number}: {match.group(1)}: options of the process are read at the doors of compiles alone; take the "
                       "CompileOptions that is passed down")


def check(root):
    paths = list(code_files(root))
    known = set(paths)
    layers = Layers(read(root, "scripts/layers.txt"))
    graph = {path: list(includes_of(root, path, known)) for path in paths}
    findings = ["error: " + error for error in layers.errors]
    findings += check_layers(layers, graph)
    findings += check_cycles(graph)
    findings += check_sizes(root, paths)
    findings += check_texts(root)
    findings += check_binaries(root)
    findings += check_options(root, paths)
    return findings, len(paths)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    findings, count = check(root)
    for finding in findings:
        print(finding)
    errors = sum(f.startswith("error") for f in findings)
    print(f"check: {count} files, {errors} errors, {len(findings) - errors} warnings")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
