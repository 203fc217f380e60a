"""Traces of PyTorch models whose modules have the names of Hugging Face's Llama.

    import greta, greta.torch
    with greta.Run("greta.db", experiment="rollout", dtype="bf16") as run:
        greta.torch.probe(model, run, {"greeting": [1, 15043, 29892]})   # prefill against decode
    with greta.Run("greta.db", experiment="rollout", dtype="bf16") as run:
        with greta.torch.trace(model, run):                              # what is computed anyway
            model.generate(ids)

Llama, Mistral, Qwen2 and Qwen3, of transformers or of one's own, on any device: what counts is that
the modules are called model.embed_tokens, model.layers.N.{input_layernorm, self_attn.{q,k,v,o}_proj,
post_attention_layernorm, mlp.{gate,up,down}_proj}, model.norm and lm_head. A model that computes
something else under these names (norms behind attention or MLP, experts) is refused by name. RoPE is
the function apply_rotary_pos_emb beside the class of self_attn: what goes in is q_pre_rope and
k_pre_rope, behind biases and norms of heads, and what comes out q_post_rope and k_post_rope.

Rows are what the model computed: nothing is computed a second time. Eager mode only: of a compiled
or exported model hooks see nothing.
"""

import contextlib
import functools
import inspect
import sys
import threading
import weakref

import torch

import greta
from greta import _torch_models as models

__all__ = ["TENSORS", "Tracer", "probe", "trace"]

#: What can be traced, in forward order.
TENSORS = (
    "embed_out", "attn_norm_out", "q_pre_rope", "k_pre_rope", "v_proj", "q_post_rope", "k_post_rope",
    "attn_out", "wo_out", "residual_post_attn", "ffn_norm_in", "mlp_out", "residual_post_mlp",
    "final_norm", "logits")
_EMBEDDING = ("embed_out",)  # of layer 0
_HEAD = ("final_norm", "logits")
_ROPE = "apply_rotary_pos_emb"
_PHASES = ("prefill_last", "prefill", "decode0", "decode")
_PENDING_BYTES = 256 << 20  # of rows on a device that wait for their copy

_selections = weakref.WeakKeyDictionary()  # what is traced, by run


def trace(model, run, *, tensors=None, layers=None, positions="last", qk_order="model"):
    """A context in which every forward pass of `model` adds rows to `run`, a greta.Run.

    tensors, layers: names and numbers to trace; None: all.
    positions: "last", of every pass the last token of each sequence; "all", every token.
    qk_order: how the values of a head of q and k are ordered. "model": as the model has them.
        "gguf": of Llama and Mistral, as a GGUF of the model has them, whose RoPE turns 2i with
        2i + 1 and not i with i + d/2, so that rows compare with those of llama.cpp and greta-infer.
        (A GGUF of Qwen2 or Qwen3 has the order of the model.)

    A pass on an empty cache begins a prompt, for every sequence of the batch: prompt_0, prompt_1, ...
    in their order, or as Tracer.prompt() names them. Its tokens are of phase prefill, as are those of
    later passes of several tokens; a pass of one token is of phase decode0, and those after it decode.
    Positions are position_ids or cache_position where the model is given them, else they follow the
    cache. Padding (attention_mask 0) has no rows. Whoever wants a verdict calls probe(): a generation
    computes no token twice.

    Raises ValueError for a model that it cannot trace and a selection that there is not; what
    greta.Run raises leaves the forward pass.
    """
    return Tracer(model, run, tensors, layers, positions, qk_order)


def probe(model, run, prompts, *, decode_steps=0, tensors=None, layers=None, positions="last",
          qk_order="model"):
    """Computes the last token of each prompt twice, by prefill and by decode, and adds both to `run`.

    prompts: names to token ids, as {"greeting": [1, 15043]}.
    decode_steps: how many tokens are decoded greedily after that, and then prefilled with the prompt.

    As `greta-infer probe`: the prompt at once (prefill_last), its last token alone on the cache of
    those before it (decode0), the tokens after it (decode), and these once more by prefill
    (prefill_last). With a plan, so that a row that is lacking leaves the run INCOMPLETE. The cache is
    what the model returns as past_key_values: an object with get_seq_length() and crop(-n), which drops
    its last n tokens, or tuples of tensors.
    """
    selection = Tracer(model, run, tensors, layers, positions, qk_order)
    phases = [phase for phase in _PHASES
              if (phase != "prefill" or positions == "all") and (phase != "decode" or decode_steps)]
    selection.phases = ",".join(phases)
    with selection as tracer, torch.no_grad():
        for name, tokens in dict(prompts).items():
            tracer.probe(name, [int(token) for token in tokens], decode_steps)


class _Sequence:
    """A prompt and where it stands."""

    def __init__(self, name):
        self.name = name
        self.step = 0  # of the last token decoded


class _Stretch:
    """Tokens of a pass that follow each other in their sequence and are traced alike."""

    def __init__(self, number, first, pos, token, place):
        self.number, self.first, self.n = number, first, 1  # sequence of the batch, its tokens
        self.pos = pos
        self.token_ids = None if token is None else [token]
        self.place = place  # what else run.rows() is told

    def take(self, i, pos, token, place):
        """Appends token i of the same sequence, if it belongs here."""
        follows = i == self.first + self.n and pos == self.pos + self.n
        if not follows or place != self.place or (token is None) != (self.token_ids is None):
            return False
        self.n += 1
        if token is not None:
            self.token_ids.append(token)
        return True


class Tracer:
    """What trace() returns; enter it."""

    def __init__(self, model, run, tensors, layers, positions, qk_order):
        self._run = run
        self._model = model
        self._base = getattr(model, "model", model)
        models.check_modules(self._base)
        self._head = getattr(model, "lm_head", None)
        n_layers = len(self._base.layers)
        self._tensors = _chosen(tensors, TENSORS, "tensor")
        self._layers = _chosen(layers, range(n_layers), "layer")
        self._layers_text = "all" if layers is None else ",".join(map(str, self._layers))
        if positions not in ("last", "all"):
            raise ValueError(f"positions is 'last' or 'all', not {positions!r}")
        if qk_order not in ("model", "gguf"):
            raise ValueError(f"qk_order is 'model' or 'gguf', not {qk_order!r}")
        self._every = positions == "all"
        self._interleaves = qk_order == "gguf" and models.is_turned_in_a_gguf(model)
        if "logits" in self._tensors and self._head is None:
            raise ValueError("the model has no lm_head: leave logits out of tensors")
        self._rope_module = self._module_of_rope()
        self._signature = inspect.signature(model.forward)
        self._names = []  # of the prompts to come
        self._begun = 0
        self._sequences = []
        self._expected = None  # what probe() says of the next pass
        self._stretches = None  # that are traced of the pass under way
        self._pending, self._pending_bytes = [], 0
        self._layer = None  # whose attention is under way
        self._is_entered = False
        self._thread = None
        self.phases = "prefill,decode0,decode"

    # ---- Hooks

    def __enter__(self):
        self._state_selection()
        self._undo = contextlib.ExitStack()
        try:
            self._install()
        except BaseException:
            self._undo.close()
            raise
        self._is_entered = True
        return self

    def __exit__(self, *_):
        self._is_entered = False
        self._undo.close()

    def _install(self):
        base = self._base
        self._replace(self._model, "forward", self._traced_forward(self._model.forward))
        self._output(base.embed_tokens, "embed_out", 0)
        for number in self._layers:
            layer = base.layers[number]
            attention = layer.self_attn
            self._output(layer.input_layernorm, "attn_norm_out", number)
            self._output(attention.v_proj, "v_proj", number)
            self._input(attention.o_proj, "attn_out", number)
            self._output(attention.o_proj, "wo_out", number)
            self._input(layer.post_attention_layernorm, "residual_post_attn", number)
            self._output(layer.post_attention_layernorm, "ffn_norm_in", number)
            self._output(layer.mlp, "mlp_out", number)
            self._output(layer, "residual_post_mlp", number)
            if self._rope_module is not None:
                self._hook(attention.register_forward_pre_hook(self._enter_attention(number)))
                self._hook(attention.register_forward_hook(self._leave_attention))
        if self._rope_module is not None:
            self._replace(self._rope_module, _ROPE,
                          self._traced_rope(getattr(self._rope_module, _ROPE)))
        self._output(base.norm, "final_norm", greta.AFTER_STACK)
        if self._head is not None:
            self._output(self._head, "logits", greta.AFTER_STACK)

    def _module_of_rope(self):
        """The Python module with the function that turns q and k; None when neither is wanted."""
        wanted = [name for name in self._tensors if name.endswith("_rope")]
        if not wanted or not self._layers:
            return None
        kind = type(self._base.layers[0].self_attn)
        module = sys.modules[kind.__module__]
        if not hasattr(module, _ROPE):
            raise ValueError(f"{kind.__module__}, where {kind.__name__} is from, has no {_ROPE}: "
                             f"leave {', '.join(wanted)} out of tensors")
        return module

    def _hook(self, handle):
        self._undo.callback(handle.remove)

    def _replace(self, owner, name, replacement):
        """Sets an attribute until the tracer is left."""
        had = vars(owner).get(name)
        setattr(owner, name, replacement)

        def restore():
            # Whoever replaced it after us has ours inside, which then only passes on.
            if vars(owner).get(name) is replacement:
                delattr(owner, name) if had is None else setattr(owner, name, had)

        self._undo.callback(restore)

    def _output(self, module, tensor, layer):
        if tensor in self._tensors:
            def hook(_module, _inputs, output):
                self._note(tensor, layer, output[0] if isinstance(output, tuple) else output)

            self._hook(module.register_forward_hook(hook))

    def _input(self, module, tensor, layer):
        if tensor in self._tensors:
            def hook(_module, inputs):
                if not inputs:
                    raise ValueError(f"{tensor}: the module is called without a positional argument")
                self._note(tensor, layer, inputs[0])

            self._hook(module.register_forward_pre_hook(hook))

    def _enter_attention(self, layer):
        def hook(_module, _inputs):
            self._layer = layer

        return hook

    def _leave_attention(self, *_):
        self._layer = None

    def _traced_rope(self, rope):
        @functools.wraps(rope)
        def turn(q, k, *args, **kwargs):
            turned = rope(q, k, *args, **kwargs)
            # The function is that of all models of this kind.
            if self._layer is not None and self._thread == threading.get_ident():
                for name, heads in zip(("q_pre_rope", "k_pre_rope", "q_post_rope", "k_post_rope"),
                                       (q, k, *turned)):
                    if name in self._tensors:
                        self._note(name, self._layer, self._by_token(heads))
            return turned

        return turn

    def _by_token(self, heads):
        """[sequences, heads, tokens, values] as [sequences, tokens, ...], without a copy."""
        heads = heads.transpose(1, 2)
        if self._interleaves:
            heads = heads.unflatten(-1, (2, heads.shape[-1] // 2)).transpose(-1, -2)
        return heads

    def _traced_forward(self, forward):
        @functools.wraps(forward)
        def traced(*args, **kwargs):
            if not self._is_entered:
                return forward(*args, **kwargs)
            if self._stretches is not None:
                if self._thread != threading.get_ident():
                    raise RuntimeError("two threads compute with a model that is traced")
                return forward(*args, **kwargs)  # a model that calls itself
            self._begin(self._arguments(args, kwargs))
            try:
                output = forward(*args, **kwargs)
                self._copy_pending()
                return output
            finally:
                self._stretches = self._layer = None
                self._pending, self._pending_bytes = [], 0

        return traced

    # ---- Passes

    def prompt(self, *names):
        """Names the prompts of the next pass on an empty cache, one for each sequence."""
        self._names = list(names)

    def _arguments(self, args, kwargs):
        arguments = dict(self._signature.bind_partial(*args, **kwargs).arguments)
        for parameter in self._signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                arguments.update(arguments.pop(parameter.name, {}))
        return arguments

    def _begin(self, arguments):
        """Works out which rows of the pass are traced, and as what."""
        self._thread = threading.get_ident()
        ids = arguments.get("input_ids")
        shape = arguments["inputs_embeds"].shape if ids is None else ids.shape
        n_sequences, self._n_tokens = shape[0], shape[1]
        tokens = [[None] * self._n_tokens] * n_sequences if ids is None else ids.tolist()
        past = models.cached(arguments.get("past_key_values"))
        positions = models.positions(arguments, past, n_sequences, self._n_tokens)
        real = models.not_padding(arguments.get("attention_mask"), n_sequences, self._n_tokens)
        self._check_logits(arguments)
        expected, self._expected = self._expected, None
        if expected is None:
            expected = self._guess(past, tokens, real)
        last, others, first_pos, step = expected
        self._stretches = []
        for number, sequence in enumerate(self._sequences):
            traced = [i for i in range(self._n_tokens)
                      if real[number][i] and positions[number][i] >= first_pos]
            for i in traced:
                phase = last if i == traced[-1] else others
                if phase is not None:
                    place = {"prompt": sequence.name, "phase": phase, "step": step}
                    self._trace(number, i, positions[number][i], tokens[number][i], place)

    def _trace(self, number, i, pos, token, place):
        before = self._stretches[-1] if self._stretches else None
        if before is None or before.number != number or not before.take(i, pos, token, place):
            self._stretches.append(_Stretch(number, i, pos, token, place))

    def _guess(self, past, tokens, real):
        """What a pass is that nobody announced: phases of its last and other tokens, first position
        to trace, step."""
        others = "prefill" if self._every else None
        if past == 0:
            self._begin_prompts(tokens, real)
            return "prefill", others, 0, 0
        if len(tokens) != len(self._sequences):
            raise ValueError(f"a cache of {past} tokens, and {len(tokens)} sequences where "
                             f"{len(self._sequences)} began while they were traced")
        if self._n_tokens > 1:
            return "prefill", others, 0, 0
        for sequence in self._sequences:
            sequence.step += 1
        step = self._sequences[0].step
        return "decode0" if step == 1 else "decode", None, 0, step

    def _begin_prompts(self, tokens, real):
        names, self._names = self._names, []
        if not names:
            names = [f"prompt_{self._begun + i}" for i in range(len(tokens))]
        if len(names) != len(tokens):
            raise ValueError(f"{len(names)} names for {len(tokens)} sequences")
        self._sequences = []
        for name, row, kept in zip(names, tokens, real):
            ids = [token for token, is_real in zip(row, kept) if is_real]
            self._run.prompt(name, None if None in ids else ids)
            self._sequences.append(_Sequence(name))
        self._begun += len(tokens)

    def _check_logits(self, arguments):
        for name in ("logits_to_keep", "num_logits_to_keep"):
            keep = arguments.get(name)
            if torch.is_tensor(keep) and "logits" in self._tensors:
                raise ValueError(f"{name} chooses positions by index: leave logits out of tensors")

    # ---- Rows

    def _note(self, tensor, layer, values):
        """Takes the traced rows of values, [sequences, tokens, ...]; of logits perhaps the last ones."""
        if self._stretches is None:
            return
        skipped = self._n_tokens - values.shape[1]
        for stretch in self._stretches:
            lacking = max(0, skipped - stretch.first)
            if lacking >= stretch.n:
                continue
            first = stretch.first - skipped
            rows = values[stretch.number, first + lacking:first + stretch.n].flatten(1)
            if _is_on_host(rows):
                self._add(tensor, layer, stretch, lacking, rows)
            else:
                self._pending.append((tensor, layer, stretch, lacking, rows.detach().clone()))
                self._pending_bytes += rows.numel() * rows.element_size()
        if self._pending_bytes > _PENDING_BYTES:
            self._copy_pending()

    def _copy_pending(self):
        """Copies what lies on a device to the host, all rows of a type at once, and adds it."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        for dtype in dict.fromkeys(rows.dtype for *_, rows in pending):
            same = [one for one in pending if one[-1].dtype == dtype]
            host = torch.cat([rows.reshape(-1) for *_, rows in same]).cpu()
            parts = host.split([rows.numel() for *_, rows in same])
            for (*where, rows), part in zip(same, parts):
                self._add(*where, part.view(rows.shape))

    def _add(self, tensor, layer, stretch, lacking, rows):
        tokens = stretch.token_ids and stretch.token_ids[lacking:]
        self._run.rows(tensor, layer=layer, pos=stretch.pos + lacking, values=rows, token_ids=tokens,
                       **stretch.place)

    # ---- What is known of the run

    def _state_selection(self):
        """The attributes by which greta knows whether two runs were traced alike."""
        stated = {"trace.layers": self._layers_text, "trace.tensors": ",".join(self._tensors),
                  "trace.phases": self.phases}
        known = _selections.setdefault(self._run, stated)
        if known is not stated:
            if known != stated:
                raise ValueError(f"the run is traced as {known}: it cannot hold rows of {stated}")
            return
        for name, value in stated.items():
            self._run.attribute(name, value)

    def _plan(self, prompt):
        of_layers = [name for name in self._tensors if name not in _EMBEDDING + _HEAD]
        places = [(0, name) for name in self._tensors if name in _EMBEDDING]
        places += [(greta.AFTER_STACK, name) for name in self._tensors if name in _HEAD]
        places += [(layer, name) for layer in self._layers for name in of_layers]
        self._run.plan(prompt, [(side, layer, name) for side in ("prefill", "decode")
                                for layer, name in places])

    # ---- A probe

    def probe(self, name, tokens, decode_steps=0):
        """probe() of one prompt, within the context."""
        if not tokens:
            raise ValueError(f"prompt {name} has no tokens")
        self._run.prompt(name, tokens)
        self._plan(name)
        self._sequences = [_Sequence(name)]
        others = "prefill" if self._every else None
        n_prompt = len(tokens)
        cache = self._pass(tokens, None, 0, ("prefill_last", others, 0, 0)).past_key_values
        output = self._pass(tokens[-1:], models.cropped(cache, n_prompt - 1), n_prompt - 1,
                            ("decode0", None, 0, 1))
        decoded = []
        for step in range(decode_steps):
            logits = output.logits[0, -1]
            if not torch.isfinite(logits).any():
                break
            decoded.append(int(torch.argmax(logits)))
            output = self._pass(decoded[-1:], output.past_key_values, n_prompt + step,
                                ("decode", None, 0, step + 2))
        if decoded:
            self._pass(tokens + decoded, None, 0, ("prefill_last", "prefill_last", n_prompt, 0))

    def _pass(self, tokens, cache, first_pos, expected):
        self._expected = expected
        device = self._base.embed_tokens.weight.device
        positions = torch.arange(first_pos, first_pos + len(tokens), device=device)[None]
        return self._model(input_ids=torch.tensor([tokens], device=device), position_ids=positions,
                           past_key_values=cache, use_cache=True)


def _chosen(asked, known, what):
    """Those of `known` that were asked for, in its order."""
    if asked is None:
        return tuple(known)
    unknown = [one for one in asked if one not in known]
    if unknown:
        names = ", ".join(map(str, known))
        raise ValueError(f"no {what} {unknown[0]!r}; there are {names}")
    return tuple(one for one in known if one in asked)


def _is_on_host(values):
    return values.device.type == "cpu"
