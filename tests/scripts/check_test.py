#!/usr/bin/env python3
"""Plants each kind of fault in a small tree and sees scripts/check.py report it."""

import os
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "check.py")
LAYERS = """
base:
sym:
device:
tensor: device
sched: device/properties.h
nn: public
compile: *
front: *
header error.h base
header tensor.h tensor
"""
CLEAN = {
    "scripts/layers.txt": LAYERS,
    "include/toroid/error.h": "",
    "include/toroid/tensor.h": '#include "toroid/error.h"\n',
    "src/base/check.h": '#include "toroid/error.h"\n',
    "src/device/device.h": '#include "base/check.h"\n',
    "src/device/properties.h": "",
    "src/sched/sched.cpp": '#include "device/properties.h"\n',
    "src/tensor/tensor.cpp": '#include "toroid/tensor.h"\n\n#include <vector>\n\n#include "device/device.h"\n',
    "src/nn/nn.cpp": '#include "toroid/tensor.h"\n',
    "src/compile/compile.cpp": '#include "tensor/../device/device.h"\n#include "sched/../base/check.h"\n',
    "tests/tensor/tensor_test.cpp": '#include "device/device.h"\n',
}


class CheckTest(unittest.TestCase):
    def run_check(self, **planted):
        """Checks the clean tree with some files replaced (`__` stands for a slash); returns the exit status and the output."""
        with tempfile.TemporaryDirectory() as root:
            files = dict(CLEAN)
            files.update({name.replace("__", "/").replace("_dot_", "."): text for name, text in planted.items()})
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            result = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, check=False)
            return result.returncode, result.stdout + result.stderr

    def expect(self, message, **planted):
        status, output = self.run_check(**planted)
        self.assertEqual(status, 1, output)
        self.assertIn(message, output)

    def test_clean_tree(self):
        status, output = self.run_check()
        self.assertEqual((status, output), (0, "check: 10 files, 0 errors, 0 warnings\n"))

    def test_the_middle_floor_asks_downward(self):
        """What lowers, schedules and tunes knows devices by target/ alone: what implements it stands above them."""
        with open(os.path.join(os.path.dirname(CHECK), "layers.txt"), encoding="utf-8") as file:
            rows = [line.split("#")[0].split(":") for line in file if ":" in line.split("#")[0]]
        allowed = {name.strip(): words.split() for name, words in rows}
        for room in ("target", "lower", "sched", "tune"):
            self.assertFalse({"backend", "compile", "front", "cli", "*"} & set(allowed[room]), room)
        for room in ("target", "lower", "sched"):
            self.assertFalse({"codegen", "jit", "exec"} & set(allowed[room]), room)
        for room in ("lower", "sched", "tune", "backend"):
            self.assertIn("target", allowed[room], room)

    def test_options_of_the_process(self):
        for call in ("CompileOptions::of_process()", "process_key_number()", "list_options()", 'set_option("isa", "scalar")',
                     'ScopedOption off("cache", "0")'):
            name = [w for w in ("of_process", "process_key_number", "list_options", "set_option", "ScopedOption") if w in call][0]
            self.expect(f"error: src/tensor/tensor.cpp:2: {name}: options of the process are read at the doors of compiles alone",
                        **{"src__tensor__tensor_dot_cpp": f"\nauto x = {call};\n"})
            for door in ("src__base__options_dot_cpp", "src__front__settings_dot_cpp", "tests__tensor__tensor_test_dot_cpp"):
                status, output = self.run_check(**{door: f"auto x = {call};  // of_process\n"})
                self.assertEqual(status, 0, output)
        status, output = self.run_check(**{"src__tensor__tensor_dot_cpp": "// as of_process() says\nint a = get_option(options::kThreads);\n"})
        self.assertEqual(status, 0, output)

    def test_files_that_are_no_text(self):
        for name in ("tool-1_dot_whl", "docs__picture_dot_png", "src__base__a_dot_out"):
            self.expect(f"error: {name.replace('__', '/').replace('_dot_', '.')}: is no text, and lies outside of", **{name: "PK\0\1"})
        for name in ("tests__data__model_dot_pt2", "examples__digits__digits_dot_pt2", "build__core_dot_so", "_dot_git__index"):
            status, output = self.run_check(**{name: "PK\0\1"})
            self.assertEqual(status, 0, output)

    def test_forbidden_include(self):
        self.expect(
            "src/device/device.h:2: includes include/toroid/tensor.h: room 'device' may not include room 'tensor' (allowed: base, sym)",
            src__device__device_dot_h='\n#include "toroid/tensor.h"\n')

    def test_one_allowed_header_does_not_open_its_room(self):
        self.expect("room 'sched' may not include room 'device'", src__sched__sched_dot_cpp='#include "device/device.h"\n')

    def test_public_only_room(self):
        self.expect("may only include public headers", src__nn__nn_dot_cpp='#include "base/check.h"\n')

    def test_unknown_room_and_header(self):
        self.expect("src/attic/a.cpp: scripts/layers.txt names no room", src__attic__a_dot_cpp="")
        self.expect("include/toroid/odd.h: scripts/layers.txt names no room", include__toroid__odd_dot_h="")

    def test_table_that_looks_upwards(self):
        self.expect("room 'base' may only name rooms above it, not 'sym'", scripts__layers_dot_txt=LAYERS.replace("base:", "base: sym"))

    def test_cycle(self):
        self.expect(
            "include cycle: src/base/a.h -> src/base/b.h -> src/base/a.h",
            src__base__a_dot_h='#include "base/b.h"\n',
            src__base__b_dot_h='#include "b2.h"\n#include "a.h"\n')

    def test_sizes(self):
        self.expect("src/base/long.cpp: 801 lines, the limit is 800", src__base__long_dot_cpp="\n" * 801)
        self.expect("src/base/long.h: 401 lines, the limit is 400", src__base__long_dot_h="\n" * 401)
        status, output = self.run_check(src__base__long_dot_cpp="\n" * 601)
        self.assertEqual(status, 0)
        self.assertIn("warning: src/base/long.cpp: 601 lines", output)

    def test_path_of_one_machine(self):
        self.expect("docs/a.md:2: contains", docs__a_dot_md="\nsee /" + "work/main\n")
        self.expect("scripts/a.sh:1: contains", scripts__a_dot_sh="cd /" + "home/someone/x\n")
        self.assertEqual(self.run_check(docs__a_dot_md="a/" + "work/b and src/" + "root/x\n")[0], 0)


if __name__ == "__main__":
    unittest.main()
