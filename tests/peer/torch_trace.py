#!/usr/bin/env python3
"""PyTorch as an engine that greta judges: a GGUF model by greta.torch.

    torch_trace.py MODEL.gguf --db greta.db --tokens NAME=1,15043,29892 [...]
    torch_trace.py MODEL.gguf --db greta.db --bench PROMPT DECODE

The first adds a run of these prompts (greta.torch.probe) and prints its name. The second prints what
tracing costs: tokens per second of prefill and decode, plain and traced, medians of runs that take turns;
on a CPU per second of processor time (give it one thread, for those that wait count). The model is Hugging Face's where transformers is installed, else that of
gguf_llama.py; q and k have the order of the GGUF. Needs the module greta: installed, or by PYTHONPATH and
GRETA_TRACE_LIBRARY.
"""

import argparse
import contextlib
import pathlib
import statistics
import time

import torch

import gguf_llama
import greta
import greta.torch


def prompts_of(options):
    prompts = {}
    for given in options.tokens:
        name, _, ids = given.partition("=")
        prompts[name] = [int(token) for token in ids.split(",")]
    return prompts


def begin_run(options):
    given = {"run": options.run_name, "model_sha256": options.model_sha256}
    return greta.Run(options.db, experiment=options.experiment, backend=options.device,
                     dtype=options.dtype, model=pathlib.Path(options.model).stem,
                     attributes={"engine": f"PyTorch {torch.__version__}"},
                     **{name: value for name, value in given.items() if value})


def selection_of(options):
    return {"tensors": options.tensors and options.tensors.split(","),
            "layers": options.layers and [int(layer) for layer in options.layers.split(",")],
            "positions": options.positions, "qk_order": "gguf"}


def seconds(options):
    """On a CPU of all its threads, so that what else the machine does is left out."""
    if options.device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def once(model, options, n_prompt, n_decode):
    """Seconds of prefill and of decode."""
    vocab = model.config.vocab_size
    ids = torch.tensor([[(i * 7919 + 13) % vocab for i in range(n_prompt)]], device=options.device)
    start = seconds(options)
    output = model(input_ids=ids, use_cache=True, logits_to_keep=1)
    prefilled = seconds(options)
    for i in range(n_decode):
        token = torch.tensor([[(i * 31 + 5) % vocab]], device=options.device)
        output = model(input_ids=token, past_key_values=output.past_key_values, use_cache=True)
    return prefilled - start, seconds(options) - prefilled


def bench(model, options):
    n_prompt, n_decode = options.bench
    times = {"plain": [], "traced": []}
    with begin_run(options) as run, torch.no_grad():
        tracer = greta.torch.trace(model, run, **selection_of(options))
        for _ in range(options.repeat + 1):
            for name, context in (("plain", contextlib.nullcontext()), ("traced", tracer)):
                with context:
                    times[name].append(once(model, options, n_prompt, n_decode))
    for number, (phase, n) in enumerate((("prefill", n_prompt), ("decode", n_decode))):
        speed = {name: n / statistics.median(both[number] for both in runs[1:])  # one warms up
                 for name, runs in times.items()}
        print(f"{phase} {n}: plain {speed['plain']:.1f} tok/s, traced {speed['traced']:.1f} tok/s, "
              f"{speed['plain'] / speed['traced'] - 1:+.1%}")


def main():
    parser = argparse.ArgumentParser(description="PyTorch as an engine that greta judges")
    parser.add_argument("model")
    parser.add_argument("--db", required=True)
    parser.add_argument("--tokens", action="append", default=[], metavar="NAME=ID,ID,...")
    parser.add_argument("--bench", nargs=2, type=int, metavar=("PROMPT", "DECODE"))
    parser.add_argument("--decode-steps", type=int, default=0)
    parser.add_argument("--experiment", default="pytorch")
    parser.add_argument("--run-name")
    parser.add_argument("--model-sha256")
    parser.add_argument("--tensors")
    parser.add_argument("--layers")
    parser.add_argument("--positions", default="last")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="f32", choices=("f32", "f16", "bf16"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    model = gguf_llama.load(options.model).to(options.device, types[options.dtype])
    if options.bench:
        return bench(model, options)
    with begin_run(options) as run:
        greta.torch.probe(model, run, prompts_of(options), decode_steps=options.decode_steps,
                          **selection_of(options))
        print(run.name)


if __name__ == "__main__":
    main()
