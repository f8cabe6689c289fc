#!/usr/bin/env python3
"""Runs the code blocks of documents and compares what they print with the text block that follows each.

Usage: docs.py test --build BUILD [--update] PAGE...   runs the blocks; --update writes what was printed in place of texts that differ
       docs.py links                                   says which links of the tree's documents lead nowhere
       docs.py program PAGE                            prints the C++ blocks of a page as one program
       docs.py unit PAGE OUT                           writes them as a part of the program that `test` starts; docs.py main OUT: its main()

A page's C++ blocks are one program: lines with #include go to its top, everything else stands in main() in the order of the page; a block
with a main() of its own is a program of its own. Its Python blocks are one program, too. Each shell block is run by `bash -e`. All
run in order, in one scratch folder in which the tree and the build folder can be found by their names (examples/, build/).

Behind the language of a block may stand, separated by spaces:
    throws           it ends with an error (in shell: with an exit code that is not 0), whose text is printed
    needs=NAME       where there is no such thing (gpu, no-gpu, mpi, torch, numpy) it is only compiled; C++: in a scope of its own
    file=NAME        it is not run: it is the contents of this file of the scratch folder
    program=NAME     C++ with a main(): it is not run, but can be started as ./NAME by the shell blocks behind it
    not-run: REASON  to the end of the line; C++ is compiled all the same, in a scope of its own

A block of the language text is what the code block before it prints: a line "..." stands for any number of lines, "..." within a line for
any text. `text picture` is no output. A block of another language, one without a language and one whose output has no text are errors, and
so are links to files and headings that are not there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN = ("cpp", "python", "sh")
NEEDS = ("gpu", "no-gpu", "mpi", "torch", "numpy")
MARK = "\x1e"  # before the number of the block that begins
SECONDS = 120  # that a block may take


class Block:
    def __init__(self, language: str, marks: str, line: int, text: list[str]):
        self.language, self.line, self.text = language, line, text
        self.last = line + len(text)  # the line of the closing fence, counted from 0
        self.not_run, self.needs, self.file, self.program, self.throws, self.picture = "", "", "", "", False, False
        self.expected: Block | None = None
        marks, _, self.not_run = (part.strip() for part in marks.partition("not-run:"))
        for word in marks.split():
            if word == "throws":
                self.throws = True
            elif word.startswith("needs=") and word[6:] in NEEDS:
                self.needs = word[6:]
            elif word.startswith("file="):
                self.file = word[5:]
            elif word.startswith("program=") and language == "cpp":
                self.program = word[8:]
            elif word == "picture" and language == "text":
                self.picture = True
            else:
                raise ValueError(f"line {line}: a block may not be marked '{word}'")

    @property
    def runs(self) -> bool:
        return self.language in RUN and not self.not_run and not self.file and not self.program


def headings_of(file: pathlib.Path) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    lines = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", line.strip().lower()).replace(" ", "-") for line in lines}


class Page:
    def __init__(self, path: pathlib.Path):
        self.path = path
        try:
            self.name = path.resolve().relative_to(ROOT).as_posix()
        except ValueError:
            self.name = path.name
        self.lines = path.read_text(encoding="utf-8").split("\n")
        self.blocks: list[Block] = []
        self.errors: list[str] = []
        self.link_errors: list[str] = []
        begin = None
        for number, line in enumerate(self.lines):
            if not line.startswith("```"):
                continue
            if begin is None:
                begin = number
            else:
                language, _, marks = self.lines[begin][3:].strip().partition(" ")
                try:
                    self.blocks.append(Block(language, marks, begin + 1, self.lines[begin + 1 : number]))
                except ValueError as error:
                    self.errors.append(f"{self.name}: {error}")
                begin = None
        if begin is not None:
            self.errors.append(f"{self.name}:{begin + 1}: the block is not closed")
        self._join()
        self._check_links()
        self.errors += self.link_errors

    def _check_links(self) -> None:
        code = {n for b in self.blocks for n in range(b.line - 1, b.last + 1)}
        for number, line in enumerate(self.lines):
            for link in () if number in code else re.findall(r"\]\(([^)\s]+)\)", line):
                target, _, heading = link.partition("#")
                if re.match(r"[a-z]+:", link):
                    continue
                file = (self.path.parent / target).resolve() if target else self.path
                if not file.exists():
                    self.link_errors.append(f"{self.name}:{number + 1}: there is no {link}")
                elif heading and heading not in headings_of(file):
                    self.link_errors.append(f"{self.name}:{number + 1}: {target or self.name} has no heading '#{heading}'")

    def _join(self) -> None:
        code = None
        for block in self.blocks:
            where = f"{self.name}:{block.line}"
            if block.language == "text":
                if not block.picture and (code is None or code.expected):
                    self.errors.append(f"{where}: no code block before this text prints it; a text that nobody prints is marked 'picture'")
                elif not block.picture:
                    code.expected = block
                continue
            code = block
            if not block.language:
                self.errors.append(f"{where}: a block needs a language")
            elif block.language not in RUN and not block.not_run and not block.file:
                self.errors.append(f"{where}: nobody runs blocks of '{block.language}'; mark it 'not-run: REASON' or 'file=NAME'")

    def of(self, language: str) -> list[Block]:
        return [b for b in self.blocks if b.language == language and not b.file]

    def key(self) -> str:
        """The page's name in docs_pages, which has the code that the page has now or does not know it."""
        code = "\n".join(line for b in self.of("cpp") for line in [str(b.runs), *b.text])
        return f"{self.name} {hashlib.sha256(code.encode()).hexdigest()[:8]}"


# ---- C++ ---------------------------------------------------------------------------------------------------------------------------


def has_main(block: Block) -> bool:
    return any(re.match(r"int main\(\)", line) for line in block.text)


def includes_of(page: Page) -> list[str]:
    lines = [line for b in page.of("cpp") for line in b.text if line.startswith("#include")]
    return list(dict.fromkeys(lines))


def body_of(block: Block) -> list[str]:
    return [("//" + line if line.startswith("#include") else line) for line in block.text]


def unit(page: Page) -> str:
    """A page as a source of the program that the test starts."""
    out = ['#include "docs/page.h"', *includes_of(page), "namespace {"]
    file = page.path.name
    calls: list[str] = []
    programs: list[str] = []
    for k, block in enumerate(page.of("cpp")):
        line = [f'#line {block.line + 1} "{file}"']
        if has_main(block):
            text = [re.sub(r"^int main\(\)", "int run_program()", text) for text in body_of(block)]
            out += [f"namespace program_{k} {{", *line, *text, "}"]
            text, line = [f"program_{k}::run_program();"], []
        else:
            text = body_of(block)
        if block.program:
            programs.append(f'const toroid_docs::Page registered_{k}("{block.program}", [] {{ program_{k}::run_program(); }}, true);')
        elif block.not_run:
            calls += ["if (toroid_docs::never()) {", *line, *text, "}"]
        else:
            calls += [f"toroid_docs::begin({k});"]
            before, after = [], []
            if block.needs:
                before, after = ["if (toroid_docs::wanted) {"], ["}"]
            if block.throws:
                before, after = [*before, "toroid_docs::print_error([&] {"], ["});", *after]
            calls += [*before, *line, *text, *after]
    out += ["void page() {", *calls, "}", f'const toroid_docs::Page registered("{page.key()}", page);', *programs, "}  // namespace"]
    return "\n".join(out) + "\n"


def program(page: Page) -> str:
    """A page as a program to copy."""
    out = [*includes_of(page), "", "int main() {"]
    for block in page.of("cpp"):
        if block.not_run or has_main(block):  # these are not part of it
            continue
        text = ["  " + line if line else line for line in block.text if not line.startswith("#include")]
        if block.throws:
            text = ["  try {", *text, "  } catch (const toroid::Error& e) {", "    std::cout << e.what() << std::endl;", "  }"]
        elif block.needs:
            text = [f"  {{  // needs {block.needs}", *text, "  }"]
        out += [*text, ""]
    return "\n".join([*out[:-1], "}"]) + "\n"


def write_if_changed(path: pathlib.Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


# ---- running -----------------------------------------------------------------------------------------------------------------------

PYTHON_DRIVER = r"""
import ast, json, sys
blocks = json.load(open(sys.argv[1]))
names = {"__name__": "__main__"}
for k, (line, throws, text) in enumerate(blocks):
    print("\x1e%d" % k, flush=True)
    if sys.stdin.readline() != "run\n":
        compile(text, sys.argv[2], "exec")
        continue
    code = compile("\n" * line + text, sys.argv[2], "exec")
    try:
        exec(code, names)
        if throws: print("nothing was thrown")
    except Exception as error:
        if not throws: raise
        print(type(error).__name__ + ": " + str(error))
print("\x1eend", flush=True)
"""


class Child:
    """A program whose blocks are run one by one."""

    def __init__(self, command: list[str], folder: pathlib.Path, environment: dict[str, str]):
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            encoding="utf-8", errors="replace")  # fmt: skip
        self.late = False
        self.said = self._read()

    def _read(self) -> str:
        """What it prints up to the next mark."""
        out = []
        timer = threading.Timer(SECONDS, self._kill)
        timer.start()
        for line in self.process.stdout:
            before, mark, _ = line.partition(MARK)
            out.append(before)
            if mark:
                break
        else:
            code = self.process.wait()
            out.append(f"\nthe program took longer than {SECONDS} s" if self.late else f"\nthe program ended with exit code {code}" if code else "")
        timer.cancel()
        return "".join(out)

    def _kill(self) -> None:
        self.late = True
        self.process.kill()

    def step(self, run: bool) -> str:
        if self.process.poll() is not None:
            return self.said or "the program has ended before"
        try:
            self.process.stdin.write("run\n" if run else "skip\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        return self._read()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def pattern_of(expected: list[str]) -> re.Pattern[str]:
    parts = []
    for line in expected:
        if line.strip() == "...":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(re.escape(line.rstrip()).replace(r"\.\.\.", r"[^\n]*") + r"\n")
    return re.compile("".join(parts))


def lines_of(printed: str) -> list[str]:
    lines = [line.rstrip() for line in printed.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def matches(expected: list[str], printed: list[str]) -> bool:
    return pattern_of(expected).fullmatch("".join(line + "\n" for line in printed)) is not None


def write_program(path: pathlib.Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\n{command}\n", encoding="utf-8")
    path.chmod(0o755)


class Runner:
    def __init__(self, build: pathlib.Path, python: str):
        self.build, self.python = build.resolve(), python
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TOROID_")}
        self.environment["PATH"] = f"{self.build}{os.pathsep}{self.environment.get('PATH', '')}"
        self.environment["PYTHONPATH"] = str(self.build / "python")
        self.environment["PYTHONDONTWRITEBYTECODE"] = "1"
        module = any((self.build / "python" / "toroid").glob("_core*.so"))
        self.there = {
            "numpy": module and self._runs([python, "-c", "import numpy, toroid"]),
            "torch": module and self._runs([python, "-c", "import torch, toroid"]),
            "mpi": (self.build / "libtoroid_mpi.so").exists() and shutil.which("mpirun") is not None,
            "gpu": self._runs(["nvidia-smi", "-L"]),
        }
        self.there["no-gpu"] = not self.there["gpu"]

    def _runs(self, command: list[str]) -> bool:
        try:
            return subprocess.run(command, env=self.environment, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            return False

    def run(self, page: Page) -> list[tuple[Block, str | None]]:
        """Each block that is run with what it prints; None where it was only compiled."""
        out: list[tuple[Block, str | None]] = []
        children: dict[str, Child] = {}
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            for entry in ROOT.iterdir():
                if not entry.name.startswith((".", "build")):
                    (folder / entry.name).symlink_to(entry)
            (folder / "build").symlink_to(self.build)
            (folder / "bin").mkdir()
            write_program(folder / "bin" / "python3", f'exec "{self.python}" "$@"')
            environment = {**self.environment, "TOROID_CACHE_DIR": str(folder / "cache"), "TMPDIR": scratch}
            environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{environment['PATH']}"
            try:
                for block in page.blocks:
                    if block.file:
                        (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
                        (folder / block.file).write_text("\n".join(block.text) + "\n", encoding="utf-8")
                    if block.program:
                        write_program(folder / block.program, f'exec "{self.build}/docs_pages" {block.program}')
                    if not block.runs:
                        continue
                    run = self.there[block.needs or "numpy"] if block.language == "python" else not block.needs or self.there[block.needs]
                    if block.language == "sh":
                        out.append((block, self._shell(block, folder, environment) if run else None))
                        continue
                    if block.language not in children:
                        children[block.language] = self._start(block.language, page, folder, environment)
                    said = children[block.language].step(run)
                    out.append((block, said if run or "Error" in said else None))
            finally:
                for child in children.values():
                    child.end()
        return out

    def _start(self, language: str, page: Page, folder: pathlib.Path, environment: dict[str, str]) -> Child:
        if language == "cpp":
            return Child([str(self.build / "docs_pages"), page.key()], folder, environment)
        blocks = [(b.line, b.throws, "\n".join(b.text)) for b in page.of("python") if not b.not_run]
        (folder / "blocks.json").write_text(json.dumps(blocks), encoding="utf-8")
        (folder / "driver.py").write_text(PYTHON_DRIVER, encoding="utf-8")
        return Child([self.python, "driver.py", "blocks.json", page.path.name], folder, environment)

    @staticmethod
    def _shell(block: Block, folder: pathlib.Path, environment: dict[str, str]) -> str:
        try:
            done = subprocess.run(["bash", "-e"], cwd=folder, env=environment, input="\n".join(block.text) + "\n", stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace", timeout=SECONDS, check=False)  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"the commands took longer than {SECONDS} s"
        if (done.returncode != 0) != block.throws:
            return done.stdout + f"\nthe commands ended with exit code {done.returncode}"
        return done.stdout


def check_page(page: Page, runner: Runner, update: bool) -> tuple[list[str], str]:
    errors = list(page.errors)
    if errors:
        return errors, ""
    edits: list[tuple[int, int, list[str]]] = []
    ran = skipped = 0
    for block, said in runner.run(page):
        if said is None:
            skipped += 1
            continue
        ran += 1
        printed = lines_of(said)
        expected = block.expected.text if block.expected else []
        if matches(expected, printed):
            continue
        if update and block.expected:
            same = len(expected) == len(printed)
            kept = [e if same and matches([e], [p]) else p for e, p in zip(expected, printed)] if same else printed
            edits.append((block.expected.line, block.expected.last, kept))
        elif update:
            edits.append((block.last + 1, block.last + 1, ["```text", *printed, "```"]))
        else:
            where = f"{page.name}:{block.expected.line if block.expected else block.line}"
            what = "the block before prints something else" if block.expected else "what this block prints has no text block behind it"
            errors.append("\n".join([f"{where}: {what}:", *("  | " + line for line in printed)]))
    for begin, end, lines in sorted(edits, reverse=True):
        page.lines[begin:end] = lines
    if edits:
        page.path.write_text("\n".join(page.lines), encoding="utf-8")
    apart = sum(bool(b.not_run) for b in page.blocks)
    return errors, f"{page.name}: {ran} blocks run, {skipped} only compiled here, {apart} marked as not run"


def test(pages: list[Page], build: pathlib.Path, update: bool) -> int:
    # The interpreter that python/CMakeLists.txt takes, too.
    system = "/usr/bin/python3"
    runner = Runner(build, os.environ.get("PYTHON") or (system if os.path.exists(system) else sys.executable))
    errors: list[str] = []
    for page in pages:
        found, summary = check_page(page, runner, update)
        errors += found
        print("\n".join(found) or summary, flush=True)
    missing = [name for name, there in runner.there.items() if not there]
    print(f"docs: {len(pages)} pages, {len(errors)} errors" + (f"; not here: {', '.join(missing)}" if missing else ""))
    return 1 if errors else 0


def check_links() -> int:
    pages = [p for p in ROOT.rglob("*.md") if not any(part.startswith((".", "build")) for part in p.relative_to(ROOT).parts)]
    errors = [e for p in sorted(pages) for e in Page(p).link_errors]
    print("\n".join([*errors, f"links: {len(pages)} documents, {len(errors)} errors"]))
    return 1 if errors else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("test")
    run.add_argument("--build", type=pathlib.Path, required=True)
    run.add_argument("--update", action="store_true")
    run.add_argument("pages", type=pathlib.Path, nargs="+")
    commands.add_parser("links")
    commands.add_parser("program").add_argument("page", type=pathlib.Path)
    part = commands.add_parser("unit")
    part.add_argument("page", type=pathlib.Path)
    part.add_argument("out", type=pathlib.Path)
    commands.add_parser("main").add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    if args.command == "test":
        return test([Page(p) for p in args.pages], args.build, args.update)
    if args.command == "links":
        return check_links()
    if args.command == "main":
        write_if_changed(args.out, '#include "docs/page.h"\n\nint main(int argc, char** argv) { return toroid_docs::run(argc, argv); }\n')
        return 0
    page = Page(args.page)
    if args.command == "program":
        print(program(page), end="")
    else:
        write_if_changed(args.out, unit(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
