#!/usr/bin/env python3
"""Tests of scripts/docs.py on small pages whose blocks are commands of the shell."""

import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("docs", ROOT / "scripts" / "docs.py")
docs = importlib.util.module_from_spec(spec)
sys.modules["docs"] = docs
spec.loader.exec_module(docs)


def block(language, *lines):
    return "\n".join(["```" + language, *lines, "```", ""])


class Pages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page = pathlib.Path(folder.name) / "page.md"

    def run_page(self, *blocks, update=False):
        if blocks:
            self.page.write_text("\n".join(blocks), encoding="utf-8")
        out = io.StringIO()
        with redirect_stdout(out):
            code = docs.test([docs.Page(self.page)], self.page.parent, update)
        return code, out.getvalue()

    def expect_error(self, text, *blocks):
        code, out = self.run_page(*blocks)
        self.assertEqual(code, 1, out)
        self.assertIn(text, out)

    def test_outputs_are_compared(self):
        self.assertEqual(self.run_page(block("sh", "echo one; echo two >&2"), block("text", "one", "two"))[0], 0)
        self.expect_error("page.md:6: the block before prints something else", block("sh", "echo one"), "", block("text", "two"))
        self.expect_error("prints something else", block("sh", "true"), block("text", "one"))
        self.expect_error("has no text block behind it", block("sh", "echo one"))
        self.assertEqual(self.run_page(block("sh", "true"))[0], 0)

    def test_dots_stand_for_any_text(self):
        self.assertEqual(self.run_page(block("sh", "echo took 12 ms; seq 9"), block("text", "took ... ms", "...", "9"))[0], 0)
        self.assertEqual(self.run_page(block("sh", "echo done"), block("text", "...", "done", "..."))[0], 0)
        self.expect_error("prints something else", block("sh", "seq 9"), block("text", "1 ... 9"))

    def test_nobody_runs_it(self):
        self.expect_error("nobody runs blocks of 'ruby'", block("ruby", "puts 1"))
        self.expect_error("a block needs a language", block("", "x"))
        self.expect_error("no code block before this text prints it", block("text", "x"))
        self.expect_error("no code block before this text prints it", block("sh", "echo x"), block("text", "x"), block("text", "y"))
        self.expect_error("may not be marked 'often'", block("sh often", "true"))
        self.expect_error("the block is not closed", "```sh\ntrue\n")
        code, out = self.run_page(block("ruby not-run: there is no Ruby", "puts 1"), block("text picture", "-->"), block("sh", "true"))
        self.assertEqual(code, 0, out)
        self.assertIn("1 blocks run, 0 only compiled here, 1 marked as not run", out)

    def test_links(self):
        self.expect_error("page.md:1: there is no missing.md", "[a](missing.md)", "")
        self.expect_error("has no heading '#two'", "# One", "", "[a](page.md#one) [b](#two)", "")
        self.assertEqual(self.run_page("# The *first* one: `x`", "[a](#the-first-one-x) [b](https://example.org/#x)", block("sh", "true # [a](b)"))[0], 0)

    def test_exit_codes(self):
        self.expect_error("ended with exit code 3", block("sh", "exit 3"))
        self.expect_error("ended with exit code 0", block("sh throws", "true"))
        self.assertEqual(self.run_page(block("sh throws", "echo no; exit 2"), block("text", "no"))[0], 0)

    def test_blocks_share_a_folder_with_the_tree(self):
        self.assertEqual(self.run_page(block("toml file=a.toml", "[x]"), block("sh", "cat a.toml; ls -d scripts"), block("text", "[x]", "scripts"))[0], 0)
        self.assertFalse((ROOT / "a.toml").exists())

    def test_update_writes_what_was_printed(self):
        same = block("sh", "echo took 12 ms; echo two"), block("text", "took ... ms", "one"), block("sh", "echo three")
        self.assertEqual(self.run_page(*same, update=True)[0], 0)
        self.assertEqual(self.run_page()[0], 0)
        self.assertIn("took ... ms\ntwo\n", self.page.read_text(encoding="utf-8"))

    def test_cpp_becomes_one_function(self):
        self.page.write_text(block("cpp", "#include <map>", "int a = 1;") + block("cpp throws", "use(a);") + block("cpp needs=gpu", "b();") +
                             block("cpp not-run: slow", "c();") + block("cpp program=d", "int main() { return 0; }"), encoding="utf-8")  # fmt: skip
        text = docs.unit(docs.Page(self.page))
        order = ["#include <map>", "begin(0)", '#line 2 "page.md"', "int a = 1;", "begin(1)", "print_error", "use(a);", "begin(2)",
                 "if (toroid_docs::wanted)", "b();", "if (toroid_docs::never())", "c();", 'registered_4("d"']  # fmt: skip
        places = [text.find(part) for part in order]
        self.assertEqual(places, sorted(places), text)
        self.assertNotIn(-1, places, text)
        self.assertIn("int run_program() { return 0; }", text)


if __name__ == "__main__":
    os.environ.pop("PYTHON", None)
    unittest.main()
