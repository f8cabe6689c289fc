"""The models of the comparison: random weights from a fixed seed, batch 1, float32."""
import torch
import torch.nn as nn
import torch.nn.functional as F

NAMES = ["pointwise", "softmax_ln", "mlp", "minilm_l6", "bert_base", "mobilenet_v3", "resnet50", "swin_t"]


class LastHidden(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids, mask):
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state


class Pointwise(nn.Module):
    def forward(self, x, b):
        return F.gelu(torch.tanh(x + b) * x.sigmoid()) + x.exp().clamp(max=3.0)


class SoftmaxNorm(nn.Module):
    def forward(self, x):
        return F.layer_norm(F.softmax(x, -1) + x, (1024,))


def bert(**config):
    import transformers

    model = transformers.BertModel(transformers.BertConfig(**config), add_pooling_layer=False).eval()
    ids = torch.randint(0, 30000, (1, 128))
    return LastHidden(model), (ids, torch.ones(1, 128, dtype=torch.long))


def settle(model):
    """Batch norms of fresh models divide by 1: give them statistics, so that activations keep their size through deep networks."""
    for m in model.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    return model.eval()


def build(name):
    """(module, arguments) of one model. The same numbers on every call."""
    torch.manual_seed(0)
    if name == "pointwise":
        return Pointwise(), (torch.randn(2048, 2048), torch.randn(2048))
    if name == "softmax_ln":
        return SoftmaxNorm(), (torch.randn(4096, 1024),)
    if name == "mlp":
        layers = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024), nn.LayerNorm(1024))
        return layers.eval(), (torch.randn(128, 1024),)
    if name == "minilm_l6":
        return bert(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    if name == "bert_base":
        return bert()
    if name in ("mobilenet_v3", "resnet50", "swin_t"):
        import torchvision

        make = getattr(torchvision.models, {"mobilenet_v3": "mobilenet_v3_large"}.get(name, name))
        return settle(make()), (torch.randn(1, 3, 224, 224),)
    raise SystemExit(f"unknown model {name}; known are {', '.join(NAMES)}")
