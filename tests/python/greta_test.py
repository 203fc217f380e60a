"""The module greta: runs written from Python are those of the C API, and values are not copied."""

import array
import gc
import json
import math
import os
import pathlib
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile
import unittest
import weakref

import greta
from greta import _values

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

SOURCE = pathlib.Path(__file__).resolve().parents[2]
U64 = (1 << 64) - 1


def mix64(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & U64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & U64
    return z ^ (z >> 31)


def float_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


class Fingerprints(unittest.TestCase):
    def test_every_field_is_that_of_the_values(self):
        print_ = greta.fingerprint([1, math.inf, -math.inf, math.nan, -2, 0])
        self.assertEqual(
            (print_.n, print_.min, print_.max, print_.mean, print_.abs_sum, print_.sum_sq),
            (6, -2.0, 1.0, -1 / 3, 3.0, 5.0),
        )
        self.assertEqual((print_.nan, print_.inf, print_.nz_count), (1, 2, 5))
        self.assertEqual(sum(abs(bucket) for bucket in print_.sketch), 6.0)

    def test_published_vectors(self):
        page = (SOURCE / "docs/fingerprint.md").read_text()
        hashes = {
            m[1]: int(m[3]) for m in re.finditer(r"^\| (\w+) \| (\d+) \| (\d+) \|", page, re.M)
        }
        dense = lambda n: array.array(
            "f", (((mix64(i + 1) >> 40) - 2**23) * 2.0**-20 for i in range(n))
        )
        rows = {
            "empty": [],
            "zeros": [0.0] * 4096,
            "minus_zero": [-0.0],
            "one": [1.0],
            "least": [2.0**-149],
            "specials": [1, math.inf, -math.inf, math.nan, -2, 0],
            "denormals": [float_of(mix64(i + 1) & 0x807FFFFF) for i in range(256)],
            "wide": [(-1) ** i * 2.0 ** (i - 126) for i in range(251)],
            "any_bits": [float_of(mix64(i + 1) >> 32) for i in range(1000)],
            "dense": dense(4096),
            "greatest": array.array("f", [float_of(0x7F7FFFFF)]) * 2097152,
        }
        self.assertEqual(set(rows) | {"long"}, set(hashes))
        for name, row in rows.items():
            self.assertEqual(greta.fingerprint(row).hash, hashes[name], name)

    def test_16_bits_say_their_dtype(self):
        bits = array.array("H", [0x3F80, 0xC000])  # 1, -2
        self.assertEqual(greta.fingerprint(bits, dtype="bf16"), greta.fingerprint([1.0, -2.0]))
        self.assertRaises(TypeError, greta.fingerprint, bits)
        self.assertRaises(ValueError, greta.fingerprint, bits, dtype="f8")


class Runs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "g.db")

    def tearDown(self):
        self.folder.cleanup()

    def ask(self, sql):
        connection = sqlite3.connect(self.file)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def test_a_run_is_written(self):
        with greta.Run(
            self.file,
            experiment="rollout",
            mode="eager",
            date="2026-11-24",
            dtype="f32",
            attributes={"engine": ["a", "b"], "threads": 2},
        ) as run:
            self.assertEqual(run.name, "2026-11-24/rollout/eager")
            run.prompt("p0", [1, 2, 3], text="abc")
            run.plan("p0", [("prefill", 3, "attn_out")])
            run.rows("attn_out", layer=3, pos=0, values=[[1, 2], [3, 4]], token_ids=[1, 2])
            run.row(
                "attn_out", layer=3, pos=17, values=[1, 2.5], phase="decode", step=2, token_id=9,
                route="sdpa", extra={"a": 1},
            )
            print_ = greta.fingerprint([1, 2.5])
            run.row("logits", layer=greta.AFTER_STACK, pos=None, fingerprint=print_)
            run.attribute("late", "fact")
        self.assertEqual(
            self.ask("SELECT tensor, layer, pos_id, phase, step, token_id, n, hash = "
                     f"'{print_.hash}', route, extra FROM trace ORDER BY layer, pos_id"),
            [
                ("logits", -1, None, "prefill", None, None, 2, 1, None, None),
                ("attn_out", 3, 0, "prefill", None, 1, 2, 0, None, None),
                ("attn_out", 3, 1, "prefill", None, 2, 2, 0, None, None),
                ("attn_out", 3, 17, "decode", 2, 9, 2, 1, "sdpa", '{"a":1}'),
            ],
        )
        self.assertEqual(self.ask("SELECT status FROM run"), [("complete",)])
        self.assertEqual(
            self.ask("SELECT value FROM attribute WHERE dim IN ('engine', 'late', 'threads') "
                     "ORDER BY value"),
            [("2",), ("a",), ("b",), ("fact",)],
        )
        self.assertEqual(self.ask("SELECT name, n_tokens FROM prompt"), [("p0", 3)])

    def test_an_exception_fails_the_run_and_goes_on(self):
        with self.assertRaises(KeyError):
            with greta.Run(self.file, experiment="rollout") as run:
                run.row("attn_out", layer=0, pos=0, values=[1])
                raise KeyError("x")
        self.assertEqual(self.ask("SELECT status FROM run"), [("failed",)])
        self.assertEqual(self.ask("SELECT count(*) FROM trace_row"), [(1,)])

    def test_what_cannot_be_taken_is_an_error(self):
        with self.assertRaisesRegex(greta.Error, "the first because") as ended:
            with greta.Run(self.file, experiment="rollout", run="mine") as run:
                with self.assertRaisesRegex(ValueError, "phase 'prefil' is none of prefill_last"):
                    run.row("attn_out", layer=0, pos=0, values=[1], phase="prefil")
                with self.assertRaisesRegex(greta.Error, "layer 9000") as caught:
                    run.row("attn_out", layer=9000, pos=0, values=[1])
                self.assertEqual(caught.exception.name, "argument")
                with self.assertRaisesRegex(ValueError, "either values or a fingerprint"):
                    run.row("attn_out", layer=0, pos=0)
                with self.assertRaisesRegex(ValueError, "2 token ids for 1 rows"):
                    run.rows("attn_out", layer=0, pos=0, values=[[1]], token_ids=[1, 2])
                with self.assertRaises(greta.Error) as caught:
                    greta.Run(self.file, experiment="rollout", run="mine")
                self.assertEqual(caught.exception.name, "exists")
        self.assertEqual(ended.exception.name, "refused")
        self.assertEqual(self.ask("SELECT status FROM run"), [("failed",)])
        with self.assertRaisesRegex(greta.Error, "the run has ended"):
            run.row("attn_out", layer=0, pos=0, values=[1])
        with self.assertRaises(greta.Error) as caught:
            greta.Run(os.path.join(self.folder.name, "no/such.db"), experiment="e")
        self.assertEqual(caught.exception.name, "io")

    def test_no_number_or_text_becomes_another(self):
        with self.assertRaisesRegex(greta.Error, "lacks what was refused"):
            with greta.Run(self.file, experiment="rollout") as run:
                run.prompt("p0")
                print_ = greta.fingerprint([1, 2.5])
                for wrong in (
                    {"layer": 1 << 32}, {"layer": 0.7}, {"pos": 1 << 64}, {"pos": 2.9}, {"pos": "3"},
                    {"token_id": (1 << 64) + 7}, {"token_id": 7.5}, {"step": 1 << 64},
                    {"logical_tok_idx": 1 << 64}, {"tensor": "attn_out\0x"}, {"prompt": "p0\0x"},
                    {"fingerprint": print_._replace(nan=1 << 64)},
                ):
                    row = {"tensor": "attn_out", "layer": 0, "pos": 0, **wrong}
                    if "fingerprint" not in row:
                        row["values"] = [1]
                    with self.assertRaises((ValueError, TypeError), msg=str(wrong)):
                        run.row(row.pop("tensor"), **row)
                for ids in ([1 << 32], [1.5]):
                    with self.assertRaises((ValueError, TypeError), msg=str(ids)):
                        run.rows("attn_out", layer=0, pos=0, values=[[1]], token_ids=ids)
                    with self.assertRaises((ValueError, TypeError), msg=str(ids)):
                        run.prompt("p1", ids)
                with self.assertRaises(ValueError):
                    run.plan("p0", [("prefill", 1 << 32, "attn_out")])
        self.assertEqual(self.ask("SELECT count(*) FROM trace_row"), [(0,)])
        self.assertEqual(self.ask("SELECT count(*) FROM plan"), [(0,)])

    def test_a_row_that_was_refused_and_ignored_keeps_a_run_from_passing(self):
        def end(**bad):
            with greta.Run(self.file, experiment="rollout") as run:
                run.row("attn_out", layer=0, pos=0, values=[1], phase="prefill_last")
                run.row("attn_out", layer=0, pos=0, values=[1], phase="decode0")
                for phase in ("prefill_last", "decode0"):
                    good = {"layer": 1, "pos": 0, "values": [1], "phase": phase}
                    try:
                        run.row("attn_out", **(good | bad))
                    except (greta.Error, ValueError):
                        pass

        end()
        for bad in ({"layer": 9000}, {"phase": "prefil"}, {"dtype": "f8"}):
            with self.assertRaises(greta.Error, msg=str(bad)) as ended:
                end(**bad)
            self.assertEqual(ended.exception.name, "refused")
        self.assertEqual(
            self.ask("SELECT verdict, count(*) FROM run_verdict GROUP BY 1 ORDER BY 1"),
            [("INCOMPLETE", 3), ("PASS", 1)],
        )

    def test_a_run_that_is_dropped_has_failed(self):
        run = greta.Run(self.file, experiment="rollout")
        gone = weakref.ref(run)
        del run
        gc.collect()
        self.assertIsNone(gone())
        self.assertEqual(self.ask("SELECT status FROM run"), [("failed",)])

    def test_a_child_cannot_write_the_runs_of_its_parent(self):
        with greta.Run(self.file, experiment="rollout") as run:
            child = os.fork()
            if child == 0:
                try:
                    run.row("attn_out", layer=0, pos=0, values=[1])
                except greta.Error:
                    os._exit(7)
                os._exit(1)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
            run.row("attn_out", layer=0, pos=0, values=[1])
        self.assertEqual(self.ask("SELECT count(*) FROM trace_row"), [(1,)])

    def test_json_lines(self):
        path = os.path.join(self.folder.name, "rows.jsonl")
        with greta.Run(path, experiment="rollout", run="a/b") as run:
            run.row("attn_out", layer=0, pos=0, values=[1, math.nan])
        lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
        self.assertEqual([l["event"] for l in lines], ["run_start", "run_prompt", "row", "run_end"])
        self.assertEqual((lines[2]["n"], lines[2]["nan"], lines[3]["rows"]), (2, 1, 1))

    def test_version(self):
        out = subprocess.run(
            [sys.executable, "-m", "greta", "--version"], capture_output=True, text=True, check=True
        ).stdout
        self.assertRegex(out, r"^greta \d+\.\d+\.\d+ \(.*libgreta_trace")


class Buffers(unittest.TestCase):
    def test_a_buffer_is_not_copied(self):
        values = array.array("f", [1, 2, 3])
        of = _values.rows_of(values)
        self.assertEqual((of.address, of.n), (values.buffer_info()[0], 3))

    def test_read_only_and_strided_buffers_are_what_they_say(self):
        packed = struct.pack("<4f", 1, 2, 3, 4)
        self.assertEqual(
            greta.fingerprint(memoryview(packed).cast("f")), greta.fingerprint([1, 2, 3, 4])
        )
        self.assertEqual(
            greta.fingerprint(memoryview(packed).cast("f")[::2]), greta.fingerprint([1, 3])
        )


@unittest.skipIf(numpy is None, "numpy is not installed")
class Numpy(unittest.TestCase):
    def test_contiguous_arrays_are_not_copied(self):
        for kind in ["float32", "float16"]:
            values = numpy.arange(12, dtype=kind).reshape(3, 4)
            of = _values.rows_of(values)
            self.assertEqual((of.address, of.n_rows, of.n), (values.ctypes.data, 1, 12))
            wide = numpy.arange(24, dtype=kind).reshape(3, 8)[:, :4]  # rows that are apart
            of = _values.rows_of(wide, as_matrix=True)
            self.assertEqual((of.address, of.stride), (wide.ctypes.data, wide.strides[0]))

    def test_what_is_not_is_copied(self):
        base = numpy.arange(24, dtype="float32").reshape(4, 6)
        for values in [base.T, base[:, ::2], base[::-1], base.astype("f8"), base.astype(">f4")]:
            flat = [float(x) for x in values.reshape(-1)]
            self.assertEqual(greta.fingerprint(values), greta.fingerprint(flat))
            of = _values.rows_of(values, as_matrix=True)
            self.assertEqual((of.n_rows, of.n), values.shape)


@unittest.skipIf(torch is None, "torch is not installed")
class Torch(unittest.TestCase):
    def test_tensors_on_the_host_are_not_copied(self):
        for kind in [torch.float32, torch.float16, torch.bfloat16]:
            values = torch.arange(12, dtype=torch.float32).to(kind).reshape(3, 4)
            of = _values.rows_of(values)
            self.assertEqual((of.address, of.n), (values.data_ptr(), 12))
            self.assertEqual(greta.fingerprint(values), greta.fingerprint(list(range(12))))
            part = values[:, 1:3]
            of = _values.rows_of(part, as_matrix=True)
            self.assertEqual((of.address, of.n_rows, of.n), (part.data_ptr(), 3, 2))

    def test_what_is_not_is_copied(self):
        base = torch.arange(24, dtype=torch.float32).reshape(4, 6).requires_grad_()
        for values in [base.t(), base[:, ::2], base.double(), base.detach().int()]:
            flat = [float(x) for x in values.reshape(-1)]
            self.assertEqual(greta.fingerprint(values), greta.fingerprint(flat))


if __name__ == "__main__":
    unittest.main()
