"""A GGUF model of Llama, Qwen2 or Qwen3 as a PyTorch model with Hugging Face's modules.

load(path): of transformers where it is installed, else of this file: plain float32 PyTorch, from the
paper's formulas, one function per step, with the names and calling conventions that greta.torch and
Hugging Face share. Both get the same state dict. Tensors are F32 or F16; F32 ones are mapped, not copied,
but for q and k of Llama: a GGUF has their rows in the order for a RoPE that turns 2i with 2i + 1, Hugging
Face in that for one that turns i with i + d/2.
"""

import math
import struct
import types

import numpy
import torch
from torch import nn
from torch.nn import functional

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
            12: "<d"}
_STRING, _ARRAY = 8, 9
_TYPES = {0: numpy.float32, 1: numpy.float16}
_META = "meta"  # a device without memory: the file's tensors take the place of what is made there


class Gguf:
    """A file of version 2 or 3: `metadata` by key, `tensors` by name, as numpy arrays."""

    def __init__(self, path):
        self._data = numpy.memmap(path, numpy.uint8, mode="c")
        self._at = 0
        magic, version, n_tensors, n_pairs = (self._bytes(4), *(self._scalar(t) for t in (4, 10, 10)))
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError(f"{path} is no GGUF file of version 2 or 3")
        self.metadata = {self._text(): self._value(self._scalar(4)) for _ in range(n_pairs)}
        entries = [self._entry() for _ in range(n_tensors)]
        alignment = self.metadata.get("general.alignment", 32)
        start = -(-self._at // alignment) * alignment
        self.tensors = {name: self._tensor(start + offset, shape, kind)
                        for name, shape, kind, offset in entries}

    def _bytes(self, n):
        self._at += n
        return self._data[self._at - n:self._at].tobytes()

    def _scalar(self, kind):
        form = _SCALARS[kind]
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    def _text(self):
        return self._bytes(self._scalar(10)).decode(errors="replace")

    def _value(self, kind):
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            of, n = self._scalar(4), self._scalar(10)
            return [self._value(of) for _ in range(n)]
        return self._scalar(kind)

    def _entry(self):
        name, n_dims = self._text(), self._scalar(4)
        shape = [self._scalar(10) for _ in range(n_dims)]
        return name, shape[::-1], self._scalar(4), self._scalar(10)

    def _tensor(self, start, shape, kind):
        if kind not in _TYPES:
            raise ValueError(f"a tensor of GGML type {kind}: only F32 and F16 are read here")
        dtype = numpy.dtype(_TYPES[kind])
        end = start + math.prod(shape) * dtype.itemsize
        return self._data[start:end].view(dtype).reshape(shape)


def config_of(gguf):
    """The model's configuration, with Hugging Face's names."""
    kind = gguf.metadata["general.architecture"]
    if kind not in ("llama", "qwen2", "qwen3"):
        raise ValueError(f"architecture {kind}: only llama, qwen2 and qwen3 are read here")

    def key(name, otherwise=None):
        return gguf.metadata.get(f"{kind}.{name}", otherwise)

    if key("rope.scaling.type", "none") != "none" or "rope_freqs.weight" in gguf.tensors:
        raise ValueError("RoPE that is scaled is not computed here")
    n_heads, hidden = key("attention.head_count"), key("embedding_length")
    return types.SimpleNamespace(
        model_type=kind, num_hidden_layers=key("block_count"), hidden_size=hidden,
        intermediate_size=key("feed_forward_length"), num_attention_heads=n_heads,
        num_key_value_heads=key("attention.head_count_kv", n_heads),
        head_dim=key("attention.key_length", hidden // n_heads),
        vocab_size=gguf.tensors["token_embd.weight"].shape[0],
        max_position_embeddings=key("context_length"),
        rms_norm_eps=key("attention.layer_norm_rms_epsilon"),
        rope_theta=key("rope.freq_base", 10000.0),
        attention_bias="blk.0.attn_q.bias" in gguf.tensors,
        tie_word_embeddings="output.weight" not in gguf.tensors)


_IN_BLOCK = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj"}
_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def state_dict_of(gguf, config):
    """The weights by Hugging Face's names, float32."""
    state = {}
    for name, array in gguf.tensors.items():
        parts = name.split(".")
        if parts[0] == "blk":
            module = f"model.layers.{parts[1]}.{_IN_BLOCK[parts[2]]}"
        else:
            module = _OUTSIDE[parts[0]]
        tensor = torch.from_numpy(numpy.asarray(array)).float()
        if config.model_type == "llama" and module.endswith(("q_proj", "k_proj")):
            tensor = _halves(tensor, config.head_dim)
        state[f"{module}.{parts[-1]}"] = tensor
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return state


def _halves(rows, head_dim):
    """Of every head, first the rows 2i and then the rows 2i + 1."""
    return rows.unflatten(0, (-1, head_dim // 2, 2)).transpose(1, 2).flatten(0, 2).contiguous()


def load(path, of_transformers=None):
    """The model, ready to compute, on the CPU. of_transformers: None where it is installed."""
    gguf = Gguf(path)
    config = config_of(gguf)
    state = state_dict_of(gguf, config)
    model = _from_transformers(config) if of_transformers else None
    if of_transformers is None:
        try:
            model = _from_transformers(config)
        except ImportError:
            pass
    if model is None:
        model = LlamaForCausalLM(config)
    _assign(model, state)
    return model.eval()


def _from_transformers(config):
    from transformers import AutoConfig, AutoModelForCausalLM

    given = dict(vars(config))
    theta = given.pop("rope_theta")
    kind = given.pop("model_type")
    made = AutoConfig.for_model(
        kind, rope_parameters={"rope_type": "default", "rope_theta": theta}, **given)
    return AutoModelForCausalLM.from_config(made, attn_implementation="eager")


def _assign(model, state):
    """Gives every parameter its tensor of the state dict; all of both must be used."""
    known = {f"{path}.{name}": parameter for path, module in model.named_modules()
             for name, parameter in vars(module)["_parameters"].items() if parameter is not None}
    lacking = set(known) - set(state)
    unknown = set(state) - set(known)
    if lacking or unknown:
        raise ValueError(f"not in the file: {sorted(lacking)}; not in the model: {sorted(unknown)}")
    for name, tensor in state.items():
        path, _, attribute = name.rpartition(".")
        if known[name].shape != tensor.shape:
            raise ValueError(f"{name} is {list(tensor.shape)}, not {list(known[name].shape)}")
        setattr(model.get_submodule(path), attribute, nn.Parameter(tensor, requires_grad=False))


# ---- The model, for where transformers is not installed


def rotate_half(x):
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def apply_rotary_pos_emb(q, k, cos, sin):
    """q and k [sequences, heads, tokens, head_dim], turned; cos and sin [sequences, tokens, head_dim]."""
    cos, sin = cos[:, None], sin[:, None]
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class RmsNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, device=_META))
        self.eps = eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Cache:
    """K and V of every layer, [sequences, KV heads, tokens, head_dim]."""

    def __init__(self):
        self._layers = []

    def update(self, layer, k, v):
        """Appends rows; all of them."""
        if layer == len(self._layers):
            self._layers.append((k, v))
        else:
            before = self._layers[layer]
            self._layers[layer] = tuple(torch.cat(pair, 2) for pair in zip(before, (k, v)))
        return self._layers[layer]

    def get_seq_length(self):
        return self._layers[0][0].shape[2] if self._layers else 0

    def crop(self, n_tokens):
        """Keeps the first tokens, or, where n_tokens is negative, drops so many of the last."""
        self._layers = [tuple(part[:, :, :n_tokens] for part in layer) for layer in self._layers]


class Attention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.layer_idx, self.head_dim = layer_idx, config.head_dim
        self.group = config.num_attention_heads // config.num_key_value_heads
        q_dim = config.num_attention_heads * config.head_dim
        kv_dim = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, q_dim, bias=config.attention_bias, device=_META)
        self.k_proj = nn.Linear(config.hidden_size, kv_dim, bias=config.attention_bias, device=_META)
        self.v_proj = nn.Linear(config.hidden_size, kv_dim, bias=config.attention_bias, device=_META)
        self.o_proj = nn.Linear(q_dim, config.hidden_size, bias=False, device=_META)
        normed = config.model_type == "qwen3"
        self.q_norm = RmsNorm(config.head_dim, config.rms_norm_eps) if normed else None
        self.k_norm = RmsNorm(config.head_dim, config.rms_norm_eps) if normed else None

    def forward(self, hidden_states, position_embeddings, cache):
        q, k, v = (self._heads(project(hidden_states))
                   for project in (self.q_proj, self.k_proj, self.v_proj))
        if self.q_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = apply_rotary_pos_emb(q, k, *position_embeddings)
        if cache is not None:
            k, v = cache.update(self.layer_idx, k, v)
        return self.o_proj(self._attend(q, k, v).transpose(1, 2).flatten(2))

    def _heads(self, x):
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def _attend(self, q, k, v):
        k, v = (x.repeat_interleave(self.group, 1) for x in (k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.head_dim)
        n_q, n_k = scores.shape[-2:]
        hidden = torch.ones(n_q, n_k, dtype=torch.bool, device=q.device).triu(n_k - n_q + 1)
        return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False, device=_META)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False, device=_META)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False, device=_META)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.input_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer_idx)
        self.post_attention_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = Mlp(config)

    def forward(self, x, position_embeddings, cache):
        x = x + self.self_attn(self.input_layernorm(x), position_embeddings, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class LlamaModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, device=_META)
        self.layers = nn.ModuleList(
            [DecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, input_ids, position_ids=None, past_key_values=None):
        x = self.embed_tokens(input_ids)
        if position_ids is None:
            past = past_key_values.get_seq_length() if past_key_values is not None else 0
            position_ids = torch.arange(past, past + input_ids.shape[1], device=x.device)[None]
        embeddings = self._turns(position_ids)
        for layer in self.layers:
            x = layer(x, embeddings, past_key_values)
        return self.norm(x)

    def _turns(self, position_ids):
        """Cosine and sine of every position and value."""
        dim, theta = self.config.head_dim, self.config.rope_theta
        frequencies = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angles = position_ids[..., None].double() * frequencies.to(position_ids.device)
        angles = torch.cat((angles, angles), -1)
        return angles.cos().float(), angles.sin().float()


class LlamaForCausalLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = LlamaModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False, device=_META)

    def forward(self, input_ids=None, position_ids=None, past_key_values=None, use_cache=None,
                logits_to_keep=0):
        if use_cache and past_key_values is None:
            past_key_values = Cache()
        hidden = self.model(input_ids, position_ids, past_key_values)
        logits = self.lm_head(hidden[:, -logits_to_keep:])
        return types.SimpleNamespace(logits=logits, past_key_values=past_key_values)
