"""Architectures of transformers and torchvision with random weights through torch.compile(backend="toroid"), beside eager PyTorch: results,
gradients, and results for open sizes.

Usage: architectures.py [--seconds N] [--limit N] [NAME ...]. All of transformers' base models whose configuration can be made small, and one of each
family of torchvision; names choose among them. A line for each: equal, wrong, failed, or left out where eager PyTorch does not run it (it
says why), and a line of counts; exit code 1 where one is wrong or failed. --seconds: begins none after that time. --limit: seconds after
which one is given up as not finished (PyTorch's own tracing of a model can take many minutes).
"""

from __future__ import annotations

import argparse
import copy
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torchvision
import transformers
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

import toroid.torch
from models import apart, floats, settle, step

# What makes a configuration small, by the names that configurations have for it.
SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "dim", "n_embd", "embed_dim", "embedding_size", "encoder_hidden_size", "decoder_hidden_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "hidden_dim", "n_inner"), 64),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions"), 64),
    **dict.fromkeys(("head_dim", "d_kv"), 8),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "padding_idx"), 1),
    "num_key_value_heads": 2, "vocab_size": 99, "image_size": 32, "patch_size": 8, "num_mel_bins": 16, "use_cache": False,
}  # fmt: skip

VISION = (
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "inception_v3", "maxvit_t", "mnasnet0_5",
    "mobilenet_v2", "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf", "resnet18", "resnet50", "resnext50_32x4d", "shufflenet_v2_x0_5",
    "squeezenet1_1", "swin_t", "swin_v2_t", "vgg11_bn", "vit_b_32", "wide_resnet50_2", "fcn_resnet50", "deeplabv3_mobilenet_v3_large",
    "lraspp_mobilenet_v3_large", "r3d_18", "mc3_18", "r2plus1d_18", "s3d",
)  # fmt: skip
SIDES = {"inception_v3": 96, "maxvit_t": 224, "swin_t": 64, "swin_v2_t": 64, "vit_b_32": 224}

Inputs = dict[str, torch.Tensor]


def make_small(config: Any) -> None:
    for name, value in list(vars(config).items()):
        if isinstance(value, transformers.PretrainedConfig):
            make_small(value)
        elif "dropout" in name or name.endswith(("drop", "drop_rate", "layerdrop")):
            if isinstance(value, float):
                setattr(config, name, 0.0)
        elif name in SMALL and value is not None and isinstance(value, int):
            setattr(config, name, min(value, SMALL[name]))


def language_model(kind: str) -> tuple[torch.nn.Module, Callable[[int], Inputs]]:
    config = transformers.AutoConfig.for_model(kind)
    make_small(config)
    model = transformers.AutoModel.from_config(config)  # with scaled_dot_product_attention where it can
    name = model.main_input_name

    def inputs(length: int) -> Inputs:
        if name == "pixel_values":
            side = config.image_size if isinstance(getattr(config, "image_size", None), int) else 32
            return {name: torch.randn(2, getattr(config, "num_channels", 3), side, side)}
        if name != "input_ids":
            return {name: torch.randn(2, 16 * length)}
        given = {name: torch.randint(2, 90, (2, length)), "attention_mask": torch.ones(2, length, dtype=torch.long)}
        return given | ({"decoder_input_ids": torch.randint(2, 90, (2, length))} if config.is_encoder_decoder else {})

    return model, inputs


def vision_model(kind: str) -> tuple[torch.nn.Module, Callable[[int], Inputs]]:
    model = torchvision.models.get_model(kind, weights=None, **({"weights_backbone": None} if "_" in kind and hasattr(torchvision.models.segmentation, kind) else {}))
    for module in model.modules():
        if isinstance(module, (torch.nn.Dropout, torchvision.ops.StochasticDepth)):
            module.p = 0.0
    side = SIDES.get(kind, 64)
    is_video = hasattr(torchvision.models.video, kind)
    return model, lambda length: {"x": torch.randn(2, 3, 16, side, side) if is_video else torch.randn(2, 3, side, side)}


def shaken(model: torch.nn.Module, inputs: Inputs) -> float:
    """How far weights that differ by rounding alone move eager PyTorch's gradients: a sign that flips before a relu moves them by much."""
    exact, most = step(model, model, inputs), 0.0
    kept = [p.detach().clone() for p in model.parameters()]
    for _ in range(3):
        with torch.no_grad():
            for p, k in zip(model.parameters(), kept):
                p.copy_(k * (1 + 1e-6 * torch.randn_like(k)))
        most = max(most, apart(step(model, model, inputs), exact))
    with torch.no_grad():
        for p, k in zip(model.parameters(), kept):
            p.copy_(k)
    return most


def beside_exact(compiled: Any, model: torch.nn.Module, inputs: Inputs) -> tuple[float, float]:
    """How far results and gradients, and eager PyTorch's, are from those in f64."""
    wide = copy.deepcopy(model).double()
    exact = [t.float() for t in step(wide, wide, {k: v.double() if v.is_floating_point() else v for k, v in inputs.items()})]
    return apart(step(compiled, model, inputs), exact), apart(step(model, model, inputs), exact)


def traces(model: torch.nn.Module, inputs: Inputs) -> bool:
    torch._dynamo.reset()
    try:
        step(torch.compile(model, backend="eager", dynamic=False), model, inputs)
    except Exception:
        return False
    return True


def check(kind: str) -> tuple[str, str]:
    """What becomes of an architecture, and what there is to say of it."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    toroid.reset_explain()
    try:
        model, inputs_of = (vision_model if kind in VISION else language_model)(kind)
        inputs = inputs_of(12)
        settle(model, inputs)
        with torch.no_grad():
            expected = floats(model(**inputs))
        step(model, model, inputs)
        largest = max(v.abs().max().item() for v in expected)
        if not 1e-2 < largest < 1e4:
            return "left out", f"its results are up to {largest:.1e}, which says little"
    except Exception as e:
        return "left out", f"{type(e).__name__}: {' '.join(str(e).split())[:100]}"
    try:
        compiled = torch.compile(model, backend="toroid", dynamic=False)
        with torch.no_grad():
            off = {"results": apart(floats(compiled(**inputs)), expected)}
        off["gradients"] = apart(step(compiled, model, inputs), step(model, model, inputs))
        if "input_ids" in inputs:
            torch._dynamo.reset()
            longer, open_sizes = inputs_of(17), torch.compile(model, backend="toroid", dynamic=True)
            with torch.no_grad():
                open_sizes(**inputs)
                off["open sizes"] = apart(floats(open_sizes(**longer)), floats(model(**longer)))
    except Exception as e:
        text = f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"
        return ("failed", text) if traces(model, inputs) else ("left out", f"backend='eager' fails, too: {text}")
    bad = off["results"] > 1e-4 or off["gradients"] > 1e-3 or off.get("open sizes", 0) > 1e-4
    gradients_alone = off["results"] <= 1e-4 and off.get("open sizes", 0) <= 1e-4
    if bad and gradients_alone and off["gradients"] <= 3 * (own := shaken(model, inputs)):
        return "left out", f"by PyTorch alone gradients are off by {own:.1e} where weights are off by 1e-6, here by {off['gradients']:.1e}"
    if bad:
        torch._dynamo.reset()
        traced = step(torch.compile(model, backend="eager", dynamic=False), model, inputs)
        if (own := apart(traced, step(model, model, inputs))) > 1e-3 and apart(step(compiled, model, inputs), traced) <= 1e-3:
            return "left out", f"backend='eager' is off by {own:.1e}, and here it is the same"
        try:
            ours, theirs = beside_exact(compiled, model, inputs)
        except Exception as e:
            return "wrong", f"{off}; nothing to compare with in f64: {type(e).__name__}"
        if ours <= min(theirs, 1e-3) and off.get("open sizes", 0) <= 1e-4:
            return "equal", f"to f64: off by {ours:.1e}, PyTorch by {theirs:.1e}"
    fallbacks = ", ".join(f"{k} ({n})" for k, n in sorted(toroid.explain().fallbacks.items())) or "none"
    return "wrong" if bad else "equal", ", ".join(f"{k} off by {v:.1e}" for k, v in off.items()) + f"; by PyTorch: {fallbacks}"


class TooLong(BaseException):
    """No Exception, which models and tracers catch."""


def give_up(*_: Any) -> None:
    raise TooLong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--limit", type=float, default=0)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, give_up)
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    counts: Counter[str] = Counter()
    end = time.monotonic() + options.seconds
    for kind in options.names or (*VISION, *MODEL_MAPPING_NAMES):
        if time.monotonic() > end:
            counts["not begun"] += 1
            continue
        signal.setitimer(signal.ITIMER_REAL, options.limit)
        try:
            what, text = check(kind)
        except TooLong:
            what, text = "not finished", f"after {options.limit:g} s"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        counts[what] += 1
        print(f"{what:12} {kind}: {text}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in counts.items()))
    return 1 if counts["wrong"] or counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
