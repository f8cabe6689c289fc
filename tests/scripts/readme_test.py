"""bench/readme.py: rows of another day take the place of those of the same model on the same kind of device, and of no others."""
import os
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "bench"))
import readme  # noqa: E402


def page():
    with open(os.path.join(ROOT, "README.md")) as f:
        return f.read()


class Readme(unittest.TestCase):
    def test_rows_of_the_page_are_those_of_the_script(self):
        models = {(m, True) for m in readme.CPU.values()} | {(m, False) for m in readme.GPU.values()}
        table = page().partition(readme.HEADING)[2].partition("## ")[0]
        rows = [line for line in table.split("\n") if line.startswith("|")][2:]
        self.assertGreaterEqual(len(rows), 4)
        for line in rows:
            self.assertIn(readme.key(line), models)

    def test_a_row_takes_the_place_of_its_own(self):
        before = page()
        rows = [readme.row(m, "64 CPU cores", "2031-01-02", 1.5, 3.0, "ONNX Runtime") for m in readme.CPU.values()]
        rows += [readme.row(m, "B300", "2031-01-02", 0.5, 1.0, "PyTorch") for m in readme.GPU.values()]
        after = readme.replaced(before, rows)
        for row in rows:
            self.assertEqual(after.count(row), 1)
        self.assertNotIn("H200 (", after.partition(readme.HEADING)[2])
        self.assertEqual(after.partition("| model | Toroid |")[0], before.partition("| model | Toroid |")[0])
        self.assertEqual(after.partition("## License")[2], before.partition("## License")[2])
        self.assertEqual(readme.replaced(after, rows), after)

    def test_what_is_no_row_is_refused(self):
        with self.assertRaises(SystemExit):
            readme.replaced(page(), ["| MLP | 1 | 2 | 0.5 |"])


if __name__ == "__main__":
    unittest.main()
