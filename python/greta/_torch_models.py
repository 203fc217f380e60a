"""What greta.torch is to know of other people's models: their modules, what a pass is given, their caches."""

import torch


def check_modules(base):
    """Raises ValueError where the modules are not those of the models that trace() knows."""
    def check(owner, path, names):
        lacking = [name for name in names if getattr(owner, name, None) is None]
        if lacking:
            raise ValueError(f"{type(owner).__name__} ({path}) has no {lacking[0]}: not a model with "
                             "the modules of Hugging Face's Llama")

    check(base, "model", ("embed_tokens", "layers", "norm"))
    norms = ("input_layernorm", "post_attention_layernorm")
    for number, layer in enumerate(base.layers):
        path = f"model.layers.{number}"
        check(layer, path, ("self_attn", "mlp") + norms)
        check(layer.self_attn, path + ".self_attn", ("q_proj", "k_proj", "v_proj", "o_proj"))
        check(layer.mlp, path + ".mlp", ("gate_proj", "up_proj", "down_proj"))
        others = [name for name, _ in layer.named_children() if "norm" in name and name not in norms]
        if others:
            raise ValueError(f"{path}.{others[0]}: with norms elsewhere than in Llama, what the "
                             "modules are given is something else")


def is_turned_in_a_gguf(model):
    """Whether a GGUF of the model has the rows of q and k in another order."""
    kind = getattr(getattr(model, "config", None), "model_type", None)
    known = {"llama": True, "mistral": True, "qwen2": False, "qwen3": False}
    if kind not in known:
        raise ValueError(f"how a GGUF of model_type {kind!r} orders q and k is not known; there are "
                         f"{', '.join(known)}")
    return known[kind]


def cached(cache):
    """How many tokens a cache holds."""
    if cache is None:
        return 0
    if hasattr(cache, "get_seq_length"):
        return int(cache.get_seq_length())
    return cache[0][0].shape[-2] if len(cache) > 0 else 0


def cropped(cache, n_tokens):
    """A cache of its first tokens; None where there are none."""
    if n_tokens == 0:
        return None
    if hasattr(cache, "crop"):
        # How many tokens go: a number of those that stay is taken otherwise by transformers 5.18.
        n_dropped = cached(cache) - n_tokens
        if n_dropped > 0:
            cache.crop(-n_dropped)
        return cache
    if isinstance(cache, tuple):
        return tuple(tuple(part[..., :n_tokens, :] for part in layer) for layer in cache)
    raise ValueError(f"a cache of {type(cache).__name__} cannot be cut back to {n_tokens} tokens")


def positions(arguments, past, n_sequences, n_tokens):
    """Positions of a pass, a list for every sequence."""
    for name in ("position_ids", "cache_position"):
        given = arguments.get(name)
        if given is not None:
            rows = given.reshape(-1, n_tokens).tolist()
            return rows * n_sequences if len(rows) == 1 else rows
    return [list(range(past, past + n_tokens))] * n_sequences


def not_padding(mask, n_sequences, n_tokens):
    """Which tokens of a pass are no padding, a list for every sequence."""
    if not torch.is_tensor(mask) or mask.dim() != 2:
        return [[True] * n_tokens] * n_sequences
    return (mask[:, -n_tokens:] != 0).tolist()
