#!/usr/bin/env python3
"""Speed of Hugging Face transformers on this machine's GPU, as a peer of engine_bench.

    hf_speed.py [--dtype float16|bfloat16] [--prompt P] [--decode G] [--repeat R]

Needs torch with CUDA or ROCm, and transformers 5. The model has the shape of greta-infer's synthetic
llama3-8b and random weights made on the GPU, so that nothing is fetched; batch 1, greedy. Prints one
figure per line as soon as it is known, name, value, unit, each the median of R runs:

    prefill_P         prefill of P tokens, eager
    decode            G tokens after a prompt of P, eager, cache grown token by token
    decode_traced     the same with a hook on every module that takes a few statistics of its output
    decode_rows       rows per second of that, in the host's memory
    rows_per_token    how many each token has
    decode_compiled   torch.compile with CUDA graphs (mode reduce-overhead), static cache

All attention is PyTorch's scaled_dot_product_attention. What runs first loads kernels, several times
slower, and does not count. Ids stay on the GPU until the last token, which spares transformers a wait
for every token; statistics are stacked there and copied once per token.
"""

import argparse
import statistics
import sys
import time

import torch
from transformers import AutoModelForCausalLM, DynamicCache, LlamaConfig, StaticCache


def llama3_8b(dtype):
    """The shape of engine/synth/shape.cpp."""
    config = LlamaConfig(
        num_hidden_layers=32, hidden_size=4096, intermediate_size=14336, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, vocab_size=128256, max_position_embeddings=8192,
        rms_norm_eps=1e-5, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    return model.eval()


def now():
    torch.cuda.synchronize()
    return time.perf_counter()


def show(name, value, unit):
    print(f"{name} {value:.4g} {unit}", flush=True)


def prefill(model, cache, prompt):
    """The token after the prompt, on the GPU."""
    out = model(input_ids=prompt, past_key_values=cache, use_cache=True, logits_to_keep=1)
    return out.logits[:, -1:].argmax(-1)


def decode(step, cache, token, first, count):
    """Ids of `count` tokens after `token`, which is at position `first`."""
    ids = []
    position = torch.tensor([[first]], device="cuda")
    for _ in range(count):
        token = step(token, position, cache)
        ids.append(token)
        position += 1
    return torch.cat(ids, 1).tolist()


def stepper(model):
    def step(token, position, cache):
        out = model(input_ids=token, position_ids=position, past_key_values=cache, use_cache=True)
        return out.logits[:, -1:].argmax(-1)

    return step


class Statistics:
    """Hooks on every module that gives out a tensor: its mean, deviation, least and greatest value."""

    def __init__(self, model):
        self.pending, self.rows = [], []
        self.handles = [module.register_forward_hook(self.hook) for module in model.modules()]

    def hook(self, _module, _inputs, output):
        tensor = output[0] if isinstance(output, tuple) else output
        if isinstance(tensor, torch.Tensor):
            values = tensor.float()
            deviation, mean = torch.std_mean(values)
            self.pending.append(torch.stack((mean, deviation, *torch.aminmax(values))))

    def fetch(self):
        self.rows += torch.stack(self.pending).tolist()
        self.pending.clear()

    def remove(self):
        for handle in self.handles:
            handle.remove()


def measure_prefill(model, prompt, repeat):
    seconds = []
    for _ in range(repeat + 2):  # two warm up
        cache = DynamicCache(config=model.config)
        start = now()
        prefill(model, cache, prompt).item()
        seconds.append(now() - start)
    n = prompt.shape[1]
    show(f"prefill_{n}", n / statistics.median(seconds[2:]), "tok/s")


def grown_cache(model):
    return lambda: DynamicCache(config=model.config)


def decode_speed(model, step, cache_of, prompt, count, repeat):
    """Tokens per second. cache_of(): an empty cache."""
    speeds = []
    for _ in range(repeat + 1):  # one warms up
        cache = cache_of()
        token = prefill(model, cache, prompt)
        start = now()
        decode(step, cache, token, prompt.shape[1], count)
        speeds.append(count / (now() - start))
    return statistics.median(speeds[1:])


def measure_eager(model, prompt, count, repeat):
    speed = decode_speed(model, stepper(model), grown_cache(model), prompt, count, repeat)
    show("decode", speed, "tok/s")


def measure_traced(model, prompt, count, repeat):
    plain = stepper(model)
    traced = Statistics(model)

    def step(token, position, cache):
        traced.pending.clear()  # the prompt's, before the first token
        token = plain(token, position, cache)
        traced.fetch()
        return token

    speed = decode_speed(model, step, grown_cache(model), prompt, count, repeat)
    traced.remove()
    per_token = len(traced.rows) / ((repeat + 1) * count)
    show("decode_traced", speed, "tok/s")
    show("decode_rows", speed * per_token, "rows/s")
    show("rows_per_token", per_token, "rows")


def measure_compiled(model, prompt, count, repeat):
    # A multiple of 64 rows, as the masks of fast attention want it.
    rows = -(-(prompt.shape[1] + count + 1) // 64) * 64
    cache = StaticCache(config=model.config, max_cache_len=rows)
    compiled = torch.compile(stepper(model), mode="reduce-overhead", fullgraph=True)

    def step(token, position, same_cache):
        # The graph's output is overwritten by its next run.
        return compiled(token, position, same_cache).clone()

    def emptied():
        cache.reset()
        return cache

    token = prefill(model, cache, prompt)  # the cache gets its place before anything is compiled
    decode(step, cache, token, prompt.shape[1], 8)
    speed = decode_speed(model, step, emptied, prompt, count, repeat)
    skips = torch._dynamo.utils.counters["inductor"]["cudagraph_skips"]
    if skips:
        print(f"hf_speed.py: torch.compile left {skips} graphs without CUDA graphs", file=sys.stderr)
    show("decode_compiled", speed, "tok/s")


def main():
    parser = argparse.ArgumentParser(description="Speed of Hugging Face transformers")
    parser.add_argument("--dtype", choices=("float16", "bfloat16"), default="float16")
    parser.add_argument("--prompt", type=int, default=2048)
    parser.add_argument("--decode", type=int, default=48)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    model = llama3_8b(getattr(torch, options.dtype))
    ids = [(i * 7919 + 13) % model.config.vocab_size for i in range(options.prompt)]
    prompt = torch.tensor([ids], device="cuda")
    with torch.inference_mode():
        measure_prefill(model, prompt, options.repeat)
        measure_eager(model, prompt, options.decode, options.repeat)
        measure_traced(model, prompt, options.decode, options.repeat)
    with torch.no_grad():  # what is made in inference mode has no place in a compiled graph
        measure_compiled(model, prompt, options.decode, options.repeat)


if __name__ == "__main__":
    main()
