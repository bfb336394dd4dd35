"""Writes GGUF weights as safetensors in bfloat16, with their tokenizer and a chat template, for engines that read no GGUF.

usage: python dequantise.py MODEL.gguf TEMPLATE.jinja FOLDER
"""
import os
import shutil
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

gguf, template, folder = sys.argv[1:4]
place, name = os.path.split(os.path.abspath(gguf))
part = folder + ".part"
shutil.rmtree(part, ignore_errors=True)
model = AutoModelForCausalLM.from_pretrained(place, gguf_file=name, dtype=torch.float32).to(torch.bfloat16)
config = model.config
if hasattr(config, "quantization_config"):
    del config.quantization_config
config.dtype = "bfloat16"
config.save_pretrained(part)
model.generation_config.save_pretrained(part)
AutoTokenizer.from_pretrained(place, gguf_file=name).save_pretrained(part)
tensors = {key: value.contiguous() for key, value in model.state_dict().items()}
if config.tie_word_embeddings:
    tensors.pop("lm_head.weight", None)
save_file(tensors, os.path.join(part, "model.safetensors"), metadata={"format": "pt"})
shutil.copyfile(template, os.path.join(part, "chat_template.jinja"))
# Another user reads it in a container; safetensors writes for its own user alone.
for file in os.listdir(part):
    os.chmod(os.path.join(part, file), 0o644)
os.rename(part, folder)
