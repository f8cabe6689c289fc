"""What torch.compile(backend="toroid") owes to eager PyTorch beyond numbers: the order of writes, memory that is shared, frozen weights.

Usage: torch_test.py. Needs PyTorch; scripts/python-suite.sh runs it.
"""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import operator
import pathlib
import runpy
import tempfile
import unittest
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
import torch._dynamo

import toroid.torch
from distance import distance
from torch._higher_order_ops import associative_scan, map as map_over, scan
from torch._higher_order_ops.effects import _EffectType, _register_effectful_op
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import embedding_bag
from toroid import _core
from toroid.torch import _backend, _partition
from toroid.torch._nodes import move_numbers, translate_attention
from toroid.torch._partition import Program, _culprit, op_name, refusal


def shared(tensors: list[torch.Tensor]) -> list[tuple[int, int]]:
    """For each tensor the first one with the same storage, and where in it the tensor begins."""
    storages = [t.untyped_storage().data_ptr() for t in tensors]
    return [(storages.index(s), t.storage_offset()) for s, t in zip(storages, tensors)]


class Case(unittest.TestCase):
    def setUp(self) -> None:
        torch._dynamo.reset()
        toroid.reset_explain()

    def all_by_toroid(self) -> None:
        self.assertEqual(toroid.explain().fallbacks, {})

    def same_as_eager(self, fn: Callable[..., Any], *arguments: torch.Tensor) -> None:
        """Results, and what the arguments hold afterwards, for equal seeds."""
        given = [[a.clone() for a in arguments] for _ in range(2)]
        outs = []
        for call, mine in zip((fn, torch.compile(fn, backend="toroid")), given):
            torch.manual_seed(0)
            outs.append(call(*mine))
        torch.testing.assert_close(outs[1], outs[0])
        torch.testing.assert_close(given[1], given[0])

    def strides_are_those_of_eager(self, fn: Callable[..., Any], *arguments: torch.Tensor) -> None:
        ours, theirs = torch.compile(fn, backend="toroid")(*arguments), fn(*arguments)
        torch.testing.assert_close(ours, theirs, check_stride=True)


class Writes(Case):
    def test_pytorch_reads_before_the_write(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            s = x.abs()
            r = torch.normal(x, s)
            x.add_(1)
            return r

        self.same_as_eager(fn, torch.arange(6.0))

    def test_pytorch_writes_after_the_read(self) -> None:
        def fn(w: torch.Tensor, noise: torch.Tensor) -> None:
            d = noise * 0.1
            w.add_(d)
            noise.normal_()

        self.same_as_eager(fn, torch.arange(6.0), torch.ones(6))

    def test_two_programs_of_one_buffer(self) -> None:
        def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = torch.normal(x * 2, 1.0) + x
            x.mul_(y)
            return y, torch.normal(y, x.abs()) + x

        self.same_as_eager(fn, torch.arange(6.0))

    def test_a_graph_of_toroid_alone_writes_itself(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            y = x.exp()
            x.add_(1)
            return y.view(2, 3)

        self.same_as_eager(fn, torch.arange(6.0))
        self.assertFalse(toroid.explain().fallbacks)

    def test_what_is_written_is_returned(self) -> None:
        def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = x.mul_(2).add_(1)
            return y, y * 3

        self.same_as_eager(fn, torch.arange(6.0))
        self.all_by_toroid()
        x = torch.arange(6.0)
        y, _ = torch.compile(fn, backend="toroid")(x)
        self.assertEqual(y.data_ptr(), x.data_ptr())


class RandomNumbers(Case):
    def test_are_drawn_in_the_order_of_the_program(self) -> None:
        def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            a = torch.normal(x * 2, 1.0)
            b = torch.rand(6)
            return a, b, x * 3, b * x

        self.same_as_eager(fn, torch.arange(6.0))

    def test_are_drawn_again_where_a_pass_is_recomputed(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            return torch.utils.checkpoint.checkpoint(lambda t: torch.nn.functional.dropout(t.exp(), 0.5).sin(), x, use_reentrant=False)

        gradients = []
        for call in (fn, torch.compile(fn, backend="toroid")):
            x = torch.arange(20.0).div(10).requires_grad_()
            torch.manual_seed(0)
            call(x).sum().backward()
            gradients.append(x.grad)
        torch.testing.assert_close(gradients[1], gradients[0])


class Memory(Case):
    def test_strides_are_those_of_eager_memory(self) -> None:
        def gaps(x: torch.Tensor) -> torch.Tensor:
            return torch.as_strided((x * 2)[:, ::2], (4,), (1,), 0) + 1

        def later(x: torch.Tensor) -> torch.Tensor:
            return torch.as_strided((x * 2)[1:], (4,), (1,), 0) + 1

        def beyond(x: torch.Tensor) -> torch.Tensor:
            return torch.as_strided((x * 2)[:1], (8,), (1,)) + 1

        def scattered(x: torch.Tensor) -> torch.Tensor:
            return torch.as_strided_scatter((x * 2).t(), x[0] + 7, (4,), (1,), 0) + 1

        for fn in (gaps, later, beyond, scattered):
            with self.subTest(fn.__name__):
                self.same_as_eager(fn, torch.arange(8.0).reshape(2, 4))

    def test_strides_of_an_argument_begin_at_its_storage(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            return torch.as_strided(x, (2,), (1,), 0) + 1

        base = torch.arange(8.0)
        compiled = torch.compile(fn, backend="toroid", dynamic=False)
        for x in (base[:4], base[4:]):
            torch.testing.assert_close(compiled(x), fn(x))
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(fn, backend="toroid")(base[4:]), fn(base[4:]))

    def test_results_share_memory_as_in_eager_mode(self) -> None:
        def with_base(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = x + 1
            return y, y.view(-1)

        def read_inside(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = x + 1
            v = y.view(-1)
            return v, v[2:6], v.sum(), y.t().exp()

        def pieces(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = x + 1
            a, b = y.split(1)
            return a, b, b * 2, y

        def of_an_argument(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x.view(-1), x.view(-1) + 1

        for fn in (with_base, read_inside, pieces, of_an_argument):
            with self.subTest(fn.__name__):
                toroid.reset_explain()
                self.same_as_eager(fn, torch.arange(8.0).reshape(2, 4))
                x = torch.arange(8.0).reshape(2, 4)
                ours, theirs = torch.compile(fn, backend="toroid")(x), fn(x)
                self.assertEqual(shared([x, *ours]), shared([x, *theirs]))
                self.assertEqual([g.programs for g in toroid.explain().graphs], [1])

    def test_what_pytorch_runs_is_given_memory_as_it_lies(self) -> None:
        def gaps(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = x * 2
            return strides_of(y[:, ::2]), strides_of(x[:, 1:]), y[:, ::2].exp()

        def pieces(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            a, b = (x + 1).split(4, 1)
            return strides_of(a), strides_of(b.t()), a * b

        def overlaps(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return strides_of(x.sum(0).expand(3, -1)), strides_of((x * 2).unfold(0, 2, 1))

        for fn in (gaps, pieces, overlaps):
            with self.subTest(fn.__name__):
                torch._dynamo.reset()
                self.same_as_eager(fn, torch.arange(32.0).reshape(4, 8))

    def test_results_of_pytorch_have_the_strides_of_eager_mode(self) -> None:
        x = torch.arange(48.0).reshape(8, 6)
        self.strides_are_those_of_eager(lambda x: torch.diagonal_scatter(x[:, :3], torch.ones(3)), x)

    def test_memory_that_is_not_written_is_filled(self) -> None:
        def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return torch.empty(3), torch.empty_like(x), x.new_empty(2, dtype=torch.int64), x + 1

        torch.use_deterministic_algorithms(True)
        try:
            ours, theirs = torch.compile(fn, backend="toroid")(torch.ones(4)), fn(torch.ones(4))
        finally:
            torch.use_deterministic_algorithms(False)
        torch.testing.assert_close(ours, theirs, equal_nan=True)

    def test_a_program_takes_what_another_expands(self) -> None:
        def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            y = (x + 1).sum(0).expand(3, -1)
            between = strides_of(y.exp()).sum()  # two programs, as what follows wants it
            return y @ (x.t() + between), y.sin() * between

        self.same_as_eager(fn, torch.arange(8.0).reshape(2, 4) / 8)

    def test_dimensions_of_one_element_have_strides_of_eager(self) -> None:
        self.strides_are_those_of_eager(lambda x, y: x + y, torch.randn(1, 4, 4, 4).permute(0, 2, 3, 1), torch.randn(4, 4, 4).permute(1, 2, 0))
        self.strides_are_those_of_eager(torch.relu, torch.randn(5, 1, 3).permute(2, 1, 0))

    def test_gaps_that_pytorch_reads_are_there(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            out = torch.empty_strided(x.size(), x.stride())
            out[:] = x + x
            return out

        self.strides_are_those_of_eager(fn, torch.randn(16, 16)[:, :8])

    def test_resize_takes_elements_in_the_order_of_memory(self) -> None:
        def fn(x: torch.Tensor, format: torch.memory_format) -> torch.Tensor:
            return torch.ops.aten.resize(x, (1, 3, 2, 3), memory_format=format)

        for x in (torch.randn(100), torch.randn(25, 4).t(), torch.randn(1, 3, 2, 3)):
            for format in (torch.contiguous_format, torch.channels_last):
                torch._dynamo.reset()
                ours, theirs = torch.compile(fn, backend="toroid")(x.clone(), format), fn(x.clone(), format)
                torch.testing.assert_close(ours, theirs, check_stride=True)


class Freezing(Case):
    def setUp(self) -> None:
        super().setUp()
        self.model = torch.nn.Linear(8, 8)
        self.compiled = torch.compile(self.model, backend="toroid", options={"freezing": True})
        self.x = torch.randn(3, 8)
        self.check()
        self.assertIn("2 weights frozen", toroid.explain().graphs[0].name)

    @torch.no_grad()
    def check(self) -> None:
        torch.testing.assert_close(self.compiled(self.x), self.model(self.x))

    @torch.no_grad()
    def test_notices_a_write(self) -> None:
        self.model.weight.mul_(2)
        self.check()

    def test_notices_another_parameter(self) -> None:
        self.model.weight = torch.nn.Parameter(torch.randn(8, 8))
        self.check()

    def test_notices_other_data(self) -> None:
        for _ in range(3):
            self.model.weight.data = torch.randn(8, 8)
            self.check()

    def test_leaves_weights_without_versions_alone(self) -> None:
        torch._dynamo.reset()
        with torch.inference_mode():
            model = torch.nn.Linear(8, 8)
            compiled = torch.compile(model, backend="toroid", options={"freezing": True})
            for _ in range(2):
                torch.testing.assert_close(compiled(self.x), model(self.x))
                model.weight.mul_(2)



class Graphs(Case):
    """Graphs that run as a whole in programs of Toroid."""

    def test_parts_of_tensors_of_open_sizes(self) -> None:
        forward = torch.compile(lambda x: x * 2 + 1, backend="toroid", dynamic=True)
        for rows, columns, width in ((5, 40, 8), (6, 31, 7), (9, 12, 5)):
            x = torch.randn(rows, columns)[1:, :width]
            torch.testing.assert_close(forward(x), x * 2 + 1)
        self.assertFalse(toroid.explain().fallbacks)

    def test_networks_of_convolutions_train(self) -> None:
        torch.manual_seed(0)
        layers = [torch.nn.Conv2d(3, 8, 3, padding=1, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.AvgPool2d(2),
                  torch.nn.ConvTranspose2d(8, 4, 2, stride=2), torch.nn.AdaptiveAvgPool2d(3), torch.nn.AdaptiveMaxPool2d(2)]  # fmt: skip
        eager = torch.nn.Sequential(*layers)
        ours = copy.deepcopy(eager)
        compiled = torch.compile(ours, backend="toroid")
        x = torch.randn(4, 3, 10, 10)
        for model, forward in ((eager, eager), (ours, compiled)):
            forward(x).square().sum().backward()
        for (name, a), b in zip(ours.named_parameters(), eager.parameters()):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4, msg=name)
        self.assertFalse(toroid.explain().fallbacks)

    def test_distances_to_itself(self) -> None:
        x = torch.randn(5, 3)
        a, b = (x.clone().requires_grad_() for _ in range(2))
        torch.compile(lambda t: torch.cdist(t, t), backend="toroid")(a).square().sum().backward()
        torch.cdist(b, b).square().sum().backward()
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-4)
        self.assertFalse(toroid.explain().fallbacks)

    def test_norms_of_halves(self) -> None:
        x = torch.randn(4, 3, 5, 5).bfloat16()
        ours, theirs = torch.nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3)
        torch.testing.assert_close(torch.compile(ours, backend="toroid")(x), theirs(x), rtol=1e-2, atol=1e-2)
        for a, b in zip(ours.state_dict().values(), theirs.state_dict().values()):
            torch.testing.assert_close(a, b)
        self.assertFalse(toroid.explain().fallbacks)

    def test_running_statistics_of_halves(self) -> None:
        def step(x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.batch_norm(x, mean, variance, training=True)

        kinds = (torch.float32, torch.float32), (torch.float32, torch.bfloat16), (torch.bfloat16, torch.bfloat16)
        for running, dtype in kinds:  # PyTorch refuses halves beside floats that are normalized
            torch._dynamo.reset()
            toroid.reset_explain()
            x = torch.linspace(-2, 3, 96).reshape(2, 3, 4, 4).to(dtype)
            given = [[torch.ones(3, dtype=running), torch.full((3,), 2.0, dtype=running)] for _ in range(2)]
            compiled = torch.compile(step, backend="toroid")
            with self.subTest(running=running, dtype=dtype):
                torch.testing.assert_close(compiled(x, *given[1]), step(x, *given[0]))
                torch.testing.assert_close(given[1], given[0])
                self.assertFalse(toroid.explain().fallbacks)


class Errors(Case):
    def test_a_pytorch_that_shares_no_memory_of_gpus_is_told(self) -> None:
        share = _backend._share_gpu_memory.__wrapped__
        for found in (OSError("no such file"), [object()]):  # no library; one without the functions
            with mock.patch("ctypes.CDLL", side_effect=found), mock.patch.object(_core, "set_segment_allocator") as taken:
                with self.assertWarnsRegex(RuntimeWarning, "memory of its own on GPUs"):
                    share()
            taken.assert_not_called()

    def test_internal_ones_are_told(self) -> None:
        broken = mock.Mock(side_effect=_core.InternalError("node \"neg\": the house is on fire"))
        with mock.patch.object(_core, "Program", broken), self.assertWarnsRegex(RuntimeWarning, "the house is on fire"):
            torch.testing.assert_close(torch.compile(torch.neg, backend="toroid")(torch.ones(3)), -torch.ones(3))
        self.assertEqual(toroid.explain().fallbacks, {"aten.neg.default": 1})

    def test_options_that_there_are_not(self) -> None:
        for options, message in (
            ({"treads": 2}, 'no option "treads"; did you mean "threads"'),
            ({"max_threads": "much"}, "max_threads"),
            ({"fusion": "some"}, 'fusion is "some"; expected one of'),
        ):
            torch._dynamo.reset()
            with self.assertRaisesRegex(Exception, message):
                torch.compile(torch.neg, backend="toroid", options=options)(torch.ones(3))
        with self.assertRaisesRegex(Exception, 'mode is "fast"; expected one of'):
            torch.compile(torch.neg, backend="toroid", mode="fast")(torch.ones(3))
        self.assertEqual(toroid.explain().graphs, [])

    def test_what_pytorch_has_for_floats_alone(self) -> None:
        for fn in (lambda x: torch.nn.functional.adaptive_avg_pool2d(x, 5), lambda x: torch.nn.functional.adaptive_max_pool2d(x, 5)):
            with self.assertRaisesRegex(RuntimeError, "not implemented"):
                torch.compile(fn, backend="toroid")(torch.arange(64).view(1, 1, 8, 8))


class Packages(unittest.TestCase):
    """From a module in memory to a package."""

    def test_of_exported_programs(self) -> None:
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(64, 3)).eval()
        x = torch.randn(5, 2, 6, 6)
        open_batch = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("batch", max=64)},))
        head = torch.export.export(net[3].eval(), (torch.randn(2, 64),))
        with tempfile.TemporaryDirectory() as folder:
            package = toroid.aot_compile(open_batch, f"{folder}/a.tpk", targets=["x86-64-v3", "x86-64"], options={"check_indices": False})
            self.assertEqual(package.entries, ["main"])
            self.assertRegex(repr(package), r"Package\(entries=\[main\]\)")
            for batch in (5, 1, 9):
                given = torch.randn(batch, 2, 6, 6)
                (got,) = package.session().run(given)
                torch.testing.assert_close(got, net(given), rtol=1e-4, atol=1e-5)
            both = toroid.aot_compile({"net": open_batch, "head": head}, pathlib.Path(folder) / "b.tpk", mode="reduce-overhead")
            self.assertEqual(sorted(both.entries), ["head", "net"])
            given = torch.randn(2, 64)
            torch.testing.assert_close(both.session("head").run(given)[0], net[3](given), rtol=1e-4, atol=1e-5)
            with self.assertRaisesRegex(toroid.UserError, "treads"):
                toroid.aot_compile(head, f"{folder}/c.tpk", options={"treads": 2})

    def test_of_what_is_no_file(self) -> None:
        net = torch.nn.Linear(2, 2)
        program = torch.export.export(net, (torch.ones(1, 2),))
        for call, text in (
            (lambda: toroid.compile_package(net, "x.tpk"), r"not a Linear; for a module of PyTorch: toroid.aot_compile\(torch.export.export"),
            (lambda: toroid.compile_package({"a": program}, "x.tpk"), r"not an ExportedProgram; for an exported program: toroid.aot_compile"),
            (lambda: toroid.aot_compile(net, "x.tpk"), r"takes what torch.export.export\(module, arguments\) gives, not a Linear"),
            (lambda: toroid.load(net), r"load takes the path .* not a Linear.* backend=\"toroid\""),
        ):
            with self.assertRaisesRegex(toroid.UserError, text):
                call()


class Halves(Case):
    def test_products_in_f32(self) -> None:
        """ATen's bmm.dtype and mm.dtype, which PyTorch has for GPUs alone, of graphs and of exported programs."""

        class Products(torch.nn.Module):
            def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
                wide = torch.bmm(a, b, out_dtype=torch.float32)
                return wide, torch.mm(a[0], b[0], out_dtype=torch.float32), torch.mm(a[0], b[0], out_dtype=a.dtype)

        for dtype in (torch.bfloat16, torch.float16):
            a, b = torch.randn(4, 33, 64).to(dtype), torch.randn(4, 64, 65).to(dtype)
            exact = a.double() @ b.double()
            torch._dynamo.reset()
            with tempfile.TemporaryDirectory() as folder:
                torch.export.save(torch.export.export(Products(), (a, b)), f"{folder}/products.pt2")
                exported = [torch.from_dlpack(t) for t in toroid.load(f"{folder}/products.pt2").run(a, b)]
            for found in (torch.compile(Products(), backend="toroid")(a, b), exported):
                self.assertEqual([t.dtype for t in found], [torch.float32, torch.float32, dtype])
                self.assertLess(distance(found[0], exact), 1e-6)
                self.assertLess(distance(found[1], exact[0]), 1e-6)
                self.assertLess(distance(found[2], exact[0]), torch.finfo(dtype).eps)
        self.all_by_toroid()

    def test_attention_is_as_near_as_pytorchs(self) -> None:
        """Results, logarithms of sums and gradients: their distance to f64's is at most twice that of PyTorch's kernel."""
        forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
        # The partition leaves such attention to PyTorch, whose kernel takes no more time.
        with mock.patch.object(_partition, "_HALVES", set()):
            for dtype, kind in itertools.product((torch.bfloat16, torch.float16), ("plain", "masked", "causal")):
                torch.manual_seed(0)
                torch._dynamo.reset()
                q, k, v, gradient = (torch.randn(2, 4, 65, 64).to(dtype) for _ in range(4))
                q *= 8
                mask = torch.randn(2, 1, 65, 65).to(dtype) if kind == "masked" else None
                causal = kind == "causal"

                def attend(*given: torch.Tensor) -> list[torch.Tensor]:
                    q, k, v, gradient = given
                    m = mask if mask is None else mask.to(q.dtype)  # noqa: B023
                    out = forward(q, k, v, 0.0, causal, attn_mask=m)  # noqa: B023
                    return [*out, *backward(gradient, q, k, v, *out, 0.0, causal, attn_mask=m)]  # noqa: B023

                exact = attend(*(t.double() for t in (q, k, v, gradient)))
                ours, theirs = torch.compile(attend, backend="toroid")(q, k, v, gradient), attend(q, k, v, gradient)
                for found, pytorchs, want in zip(ours, theirs, exact):
                    bound = 2 * distance(pytorchs, want) + torch.finfo(found.dtype).eps
                    self.assertLessEqual(distance(found, want), bound, (dtype, kind))
        self.all_by_toroid()


@unittest.skipUnless(torch.cuda.is_available() and _core.cuda_device_count(), "needs a GPU")
class Gpu(Case):
    """Programs of graphs whose tensors are on a GPU, beside PyTorch's own work on its streams."""

    def setUp(self) -> None:
        super().setUp()
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = False

    def test_results_are_where_the_arguments_are(self) -> None:
        def fn(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = torch.nn.functional.gelu(x @ w + b)
            return y.softmax(-1), y.transpose(0, 1)

        arguments = [torch.randn(*s, device="cuda") for s in ((33, 64), (64, 128), (128,))]
        for mode in ("default", "reduce-overhead", "max-autotune"):
            compiled = torch.compile(fn, backend="toroid", options={"mode": mode})
            for _ in range(4):
                out = compiled(*arguments)
                torch.testing.assert_close(out, fn(*arguments), rtol=1e-4, atol=1e-5)
                self.assertEqual([t.device.type for t in out], ["cuda", "cuda"])
            torch._dynamo.reset()
        self.all_by_toroid()

    def test_work_of_streams_is_in_order(self) -> None:
        """No synchronisation anywhere: what PyTorch starts before a call, and after it, is long enough to be overtaken."""
        slow = torch.randn(4096, 4096, device="cuda") / 64
        fn = torch.compile(lambda x: (x * 2 + 1).relu(), backend="toroid")
        fn(slow)
        for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
            with torch.cuda.stream(stream):
                found, wanted = [], []
                for k in range(20):
                    x = slow + k
                    for _ in range(4):
                        x = x @ slow
                    wanted.append((x * 2 + 1).relu().sum(dtype=torch.float64))
                    y = fn(x)
                    del x  # its memory is PyTorch's again, before the program has read it
                    found.append((y @ slow).sum(dtype=torch.float64) * 0 + y.sum(dtype=torch.float64))
                    del y  # and that of the result Toroid's
                torch.testing.assert_close(torch.stack(found), torch.stack(wanted))

    def test_memory_is_that_of_pytorch(self) -> None:
        """It is counted by PyTorch's statistics, and what PyTorch keeps unused is given back where Toroid needs it."""
        torch.cuda.empty_cache()
        total = torch.cuda.mem_get_info()[1]
        fn = torch.compile(lambda x: x + 1.0, backend="toroid", dynamic=False)
        before = torch.cuda.memory_allocated()
        x = torch.zeros(total // 32, dtype=torch.uint8, device="cuda").view(torch.float32)
        y = fn(x)
        self.assertGreaterEqual(torch.cuda.memory_allocated() - before, x.nbytes + y.nbytes)
        del x, y
        torch.empty(total // 2, dtype=torch.uint8, device="cuda")  # PyTorch keeps it
        x = torch.zeros(total // 4, dtype=torch.uint8, device="cuda").view(torch.float32)
        self.assertEqual(fn(x)[:: 1 << 20].unique().tolist(), [1.0])
        torch.cuda.empty_cache()

    def test_training(self) -> None:
        def network() -> torch.nn.Module:
            torch.manual_seed(1)
            layers = (torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                      torch.nn.Flatten(), torch.nn.Linear(8 * 8 * 8, 10))  # fmt: skip
            return torch.nn.Sequential(*layers).cuda()

        x, labels = torch.randn(4, 3, 16, 16, device="cuda"), torch.tensor([1, 2, 3, 4], device="cuda")
        eager, ours = network(), network()
        compiled = torch.compile(ours, backend="toroid")
        for step in range(4):
            for model, forward in ((eager, eager), (ours, compiled)):
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                torch.nn.functional.cross_entropy(forward(x), labels).backward()
                optimizer.step()
                optimizer.zero_grad()
            for a, b in zip(ours.state_dict().values(), eager.state_dict().values()):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, msg=f"step {step}")

    def test_attention(self) -> None:
        q, k, v = (torch.randn(2, 4, 65, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        mask = torch.rand(2, 1, 65, 65, device="cuda") > 0.3
        sdpa = torch.nn.functional.scaled_dot_product_attention
        for extra in ({}, {"is_causal": True}, {"attn_mask": mask}, {"scale": 0.5}):
            found = torch.compile(lambda *a: sdpa(*a, **extra), backend="toroid")(q, k, v)  # noqa: B023
            torch.testing.assert_close(found, sdpa(q, k, v, **extra), rtol=2e-2, atol=2e-2)
        self.all_by_toroid()

    def test_attention_has_gradients(self) -> None:
        """As near to those of f64 as PyTorch's: flash attention's or cuDNN's of 16 bits, the efficient one's of f32 and with masks."""
        sdpa = torch.nn.functional.scaled_dot_product_attention
        mask = torch.randn(2, 1, 65, 65, device="cuda")
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            for extra in ({}, {"is_causal": True}, {"scale": 0.5}, {"attn_mask": mask.to(dtype)}):
                leaves = [torch.randn(2, 4, 65, 64, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)]
                gradient = torch.randn(2, 4, 65, 64, device="cuda", dtype=dtype)
                fn = lambda q, k, v: sdpa(q * 2, k, v, **extra)  # noqa: B023, E731
                found = torch.autograd.grad(torch.compile(fn, backend="toroid")(*leaves), leaves, gradient)
                with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):
                    pytorchs = torch.autograd.grad(fn(*leaves), leaves, gradient)
                wide = [t.detach().double().requires_grad_() for t in leaves]
                masks = {k: v.double() if isinstance(v, torch.Tensor) else v for k, v in extra.items()}
                exact = torch.autograd.grad(sdpa(wide[0] * 2, *wide[1:], **masks), wide, gradient.double())
                for ours, theirs, want in zip(found, pytorchs, exact):
                    bound = 2 * (theirs - want).abs().max() + torch.finfo(dtype).eps
                    self.assertLessEqual((ours - want).abs().max(), bound, (dtype, extra.keys()))
                torch._dynamo.reset()
        self.all_by_toroid()

    def test_a_transformer_trains(self) -> None:
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True, norm_first=True)
        eager = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda()
        ours = copy.deepcopy(eager)
        compiled = torch.compile(ours, backend="toroid")
        x = torch.randn(4, 48, 128, device="cuda")
        for step in range(3):
            for model, run in ((eager, eager), (ours, compiled)):
                optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
                optimizer.zero_grad()
                run(x).square().mean().backward()
                optimizer.step()
            for a, b in zip(ours.parameters(), eager.parameters()):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, msg=lambda m: f"step {step}: {m}")  # noqa: B023
        self.all_by_toroid()

    def test_open_sizes(self) -> None:
        fn = torch.compile(lambda x, n: (x.sum(0) + n).view(1, -1).expand(3, -1) * 2, backend="toroid", dynamic=True)
        for rows in (2, 5, 9):
            x = torch.randn(rows, 7, device="cuda")
            torch.testing.assert_close(fn(x, rows), (x.sum(0) + rows).view(1, -1).expand(3, -1) * 2)

    def test_what_is_on_the_host_is_pytorchs(self) -> None:
        def fn(x: torch.Tensor, factor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return (x.exp() * factor + torch.tensor(2.0)).sum(), factor.neg()

        x, factor = torch.randn(100, device="cuda"), torch.tensor(3.0)
        torch.testing.assert_close(torch.compile(fn, backend="toroid")(x, factor), fn(x, factor))
        self.assertIn("where the graph's are on cuda:0", str(toroid.explain()))
        self.assertLessEqual(set(toroid.explain().fallbacks), {"aten._to_copy.default", "aten.neg.default", "aten.lift_fresh_copy.default"})

    def test_frozen_weights(self) -> None:
        model = torch.nn.Linear(64, 64).cuda()
        x = torch.randn(8, 64, device="cuda")
        with torch.no_grad():
            compiled = torch.compile(model, backend="toroid", options={"freezing": True})
            for _ in range(3):
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
                model.weight.mul_(2)

    def test_frozen_statistics(self) -> None:
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).cuda().eval()
        x = torch.randn(2, 3, 9, 9, device="cuda")
        for dtype in (torch.float32, torch.float16):
            model, x = model.to(dtype), x.to(dtype)
            with torch.no_grad():
                for options in ({"freezing": True}, {}):
                    torch._dynamo.reset()
                    found = torch.compile(model, backend="toroid", options=options)(x)
                    torch.testing.assert_close(found, model(x), rtol=1e-2, atol=1e-2)

    def test_dlpack(self) -> None:
        x = torch.randn(5, 3, device="cuda")
        t = toroid.tensor(x)
        self.assertEqual((t.device, t.__dlpack_device__()), ("cuda:0", (2, 0)))
        back = torch.from_dlpack(t)
        self.assertEqual(back.data_ptr(), x.data_ptr())
        with self.assertRaisesRegex(toroid.UserError, "NumPy's arrays are on the CPU"):
            t.numpy()


class Distance(unittest.TestCase):
    def test_nan_and_infinity_are_where_they_are_expected(self) -> None:
        nan, inf = float("nan"), float("inf")
        for ours, expected, far in (
            ([1.0, nan], [1.0, nan], 0), ([1.0, nan], [1.0, 2.0], inf), ([1.0, 2.0], [1.0, nan], inf), ([inf, 1.0], [inf, 2.0], 0.5),
            ([inf], [-inf], inf), ([inf], [1.0], inf), ([], [], 0), ([3.0], [4.0], 0.25), ([1.0], [1.0, 1.0], inf),
        ):  # fmt: skip
            self.assertEqual(distance(torch.tensor(ours), torch.tensor(expected)), far, (ours, expected))
        self.assertEqual(distance(torch.tensor([1, 2]), torch.tensor([1, 3])), 1)


class AttentionKernels(unittest.TestCase):
    """PyTorch's choices of kernels become the operation that they compute, where its result alone is read."""

    def rewritten(self, target: Any, read: int, kv_heads: int, **arguments: Any) -> list[torch.fx.Node]:
        graph = torch.fx.Graph()
        heads = (4, kv_heads, kv_heads)
        given = [graph.placeholder(name) for name in "qkv"]
        for node, h in zip(given, heads):
            node.meta["val"] = torch.empty(2, h, 16, 64, device="meta")
        names = [a.name for a in target._schema.arguments]
        rest = {k: v for k, v in {"attn_bias": None, "compute_log_sumexp": False, **arguments}.items() if k in names}
        attention = graph.call_function(target, tuple(given), rest)
        attention.meta["val"] = (given[0].meta["val"], torch.empty(2, 4, 16, device="meta"))
        graph.output([graph.call_function(operator.getitem, (attention, read)) for _ in range(2)])
        module = torch.fx.GraphModule({}, graph)
        translate_attention(module)
        module.graph.lint()
        return module.graph.find_nodes(op="call_function", target=torch.ops.aten.scaled_dot_product_attention.default)

    def test_rewritten(self) -> None:
        aten = torch.ops.aten
        for target in (aten._scaled_dot_product_flash_attention, aten._scaled_dot_product_efficient_attention,
                       aten._scaled_dot_product_cudnn_attention):  # fmt: skip
            for kv_heads in (4, 2):
                (node,) = self.rewritten(target.default, 0, kv_heads, is_causal=True, scale=0.5)
                self.assertEqual((node.args[4], node.args[5]), (0.0, True))
                self.assertEqual(node.kwargs, {"scale": 0.5, "enable_gqa": kv_heads == 2})
            self.assertEqual(self.rewritten(target.default, 1, 4), [], "its logarithms are read")
            self.assertEqual(self.rewritten(target.default, 0, 4, dropout_p=0.1), [], "it draws numbers")

    def test_pairs_for_gradients(self) -> None:
        """On tensors without memory: what is read of a pass with logarithms has the sizes that PyTorch gave it, and the operations of the
        CPU give the numbers of the definition."""
        aten = torch.ops.aten
        for forward, backward, rows, kept, mask in (
            (aten._scaled_dot_product_flash_attention, aten._scaled_dot_product_flash_attention_backward, 16, 6, None),
            (aten._scaled_dot_product_efficient_attention, aten._scaled_dot_product_efficient_attention_backward, 50, 2, (2, 1, 50, 50)),
        ):
            graph = torch.fx.Graph()

            def given(name: str, *sizes: int, dtype: torch.dtype = torch.float32) -> torch.fx.Node:
                node = graph.placeholder(name)  # noqa: B023
                node.meta["val"] = torch.empty(*sizes, device="meta", dtype=dtype)
                return node

            q, k, v, gradient = (given(name, 2, 4, rows, 64) for name in ("q", "k", "v", "g"))
            masks = {"attn_bias": given("mask", *mask)} if mask else {}
            logarithms = 64 if mask else 16
            attention = graph.call_function(forward.default, (q, k, v), {**masks, **({"compute_log_sumexp": True} if mask else {})})
            seed = torch.empty(2, dtype=torch.uint64, device="meta")
            values = [torch.empty(2, 4, rows, 64, device="meta"), torch.empty(2, 4, logarithms, device="meta"), *[None] * 4, seed, seed]
            if mask:
                values[2:] = [seed, seed]
            attention.meta["val"] = tuple(values)
            out, sums, drawn = pieces = [graph.call_function(operator.getitem, (attention, i)) for i in (0, 1, kept)]
            for piece, i in zip(pieces, (0, 1, kept)):
                piece.meta["val"] = values[i]
            middle = {} if mask else {"cum_seq_q": None, "cum_seq_k": None, "max_q": rows, "max_k": rows}
            back = graph.call_function(
                backward.default,
                (gradient,),
                {"query": q, "key": k, "value": v, "out": out, "logsumexp": sums, **masks, **middle, "dropout_p": 0.0, "is_causal": False,
                 "philox_seed": drawn, "philox_offset": drawn, **({"grad_input_mask": [True, True, True, False]} if mask else {})},
            )  # fmt: skip
            back.meta["val"] = tuple(torch.empty(2, 4, rows, 64, device="meta") for _ in range(3))
            gradients = [graph.call_function(operator.getitem, (back, i)) for i in range(3)]
            graph.output((out, sums, drawn, *gradients))
            module = torch.fx.GraphModule({}, graph)
            translate_attention(module)
            module.graph.eliminate_dead_code()
            module.graph.lint()
            targets = {n.target for n in module.graph.nodes if n.op == "call_function"}
            self.assertFalse(targets & {forward.default, backward.default})
            module.recompile()
            torch.manual_seed(0)
            tensors = [torch.randn(2, 4, rows, 64, requires_grad=i < 3) for i in range(4)]
            bias = [torch.randn(mask)] if mask else []
            found = module(*(t.detach() for t in tensors), *bias)
            self.assertEqual([list(found[1].shape), list(found[2].shape), found[2].dtype], [[2, 4, logarithms], [2], torch.uint64])
            self.assertTrue((found[1][:, :, rows:] == float("inf")).all(), "weights of rows that are not there are 0")
            expected = torch.nn.functional.scaled_dot_product_attention(*tensors[:3], attn_mask=bias[0] if bias else None)
            expected.backward(tensors[3])
            torch.testing.assert_close(found[0], expected.detach())
            for a, b in zip(found[3:], tensors[:3]):
                torch.testing.assert_close(a, b.grad, rtol=1e-4, atol=1e-5)

    def test_gradients_of_masks_stay(self) -> None:
        graph = torch.fx.Graph()
        given = [graph.placeholder(f"a{i}") for i in range(9)]
        for node in given:
            node.meta["val"] = torch.empty(2, 4, 32, 64, device="meta")
        backward = torch.ops.aten._scaled_dot_product_efficient_attention_backward.default
        back = graph.call_function(backward, (*given, 0.0, [True, True, True, True]))
        graph.output(graph.call_function(operator.getitem, (back, 3)))
        module = torch.fx.GraphModule({}, graph)
        translate_attention(module)
        self.assertEqual(len(module.graph.find_nodes(op="call_function", target=backward)), 1)

    def test_numbers_of_the_host_are_moved_once(self) -> None:
        graph = torch.fx.Graph()
        x, number, row = (graph.placeholder(name) for name in ("x", "number", "row"))
        x.meta["val"] = torch.empty(3, device="meta")
        number.meta["val"], row.meta["val"] = torch.empty(()), torch.empty(3)
        first = graph.call_function(torch.ops.aten.mul.Tensor, (x, number))
        second = graph.call_function(torch.ops.aten.add.Tensor, (first, number))
        third = graph.call_function(torch.ops.aten.add.Tensor, (number, row))
        first.meta["val"] = second.meta["val"] = x.meta["val"]
        third.meta["val"] = row.meta["val"]
        graph.output((second, third))
        module = torch.fx.GraphModule({}, graph)
        move_numbers(module, torch.device("meta"))
        module.graph.lint()
        (copy,) = module.graph.find_nodes(op="call_function", target=torch.ops.aten._to_copy.default)
        self.assertEqual((copy.args[0], first.args[1], second.args[1], third.args[0]), (number, copy, copy, number))

    def test_constant_numbers_of_the_host_are_moved_before_any_call(self) -> None:
        graph = torch.fx.Graph()
        x, constant = graph.placeholder("x"), graph.get_attr("number")
        lifted = graph.call_function(torch.ops.aten.lift_fresh_copy.default, (constant,))
        out = graph.call_function(torch.ops.aten.mul.Tensor, (x, lifted))
        x.meta["val"] = out.meta["val"] = torch.empty(3, device="meta")
        constant.meta["val"] = lifted.meta["val"] = torch.empty(())
        graph.output(out)
        module = torch.fx.GraphModule({"number": torch.tensor(2.0)}, graph)
        move_numbers(module, torch.device("meta"))
        module.graph.lint()
        self.assertEqual([n.target for n in module.graph.nodes if n.op == "call_function"], [torch.ops.aten.mul.Tensor])
        self.assertEqual(getattr(module, out.args[1].target).device.type, "meta")


class ControlFlow(Case):
    """Branches, loops and scans within programs of Toroid."""

    def setUp(self) -> None:
        super().setUp()  # PyTorch's scans mark what they close over as dynamic, for good: each test has a weight of its own
        self.weight = torch.randn(4, 4, generator=torch.Generator().manual_seed(2))

    def check(self, fn: Callable[..., Any], *, by_pytorch: Sequence[str] = (), gradients: bool = True, sizes: Sequence[int] = (4,)) -> None:
        """`fn` takes a matrix of 4 columns, and a number that decides; both ways are tried, closed and open sizes, and gradients."""
        ways = [(graded, way, rows) for graded in ((False, True) if gradients else (False,)) for way in (1.0, -1.0) for rows in sizes]
        expected = {way: self.run_one(fn, *way) for way in ways}
        for dynamic, graded in itertools.product((False, True), {graded for graded, _, _ in ways}):
            torch._dynamo.reset()
            toroid.reset_explain()
            compiled = torch.compile(fn, backend="toroid", dynamic=dynamic)
            for way in ways:
                if way[0] == graded:
                    with self.subTest(dynamic=dynamic, graded=graded, way=way[1], rows=way[2]):
                        torch.testing.assert_close(self.run_one(compiled, *way), expected[way])
            self.assertGreaterEqual(len(toroid.explain().graphs), 1 + graded)
            self.assertEqual(set(toroid.explain().fallbacks), set(by_pytorch), toroid.explain())

    def run_one(self, call: Callable[..., Any], graded: bool, way: float, rows: int) -> tuple[Any, torch.Tensor | None]:
        x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(1)).requires_grad_(graded)
        torch.manual_seed(0)
        out = call(x, torch.tensor(way))
        if graded:
            torch.stack([t.sin().sum() for t in torch.utils._pytree.tree_leaves(out) if t.requires_grad]).sum().backward()
        return torch.utils._pytree.tree_map(torch.Tensor.detach, out), x.grad

    def test_errors_within_a_region_name_the_call(self) -> None:
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        outside = graph.call_function(torch.ops.aten.neg.default, (x,), name="mul")
        call = graph.call_function(torch.ops.higher_order.cond, (outside, None, None, (x,)), name="cond")
        shifted = graph.call_function(torch.ops.aten.__lshift__.Scalar, (x, 1), name="__lshift__")
        graph.output((call, shifted))
        part = torch.fx.GraphModule({}, graph)
        self.assertIs(_culprit(toroid.UserError('node "cond__mul" (mul.Tensor): refused'), part), call)
        self.assertIs(_culprit(toroid.UserError('node "mul" (mul.Tensor): refused'), part), outside)
        self.assertIs(_culprit(toroid.UserError('node "__lshift__" (__lshift__.Scalar): refused'), part), shifted)

    def test_branches_close_over_weights(self) -> None:
        w = self.weight
        self.check(lambda x, p: torch.cond(p > 0, lambda x: (x @ w).relu(), lambda x: x.cos() @ w * 2, (x,)), sizes=(3, 7))

    def test_branches_of_several_results(self) -> None:
        self.check(lambda x, p: torch.cond(p > 0, lambda x: (x.sum(0), x * 2), lambda x: (x.amax(0), x.t().exp().t()), (x,)))

    def test_branches_in_branches_whose_names_are_those_around_them(self) -> None:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: (x * 3).sort().values, lambda x: x - 1, (x,))

        self.check(lambda x, p: torch.cond(p > 0, inner, lambda x: x * 4, (x * 2,)) * 5)

    def test_branches_by_sizes(self) -> None:
        def fn(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.shape[0] > 4, lambda x: x.sin() + x.shape[0], lambda x: x.cos(), (x,)) * p

        self.check(fn, sizes=(3, 7))

    def test_branches_between_operations_of_pytorch(self) -> None:
        def fn(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
            y = torch.cond(p > 0, lambda x: x.sin() @ self.weight, lambda x: x.cos(), (torch.bernoulli(x.sigmoid()),))
            return torch.bernoulli(y.sigmoid()) * 2 + x

        self.check(fn, by_pytorch=["aten.bernoulli.default"])

    def test_branches_that_draw_random_numbers_are_pytorchs(self) -> None:
        self.check(lambda x, p: torch.cond(p > 0, lambda x: x + torch.rand_like(x), lambda x: x.cos(), (x,)), by_pytorch=["cond"])
        self.assertRegex(toroid.explain().graphs[0].reasons["cond"], "aten.rand_like.default within it: random numbers")

    def test_nested_compile_regions(self) -> None:
        @torch.compiler.nested_compile_region
        def inner(x: torch.Tensor) -> torch.Tensor:
            return (x @ self.weight).sin()

        def fn(x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
            return inner(x) + inner(x * 2) * p

        self.check(fn, gradients=False, sizes=(3, 7))
        torch._dynamo.reset()
        toroid.reset_explain()
        compiled = torch.compile(fn, backend="toroid", dynamic=False)  # with open sizes regions return sizes for their backward pass
        torch.testing.assert_close(self.run_one(compiled, True, 1.0, 4), self.run_one(fn, True, 1.0, 4))
        self.assertFalse(toroid.explain().fallbacks, toroid.explain())

    def test_branches_with_complex_numbers_are_pytorchs(self) -> None:
        self.check(lambda x, p: torch.cond(p > 0, lambda x: torch.fft.fft(x).abs(), lambda x: x.cos(), (x,)), gradients=False, by_pytorch=["cond"])

    def test_branches_of_frozen_weights_and_a_write_behind_them(self) -> None:
        yes, no = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.yes, self.no = yes, no

            def forward(self, x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
                y = torch.cond(p > 0, lambda x: self.yes(x).relu(), lambda x: self.no(x), (x,))
                x.add_(1)
                return y

        net = Net()
        with torch.no_grad():
            compiled = torch.compile(net, backend="toroid", options={"freezing": True})
            for way in (torch.tensor(1.0), torch.tensor(-1.0)):
                given = [torch.linspace(-1, 1, 12).reshape(3, 4) for _ in range(2)]
                outs = [call(x, way) for call, x in zip((net, compiled), given)]
                torch.testing.assert_close(outs[1], outs[0])
                torch.testing.assert_close(given[1], given[0])
        self.assertFalse(toroid.explain().fallbacks, toroid.explain())

    def test_loops(self) -> None:
        def fn(x: torch.Tensor, p: torch.Tensor) -> Any:  # -1: no iteration
            return torch.while_loop(lambda i, x: i < p * 5, lambda i, x: (i + 1, x * 2 + self.weight[0]), (torch.zeros(()), x))

        self.check(fn, gradients=False, sizes=(3, 7))

    def test_loops_that_carry_numbers_are_pytorchs(self) -> None:
        def fn(x: torch.Tensor, p: torch.Tensor) -> Any:
            return torch.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2), (0, x))[1] * p

        self.check(fn, gradients=False, by_pytorch=["while_loop"])

    def test_loops_in_branches(self) -> None:
        def yes(x: torch.Tensor) -> torch.Tensor:
            return torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.sin()), (torch.zeros((), dtype=torch.int64), x))[1]

        self.check(lambda x, p: torch.cond(p > 0, yes, lambda x: x.cos(), (x,)), gradients=False)

    def test_scans(self) -> None:
        def step(carry: Any, y: torch.Tensor) -> Any:
            return (carry[0] + y @ self.weight, carry[1] * y), carry[0] - carry[1]

        begin = (torch.zeros(4), torch.ones(4))
        self.check(lambda x, p: scan(step, begin, x * p), sizes=(3, 7))
        self.check(lambda x, p: scan(step, begin, x * p, reverse=True), gradients=False)

    def test_associative_scans(self) -> None:
        self.check(lambda x, p: associative_scan(lambda a, b: a * b, x * p, 0), sizes=(3, 7))
        self.check(lambda x, p: associative_scan(lambda a, b: a + b, x * p, 1, reverse=True), gradients=False)

    def test_maps(self) -> None:
        self.check(lambda x, p: map_over((lambda y, p: (y @ self.weight).relu() * p), x, p), sizes=(3, 7))


@torch.library.custom_op("toroid_tests::strides_of", mutates_args=())
def strides_of(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor(x.stride())


@strides_of.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(x.dim(), dtype=torch.int64)


@torch.library.custom_op("toroid_tests::twice_sin", mutates_args=())
def twice_sin(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2


twice_sin.register_fake(torch.empty_like)
twice_sin.register_autograd(
    lambda ctx, g: g * 2 * ctx.saved_tensors[0].cos(), setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
)


@torch.library.custom_op("toroid_tests::scale_", mutates_args={"x"})
def scale_(x: torch.Tensor, factor: float) -> None:
    x.mul_(factor)


@torch.library.custom_op("toroid_tests::halves", mutates_args=())
def halves(x: torch.Tensor) -> list[torch.Tensor]:
    return [t.clone() for t in x.chunk(2)]


@halves.register_fake
def _(x: torch.Tensor) -> list[torch.Tensor]:
    return [torch.empty_like(t) for t in x.chunk(2)]


@torch.library.custom_op("toroid_tests::positive_rows", mutates_args=())
def positive_rows(x: torch.Tensor) -> torch.Tensor:
    return x[x[:, 0] > 0].clone()


@positive_rows.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size(), x.shape[1])


noted: list[int] = []


@torch.library.custom_op("toroid_tests::note", mutates_args=())
def note(x: torch.Tensor, number: int) -> torch.Tensor:
    noted.append(number)
    return x.clone()


note.register_fake(lambda x, number: torch.empty_like(x))
_register_effectful_op("toroid_tests::note", _EffectType.ORDERED)


class ForeignOperations(Case):
    """What is PyTorch's between programs: custom operations, flex_attention, kernels of Triton. All are counted, and named."""

    def check(self, fn: Callable[..., Any], name: str, reason: str = "no such operation", *, graded: bool = False) -> None:
        for dynamic in (False, True):
            torch._dynamo.reset()
            toroid.reset_explain()
            given = [torch.linspace(-1, 1, 32).reshape(8, 4).requires_grad_(graded) for _ in range(2)]
            outs = [call(x) for call, x in zip((fn, torch.compile(fn, backend="toroid", dynamic=dynamic, fullgraph=True)), given)]
            torch.testing.assert_close(outs[1], outs[0])
            torch.testing.assert_close(given[1], given[0])
            if graded:
                for out in outs:
                    out.sin().sum().backward()
                torch.testing.assert_close(given[1].grad, given[0].grad)
            graph = toroid.explain().graphs[0]
            self.assertEqual(graph.fallbacks[name], 1, graph)
            self.assertRegex(graph.reasons[name], reason)
            self.assertGreater(graph.compiled, 0, graph)

    def test_custom_operation_has_its_own_gradient(self) -> None:
        self.check(lambda x: twice_sin(x.cos() + 1).relu() * 3, "toroid_tests.twice_sin.default", graded=True)

    def test_custom_operation_writes_to_a_view_of_what_a_program_computes(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            scale_(y[:2], 3.0)
            return y + 1

        self.check(fn, "toroid_tests.scale_.default", "it writes", graded=True)

    def test_custom_operation_writes_to_an_argument_between_reads(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            before = x.sin()
            scale_(x, 3.0)
            return before + x.sin()

        self.check(fn, "toroid_tests.scale_.default", "it writes")

    def test_custom_operation_gives_a_list(self) -> None:
        self.check(lambda x: torch.add(*halves(x.exp())) * 2, "toroid_tests.halves.default")

    @mock.patch.object(torch._dynamo.config, "capture_dynamic_output_shape_ops", True)
    def test_custom_operation_gives_sizes_that_follow_from_data(self) -> None:
        def fn(x: torch.Tensor) -> Any:
            rows = positive_rows(x * 2)
            return rows.sin() * 2, rows.sum(0), rows.shape[0] + x[0]

        self.check(fn, "toroid_tests.positive_rows.default")

    def test_effects_come_in_the_order_of_the_program(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            late = x.sin()
            early = note(x * 2, 1)
            return note(late, 2) + note(early.cos(), 3) * 2

        compiled = torch.compile(fn, backend="toroid", fullgraph=True)
        x = torch.linspace(-1, 1, 8)
        expected = fn(x)
        noted.clear()
        torch.testing.assert_close(compiled(x), expected)
        self.assertEqual(noted, [1, 2, 3])
        self.assertEqual(toroid.explain().fallbacks, {"toroid_tests.note.default": 3})

    def test_flex_attention(self) -> None:
        def fn(x: torch.Tensor) -> torch.Tensor:
            q = x.reshape(1, 1, 8, 4).sin()
            return flex_attention(q, q * 2, q + 1, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.1) * 2

        self.check(fn, "flex_attention")

    def test_kernels_of_triton_have_their_names(self) -> None:
        def my_kernel() -> None: ...

        tuned = mock.Mock(spec=["fn"], fn=mock.Mock(spec=["fn"], fn=my_kernel))
        node = torch.fx.Graph().call_function(triton_kernel_wrapper_functional, kwargs={"kernel_idx": kernel_side_table.add_kernel(tuned)})
        self.assertEqual(op_name(node), "triton.my_kernel")
        self.assertEqual(refusal(node, torch.device("cpu")), "Toroid has no such operation")


class Bags(Case):
    """Gradients of embedding_bag: of the table, and of the factors of sums."""

    def check(self, mode: str, *, factors: bool = False, dtype: torch.dtype = torch.float32, **options: Any) -> None:
        def fn(table: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
            return embedding_bag(indices, table, offsets, mode=mode, per_sample_weights=weights, **options).sin()

        indices = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9])  # 4 twice in one bag, 2 in two; the second bag is empty
        offsets = torch.tensor([0, 3, 3, 8] if options.get("include_last_offset") else [0, 3, 3, 5])
        for dynamic in (False, True):
            torch._dynamo.reset()
            toroid.reset_explain()
            outs = []
            for call in (fn, torch.compile(fn, backend="toroid", dynamic=dynamic)):
                table = torch.linspace(-1, 1, 40, dtype=dtype).sin().reshape(10, 4).requires_grad_()
                weights = torch.linspace(0.5, 2, 8, dtype=dtype).requires_grad_() if factors else None
                out = call(table, indices, offsets, weights)
                out.cos().sum().backward()
                outs.append((out.detach(), table.grad, weights.grad if factors else None))
            torch.testing.assert_close(outs[1], outs[0])
            self.assertFalse(toroid.explain().fallbacks, toroid.explain())

    def test_modes(self) -> None:
        for mode in ("sum", "mean", "max"):
            for padding_idx in (None, 2):
                with self.subTest(mode=mode, padding_idx=padding_idx):
                    self.check(mode, padding_idx=padding_idx)

    def test_factors(self) -> None:
        self.check("sum", factors=True)
        self.check("sum", factors=True, padding_idx=2)

    def test_scaled_by_frequency(self) -> None:
        self.check("sum", scale_grad_by_freq=True)
        self.check("mean", scale_grad_by_freq=True, padding_idx=2)

    def test_last_offset(self) -> None:
        self.check("mean", include_last_offset=True)

    def test_halves(self) -> None:
        self.check("mean", dtype=torch.bfloat16)


class WeightNorm(Case):
    def test_gradients_are_of_toroid_and_those_of_eager(self) -> None:
        for dim in (0, -1):
            with self.subTest(dim=dim):
                x, gradients = torch.randn(2, 6, 20), []
                module = torch.nn.Conv1d(6, 8, 3)
                for backend in ("toroid", "eager"):
                    torch._dynamo.reset()
                    toroid.reset_explain()
                    mine = torch.nn.utils.parametrizations.weight_norm(copy.deepcopy(module), dim=dim)
                    torch.compile(mine, backend=backend)(x).square().sum().backward()
                    gradients.append([p.grad for p in mine.parameters()])
                    self.all_by_toroid()
                for ours, theirs in zip(*gradients):
                    self.assertLess(distance(ours, theirs), 1e-5)


class Sizes(Case):
    @mock.patch.object(torch._dynamo.config, "capture_dynamic_output_shape_ops", True)
    def test_that_follow_from_data(self) -> None:
        def fn(x: torch.Tensor) -> Any:
            at = torch.nonzero(x > 0)
            return at * 2, x[at[:, 0], at[:, 1]].sin()

        x = torch.linspace(-1, 1, 12).reshape(3, 4)
        torch.testing.assert_close(torch.compile(fn, backend="toroid", fullgraph=True)(x), fn(x))
        self.assertNotIn("aten.nonzero.default", toroid.explain().fallbacks)

    def test_quotients_do_not_tell_what_they_were_made_of(self) -> None:
        def half(x: torch.Tensor) -> torch.Tensor:
            y = x[: x.shape[0] // 2].sin()
            drawn = torch.normal(y, torch.ones_like(y))
            return drawn * 2 + drawn.shape[0]

        def every_fourth(x: torch.Tensor) -> torch.Tensor:
            y = x[::2].sin()
            return (torch.normal(y, torch.ones_like(y))[::2] * 2).cos()

        for fn in (half, every_fourth):
            compiled = torch.compile(fn, backend="toroid", dynamic=True)
            for rows in (7, 9, 12):
                x, outs = torch.randn(rows, 3), []
                for call in (fn, compiled):
                    torch.manual_seed(0)
                    outs.append(call(x))
                torch.testing.assert_close(outs[1], outs[0])

    def test_numbers_may_be_negative(self) -> None:
        def fn(x: torch.Tensor, i: int) -> tuple[Any, ...]:
            return x * i, x + i // 3, x - i % 5, torch.full((2,), i), i - 1

        compiled = torch.compile(fn, backend="toroid", dynamic=True)
        x = torch.arange(4)
        for i in (5, -7, 3, -1, 0, 2**40, -(2**40)):
            torch.testing.assert_close(compiled(x, i), fn(x, i))
        self.all_by_toroid()

    @torch._dynamo.config.patch(capture_scalar_outputs=True)
    def test_numbers_from_data_may_be_negative(self) -> None:
        def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            i = x.item()
            return y * i, y + (i - 1), torch.full((2,), i)

        compiled = torch.compile(fn, backend="toroid", fullgraph=True)
        for i in (3, -8, 0):
            torch.testing.assert_close(compiled(torch.tensor(i), torch.ones(3)), fn(torch.tensor(i), torch.ones(3)))

    @torch._dynamo.config.patch(capture_scalar_outputs=True)
    def test_numbers_that_are_sizes_are_not_negative(self) -> None:
        def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            i = x.item()
            torch._check(i >= 0)
            return torch.zeros(i) + 1, torch.arange(i) * i

        compiled = torch.compile(fn, backend="toroid", fullgraph=True)
        for i in (3, 0, 5):
            torch.testing.assert_close(compiled(torch.tensor(i)), fn(torch.tensor(i)))


class Examples(Case):
    def test_network_learns_the_circle(self) -> None:
        path = pathlib.Path(__file__).parents[2] / "examples" / "python" / "torch_compile.py"
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            runpy.run_path(str(path))
        self.assertRegex(out.getvalue(), r"^loss 0\.\d\d, right (9\d|100)%\ngraph \d+ \(forward\)")


class Programs(Case):
    def test_look_at_what_they_are_given(self) -> None:
        graph = torch.fx.symbolic_trace(lambda x: torch.ops.aten.neg.default(x))
        for node in graph.graph.nodes:
            node.meta["val"] = torch.zeros(3)
        program = Program(graph, [False], {}, _core.ModelOptions())
        torch.testing.assert_close(program(torch.ones(3)), -torch.ones(3))
        torch.testing.assert_close(program(torch.nn.Parameter(torch.ones(3))), -torch.ones(3))
        for other in (None, 1.5, "text", [1]):
            with self.assertRaisesRegex(toroid.UserError, "argument 0 is of the type"):
                program(other)


if __name__ == "__main__":
    unittest.main()
