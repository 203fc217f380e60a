#!/usr/bin/env python3
"""greta.torch on models with the modules of Hugging Face's Llama: tests/peer/gguf_llama.py, plain PyTorch.

The environment has the path of the module greta, GRETA_DB_PROGRAM and GRETA_INFER_PROGRAM. Exit status 77
where there is no torch or numpy.
"""

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

try:
    import numpy  # noqa: F401: of gguf_llama
    import torch
except ImportError as error:
    print(f"skipped: {error.name} is not there for {sys.executable}")
    sys.exit(77)

try:
    import transformers
except ImportError:
    transformers = None

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peer"))
import gguf_llama
import greta
import greta.torch

PROMPT = [5, 17, 3, 44, 8, 61, 30]
PHASES = ("prefill_last", "prefill", "decode0", "decode")


def random_model(kind="llama"):
    """Two layers, GQA, made on the spot."""
    config = types.SimpleNamespace(
        model_type=kind, num_hidden_layers=2, hidden_size=32, intermediate_size=48,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, vocab_size=64,
        max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0, attention_bias=False,
        tie_word_embeddings=False)
    model = gguf_llama.LlamaForCausalLM(config)
    generator = torch.Generator().manual_seed(7)
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            values = torch.randn(parameter.shape, generator=generator)
            values = values * 0.3 if values.dim() > 1 else 1 + 0.1 * values
            setattr(module, name, torch.nn.Parameter(values, requires_grad=False))
    return model.eval()


class TorchTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = pathlib.Path(self._folder.name)
        self.db = self.folder / "greta.db"

    def run_of(self, name="run", **given):
        return greta.Run(str(self.db), experiment="torch", run=name, dtype="f32", **given)

    def probe(self, model, prompts=None, name="run", **given):
        with self.run_of(name) as run:
            greta.torch.probe(model, run, prompts or {"seven": PROMPT, "one": [9]}, **given)

    def rows(self, columns, where="1", order=None):
        db = sqlite3.connect(f"file:{self.db}?mode=ro", uri=True)
        try:
            return db.execute(f"SELECT {columns} FROM trace WHERE {where} ORDER BY {order or columns}"
                              ).fetchall()
        finally:
            db.close()

    def greta_db(self, *arguments):
        answer = subprocess.run([os.environ["GRETA_DB_PROGRAM"], "--db", self.db, "--format", "json",
                                 *arguments], capture_output=True, text=True)
        self.assertIn(answer.returncode, (0, 1, 3), answer.stderr)
        return json.loads(answer.stdout)

    def verdict(self, name="run"):
        return self.greta_db("firstfail", "--run", name)[0]

    # ---- A verdict of its own

    def test_a_healthy_model_passes_within_rounding(self):
        self.probe(random_model(), decode_steps=2)
        found = self.verdict()
        self.assertEqual(found["verdict"], "PASS")
        self.assertEqual(found["coverage"], "complete")
        # Two prompts: the last token and two behind it, of 12 points in two layers and three outside.
        self.assertEqual(found["pairs"], 2 * 3 * (2 * 12 + 3))

    def test_a_bug_in_decode_is_found_where_it_is(self):
        model = random_model()
        attention = model.model.layers[1].self_attn
        forward = attention.forward

        def late(hidden_states, position_embeddings, cache):
            if hidden_states.shape[1] == 1:
                cos, sin = position_embeddings
                position_embeddings = (cos, -sin)
            return forward(hidden_states, position_embeddings, cache)

        attention.forward = late
        self.probe(model, {"seven": PROMPT})
        found = self.verdict()["first_fail"]
        self.assertEqual((found["tensor"], found["layer"], found["pos_id"]), ("q_post_rope", 1, 6))
        self.assertEqual(found["cause"], "ROPE_DRIFT")

    def test_a_model_that_breaks_down_leaves_a_run_that_is_incomplete(self):
        model = random_model()
        model.model.layers[1].mlp.forward = lambda x: 1 / 0
        with self.assertRaises(ZeroDivisionError):
            self.probe(model)
        self.assertEqual(self.verdict()["verdict"], "INCOMPLETE")

    # ---- Rows

    def test_a_probe_has_every_row_at_its_place(self):
        self.probe(random_model(), {"seven": PROMPT}, decode_steps=2, positions="all",
                   tensors=["mlp_out"], layers=[1])
        rows = self.rows("phase, step, pos_id, token_id, layer, tensor, n")
        decoded = [token for phase, _, _, token, *_ in rows if phase == "decode"]
        expected = [("prefill", 0, pos, PROMPT[pos]) for pos in range(6)]
        expected += [("prefill_last", 0, 6 + i, token) for i, token in enumerate([30] + decoded)]
        expected += [("decode0", 1, 6, 30)]
        expected += [("decode", 2 + i, 7 + i, token) for i, token in enumerate(decoded)]
        self.assertEqual(len(decoded), 2)
        self.assertEqual(rows, sorted((*place, 1, "mlp_out", 32) for place in expected))

    def test_rows_are_what_the_modules_give_and_take(self):
        model = random_model()
        seen = {}
        layer = model.model.layers[1]
        layer.self_attn.o_proj.register_forward_pre_hook(
            lambda _, inputs: seen.update(attn_out=inputs[0][0, -1]))
        layer.register_forward_hook(lambda *call: seen.update(residual_post_mlp=call[2][0, -1]))
        model.lm_head.register_forward_hook(lambda *call: seen.update(logits=call[2][0, -1]))
        with self.run_of() as run, torch.no_grad(), greta.torch.trace(model, run, layers=[1]):
            model(input_ids=torch.tensor([PROMPT]))
        for name, values in seen.items():
            self.assertEqual(self.rows("n, min, max", f"tensor = '{name}'"),
                             [(values.numel(), values.min().item(), values.max().item())])

    def test_a_generation_counts_positions_and_steps(self):
        model = random_model()
        with self.run_of() as run, torch.no_grad(), \
                greta.torch.trace(model, run, tensors=["wo_out"], layers=[0]):
            output = model(input_ids=torch.tensor([PROMPT]), use_cache=True)
            for token in (1, 2, 3):
                output = model(input_ids=torch.tensor([[token]]), use_cache=True,
                               past_key_values=output.past_key_values)
            model(input_ids=torch.tensor([[4, 5]]), use_cache=True)
        self.assertEqual(
            self.rows("prompt, phase, step, pos_id, token_id", order="prompt, pos_id"),
            [("prompt_0", "prefill", 0, 6, 30), ("prompt_0", "decode0", 1, 7, 1),
             ("prompt_0", "decode", 2, 8, 2), ("prompt_0", "decode", 3, 9, 3),
             ("prompt_1", "prefill", 0, 1, 5)])

    def test_sequences_of_a_batch_have_their_names_and_padding_has_no_rows(self):
        class Masked(gguf_llama.LlamaForCausalLM):
            def forward(self, input_ids=None, attention_mask=None, **given):
                return super().forward(input_ids, **given)

        model = random_model()
        model.__class__ = Masked
        ids = torch.tensor([[0, 0, 7, 8], [1, 2, 3, 4]])
        mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
        positions = torch.tensor([[0, 0, 0, 1], [0, 1, 2, 3]])
        with self.run_of() as run, torch.no_grad(), \
                greta.torch.trace(model, run, tensors=["embed_out"], positions="all") as tracer:
            tracer.prompt("short", "long")
            model(input_ids=ids, attention_mask=mask, position_ids=positions)
        self.assertEqual(self.rows("prompt, pos_id, token_id"),
                         [("long", 0, 1), ("long", 1, 2), ("long", 2, 3), ("long", 3, 4),
                          ("short", 0, 7), ("short", 1, 8)])

    def test_logits_that_are_not_computed_have_no_rows(self):
        model = random_model()
        with self.run_of() as run, torch.no_grad(), \
                greta.torch.trace(model, run, tensors=["logits"], positions="all"):
            model(input_ids=torch.tensor([PROMPT]), logits_to_keep=2)
        self.assertEqual(self.rows("pos_id, n"), [(5, 64), (6, 64)])

    def test_half_precision_is_taken_as_it_is(self):
        model = random_model().bfloat16()
        model.model._turns = lambda ids: [x.bfloat16() for x in type(model.model)._turns(model.model, ids)]
        with self.run_of() as run, torch.no_grad(), \
                greta.torch.trace(model, run, tensors=["embed_out"]):
            model(input_ids=torch.tensor([PROMPT]))
        row = model.model.embed_tokens.weight[30].float()
        self.assertEqual(self.rows("min, max"), [(row.min().item(), row.max().item())])

    def test_rows_that_lie_on_a_device_are_the_same(self):
        model = random_model()
        self.probe(model, name="host", positions="all")
        with unittest.mock.patch("greta.torch._is_on_host", lambda values: False):
            self.probe(model, name="device", positions="all")
        found = self.greta_db("compare", "host", "device")
        self.assertEqual((found["verdict"], found["total"]["match"]), ("PASS", found["compared"]))
        self.assertEqual(found["compared"], (7 + 1 + 1 + 1) * (2 * 12 + 3))

    # ---- Hooks

    def test_nothing_is_left_behind(self):
        model = random_model()
        rope = gguf_llama.apply_rotary_pos_emb
        with self.run_of() as run:
            with self.assertRaises(ZeroDivisionError), greta.torch.trace(model, run):
                self.assertIsNot(gguf_llama.apply_rotary_pos_emb, rope)
                1 / 0
        self.assertIs(gguf_llama.apply_rotary_pos_emb, rope)
        self.assertNotIn("forward", vars(model))
        for module in model.modules():
            self.assertFalse(module._forward_hooks or module._forward_pre_hooks)

    def test_who_wraps_the_model_meanwhile_keeps_it_and_it_is_traced_no_more(self):
        model = random_model()
        with self.run_of() as run:
            with greta.torch.trace(model, run):
                traced = model.forward
                model.forward = lambda *args, **given: traced(*args, **given)
                wrapped = model.forward
            self.assertIs(model.forward, wrapped)
            model(input_ids=torch.tensor([PROMPT]))
        self.assertEqual(self.rows("tensor"), [])

    def test_another_model_of_the_same_kind_is_not_traced(self):
        traced, other = random_model(), random_model()
        with self.run_of() as run, greta.torch.trace(traced, run):
            other(input_ids=torch.tensor([PROMPT]))
        self.assertEqual(self.rows("tensor"), [])

    def test_a_cache_is_told_how_many_tokens_to_drop(self):
        cache = unittest.mock.Mock(spec=["crop", "get_seq_length"])
        cache.get_seq_length.return_value = 7
        self.assertIs(greta.torch.models.cropped(cache, 6), cache)
        cache.crop.assert_called_once_with(-1)
        cache.get_seq_length.return_value = 6
        self.assertIs(greta.torch.models.cropped(cache, 6), cache)
        cache.crop.assert_called_once()

    # ---- The models of transformers

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_models_of_transformers_pass_within_rounding(self):
        shape = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96, "vocab_size": 128,
                 "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
        for kind in ("llama", "mistral", "qwen2", "qwen3"):
            config = transformers.AutoConfig.for_model(kind, **shape)
            model = transformers.AutoModelForCausalLM.from_config(config).eval()
            self.probe(model, name=kind, decode_steps=2)
            found = self.verdict(kind)
            self.assertEqual((found["verdict"], found["coverage"]), ("PASS", "complete"), kind)
            self.assertEqual(found["pairs"], 2 * 3 * (2 * 12 + 3))

    # ---- What is refused

    def test_what_cannot_be_traced_is_refused_by_name(self):
        with self.run_of() as run:
            model = random_model()
            for given, word in (({"tensors": ["attn_outt"]}, "attn_outt"), ({"layers": [2]}, "2"),
                                ({"positions": "first"}, "first"), ({"qk_order": "meta"}, "meta")):
                with self.assertRaisesRegex(ValueError, word):
                    greta.torch.trace(model, run, **given)
            model.model.layers[1].pre_feedforward_layernorm = torch.nn.Identity()
            with self.assertRaisesRegex(ValueError, "layers.1.pre_feedforward_layernorm"):
                greta.torch.trace(model, run)
            with self.assertRaisesRegex(ValueError, "granite"):
                greta.torch.trace(random_model("granite"), run, qk_order="gguf")
            model = random_model()
            del model.model.layers[0].mlp.gate_proj
            with self.assertRaisesRegex(ValueError, "gate_proj"):
                greta.torch.trace(model, run)
            with greta.torch.trace(random_model(), run, layers=[0]):
                pass
            with self.assertRaisesRegex(ValueError, "traced as"):
                greta.torch.trace(random_model(), run, layers=[1]).__enter__()

    # ---- The same model in another engine

    def test_greta_infer_computes_the_same_of_every_architecture(self):
        for kind in ("llama", "qwen2", "qwen3"):
            model = self.folder / f"{kind}.gguf"
            infer = os.environ["GRETA_INFER_PROGRAM"]
            subprocess.run([infer, "synth", "--preset", "tiny", "--type", "f32", "--architecture", kind,
                            "--layers", "2", "--out", model], check=True, capture_output=True)
            subprocess.run([infer, "probe", "--model", model, "--db", self.db, "--layers", "all",
                            "--tokens", ",".join(map(str, PROMPT)), "--name", "seven",
                            "--tensors", ",".join(greta.torch.TENSORS), "--decode-steps", "0",
                            "--phases", "prefill_last,decode0", "--run-name", f"{kind}/greta"],
                           check=True, capture_output=True)
            for of_transformers in {False, transformers is not None}:
                name = f"{kind}/{'transformers' if of_transformers else 'torch'}"
                self.probe(gguf_llama.load(model, of_transformers), {"seven": PROMPT}, name,
                           qk_order="gguf")
                found = self.greta_db("compare", f"{kind}/greta", name)
                self.assertEqual(found["verdict"], "PASS", found)
                total = found["total"]
                self.assertEqual(total["match"] + total["rounding"], 2 * (2 * 12 + 3), found)

    def test_q_and_k_in_the_order_of_the_model_are_not_those_of_a_gguf(self):
        model = random_model()
        self.probe(model, {"seven": PROMPT}, "a")
        self.probe(model, {"seven": PROMPT}, "b", qk_order="gguf")
        found = self.greta_db("compare", "a", "b")
        self.assertEqual({one["tensor"] for one in found["by_tensor"] if one["divergent"]},
                         {"q_pre_rope", "k_pre_rope", "q_post_rope", "k_post_rope"})


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    for test, reason in outcome.skipped:
        print(f"skipped: {test.id().split('.')[-1]}: {reason}")
    sys.exit(0 if outcome.wasSuccessful() else 1)
