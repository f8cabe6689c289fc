"""Small models of transformers and torchvision through torch.compile(backend="toroid"), beside eager PyTorch: results and gradients.

Usage: models.py [NAME ...]. Prints a line for each; exit code 1 where one differs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torchvision
import transformers as t

import toroid.torch
from distance import distance

TEXT = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64)
NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
GPT2 = dict(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
T5 = dict(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0)
VIT = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8)


def ids() -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(0, 99, (2, 12)), "attention_mask": torch.ones(2, 12, dtype=torch.long)}


def image(size: int) -> Callable[[], dict[str, torch.Tensor]]:
    return lambda: {"x": torch.randn(2, 3, size, size)}


MODELS: dict[str, tuple[Callable[[], torch.nn.Module], Callable[[], dict[str, torch.Tensor]]]] = {
    "bert": (lambda: t.BertModel(t.BertConfig(**TEXT, **NO_DROPOUT)), ids),
    "roberta": (lambda: t.RobertaModel(t.RobertaConfig(**TEXT, **NO_DROPOUT)), ids),
    "distilbert": (lambda: t.DistilBertModel(t.DistilBertConfig(vocab_size=99, dim=32, n_layers=2, n_heads=4, hidden_dim=64, dropout=0.0,
                                                                attention_dropout=0.0)), ids),
    "gpt2": (lambda: t.GPT2LMHeadModel(t.GPT2Config(**GPT2, use_cache=False)), ids),
    "llama": (lambda: t.LlamaForCausalLM(t.LlamaConfig(**TEXT, num_key_value_heads=2, use_cache=False)), ids),
    "mistral": (lambda: t.MistralForCausalLM(t.MistralConfig(**TEXT, num_key_value_heads=2, use_cache=False)), ids),
    "qwen2": (lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**TEXT, num_key_value_heads=2, use_cache=False)), ids),
    "gpt_neox": (lambda: t.GPTNeoXForCausalLM(t.GPTNeoXConfig(**TEXT, use_cache=False)), ids),
    "opt": (lambda: t.OPTForCausalLM(t.OPTConfig(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
                                                 max_position_embeddings=64, word_embed_proj_dim=32, dropout=0.0, use_cache=False)), ids),
    "t5": (lambda: t.T5ForConditionalGeneration(t.T5Config(**T5, use_cache=False)), lambda: ids() | {"labels": torch.randint(0, 99, (2, 7))}),
    "vit": (lambda: t.ViTModel(t.ViTConfig(**VIT, **NO_DROPOUT)), lambda: {"pixel_values": torch.randn(2, 3, 32, 32)}),
    "resnet18": (lambda: torchvision.models.resnet18(), image(64)),
    "mobilenet_v3_small": (lambda: torchvision.models.mobilenet_v3_small(dropout=0.0), image(64)),
    "squeezenet": (lambda: torchvision.models.squeezenet1_1(dropout=0.0), image(64)),
}  # fmt: skip


def settle(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> None:
    """Gives batch norms the statistics of these inputs, without which what deep networks of random weights give vanishes, and weights that are
    zeros small numbers, as results would not depend on all of the network, and choices (routers of experts) would be between equals."""
    with torch.no_grad():
        for p in model.parameters():
            if p.numel() > 1 and not p.any():
                p.normal_(0, 0.02)
        norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
        for norm in norms:
            norm.momentum = 1.0
        if norms:
            model.train()
            model(**inputs)
    model.eval()


def floats(out: Any) -> list[torch.Tensor]:
    values = [out] if isinstance(out, torch.Tensor) else list(out.values())
    return [v for v in values if isinstance(v, torch.Tensor) and v.is_floating_point()]


def step(call: Callable[..., Any], model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Results, and the gradients of the mean of their squares."""
    model.zero_grad()
    out = floats(call(**inputs))
    sum(v.square().mean() for v in out).backward()
    # Parameters that decide nothing have no gradient in eager mode, and zeros where AOTAutograd made the backward pass.
    return [v.detach() for v in out] + [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()]


def apart(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> float:
    """The largest distance of all tensors."""
    if len(ours) != len(theirs):
        return float("inf")
    return max(distance(a, b, floor=1e-3) for a, b in zip(ours, theirs))


def main() -> int:
    failed = 0
    for name in sys.argv[1:] or MODELS:
        torch.manual_seed(0)
        torch._dynamo.reset()
        toroid.reset_explain()
        make, inputs_of = MODELS[name]
        model, inputs = make(), inputs_of()
        compiled = torch.compile(model, backend="toroid")
        try:
            settle(model, inputs)
            with torch.no_grad():
                without = apart(floats(compiled(**inputs)), floats(model(**inputs)))
            state = {k: v.clone() for k, v in model.state_dict().items()}
            with_gradients = apart(step(compiled, model, inputs), step(model, model, inputs))
            model.load_state_dict(state)
        except Exception as e:
            failed += 1
            print(f"failed {name}: {type(e).__name__}: {' '.join(str(e).split())[:300]}", flush=True)
            continue
        bad = not (without < 1e-4 and with_gradients < 1e-3)
        failed += bad
        fallbacks = ", ".join(f"{k} ({n})" for k, n in sorted(toroid.explain().fallbacks.items())) or "none"
        print(f"{'wrong ' if bad else 'equal '} {name}: off by {without:.1e}, with gradients {with_gradients:.1e}; by PyTorch: {fallbacks}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
