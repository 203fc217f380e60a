"""Runs and rows, as Python has them."""

import collections
import ctypes
import functools
import hashlib
import json
import operator
import os

from greta import _library as library
from greta._values import rows_of

AFTER_STACK = -1
PHASES = {"prefill_last": 1, "prefill": 2, "decode0": 3, "decode": 4}
SIDES = {"prefill": 0, "decode": 1}
_KINDS = {"database": 1, "jsonl": 2}
_COMPLETE, _FAILED = 1, 2

Fingerprint = collections.namedtuple(
    "Fingerprint", "n hash min max mean abs_sum sum_sq nan inf nz_count sketch"
)
Fingerprint.__doc__ = "What is kept of a row; docs/fingerprint.md defines every number."


def fingerprint(values, dtype=None):
    """The fingerprint of all of `values`, as Run.row() stores it."""
    of = rows_of(values, dtype)
    out = library.FingerprintStruct()
    library.fingerprint_values(of.dtype, of.address, of.n, out)
    numbers = [getattr(out, name) for name in Fingerprint._fields[:-1]]
    return Fingerprint(*numbers, tuple(out.sketch))


def _text(value):
    if value is None:
        return None
    text = str(value)
    if "\0" in text:  # where C would take it to end
        raise ValueError(f"a text with NUL in it: {text!r}")
    return text.encode()


def _whole(value, bits=64):
    """An integer as C takes it: no float is cut to one, and none is taken modulo 2**bits, as ctypes
    would, for another row would have that number."""
    number = operator.index(value)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"{number} is no integer of {bits} bits")
    return number


def _number(value):
    return library.UNKNOWN if value is None else _whole(value)


def _token_ids(ids):
    return (ctypes.c_int32 * len(ids))(*[_whole(i, 32) for i in ids])


def _one_of(names, value, what):
    if value not in names:
        raise ValueError(f"{what} {value!r} is none of {', '.join(names)}")
    return names[value]


def _adding(method):
    """What `method` refuses to add, the run lacks."""

    @functools.wraps(method)
    def call(self, *given, **named):
        try:
            return method(self, *given, **named)
        except library.Error:
            raise  # the library remembers
        except Exception as error:
            self._refused = self._refused or error
            raise

    return call


class Run:
    """A run that is being written: a context manager that ends it as complete, or as failed where an
    exception leaves the block. From any thread, but not in a child after fork().

    target: file of a greta database, or of JSON lines where the name ends in .jsonl or is "-", the
    standard output (kind="database" or "jsonl" says it for other names).
    experiment: what groups runs. run: its name; None: <date>/<experiment>[/<mode>], made unique.
    date: YYYY-MM-DD, today by default. mode, commit, backend, dtype (of the arithmetic), model,
    model_sha256, model_root, seed: what is known of it. attributes: further facts, name to text or
    to a list of texts. sample_values: how many leading values are kept of each row.

    A run that was refused a row or a plan lacks it, also where the exception was caught: end() then
    ends it as failed, and raises.

    Raises greta.Error.
    """

    def __init__(
        self,
        target,
        *,
        experiment,
        run=None,
        date=None,
        mode=None,
        commit=None,
        backend=None,
        dtype=None,
        model=None,
        model_sha256=None,
        model_root=None,
        seed=0,
        attributes=None,
        sample_values=0,
        kind=None,
    ):
        self._trace = self._run = None
        self._refused = None  # the first row or plan that this module did not hand on, and why
        self._pid = os.getpid()
        path = os.fspath(target)
        if kind is None:
            is_lines = os.fsdecode(path) == "-" or os.fsdecode(path).endswith(".jsonl")
            kind = "jsonl" if is_lines else "database"
        facts = []
        for name, value in (attributes or {}).items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                facts += [_text(name), _text(one)]
        info = library.RunInfo(
            run=_text(run),
            experiment=_text(experiment),
            date=_text(date),
            commit=_text(commit),
            mode=_text(mode),
            backend=_text(backend),
            dtype=_text(dtype),
            model=_text(model),
            model_sha256=_text(model_sha256),
            model_root=_text(model_root),
            seed=_whole(seed),
            attributes=(ctypes.c_char_p * (len(facts) + 1))(*facts, None),
            sample_values=_whole(sample_values, 32),
        )
        trace, begun = ctypes.c_void_p(), ctypes.c_void_p()
        library.trace_open(os.fsencode(path), _one_of(_KINDS, kind, "kind"), trace)
        self._trace = trace
        try:
            library.run_begin(trace, info, begun)
        except library.Error:
            self._close()
            raise
        self._run = begun
        self.name = library.lib.greta_run_name(begun).decode()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.end()
        elif self._run is not None:
            try:
                self.end(complete=False)
            except library.Error:
                pass  # the exception that ends the block is the one to tell

    def __del__(self):
        if getattr(self, "_trace", None) is not None and self._pid == os.getpid():
            self._close()

    def _handle(self):
        if self._run is None:
            raise library.Error(2, "the run has ended")
        if self._pid != os.getpid():
            raise library.Error(2, "the run is of another process, before its fork()")
        return self._run

    def _close(self):
        trace, self._trace, self._run = self._trace, None, None
        library.trace_close(trace)

    def prompt(self, name, token_ids=None, text=None, text_sha256=None):
        """Adds a prompt, with the ids of its tokens where they are known. text: only its SHA-256 is
        kept."""
        if text is not None:
            text_sha256 = hashlib.sha256(text.encode()).hexdigest()
        ids = None if token_ids is None else _token_ids(list(token_ids))
        prompt = library.Prompt(
            name=_text(name),
            token_ids=ids,
            n_tokens=0 if ids is None else len(ids),
            text_sha256=_text(text_sha256),
        )
        library.run_add_prompt(self._handle(), prompt)

    @_adding
    def plan(self, prompt, rows):
        """Declares rows of a prompt (None: of the run's only one), each (side, layer, tensor) of side
        "prefill" or "decode": without one of them, at any position, the run is INCOMPLETE."""
        planned = [
            library.Planned(_one_of(SIDES, side, "side"), _whole(layer, 32), _text(tensor))
            for side, layer, tensor in rows
        ]
        array = (library.Planned * len(planned))(*planned)
        library.run_add_plan(self._handle(), _text(prompt), array, len(planned))

    def attribute(self, name, value):
        """States a fact that was not known at the beginning."""
        library.run_add_attribute(self._handle(), _text(name), _text(value))

    def _row(self, tensor, prompt, layer, pos, phase, step, token_id, logical, route, extra):
        return library.Row(
            prompt=_text(prompt),
            tensor=_text(tensor),
            phase=_one_of(PHASES, phase, "phase"),
            layer=_whole(layer, 32),
            pos_id=_number(pos),
            step=_number(step),
            token_id=_number(token_id),
            logical_tok_idx=_number(logical),
            route=_text(route),
            extra=None if extra is None else json.dumps(extra).encode(),
        )

    @_adding
    def row(
        self,
        tensor,
        *,
        layer,
        pos,
        values=None,
        fingerprint=None,
        phase="prefill",
        prompt=None,
        step=None,
        token_id=None,
        logical_tok_idx=None,
        route=None,
        extra=None,
        dtype=None,
    ):
        """Adds one row: all of `values`, whatever their shape, or a Fingerprint of them.

        layer: 0 and up, or greta.AFTER_STACK. pos: 0-based position in the sequence; None: not
        known, so that the row is paired with none. phase: prefill_last, prefill, decode0, decode.
        prompt: its name; None: the run's only one. token_id: of the token at the position. dtype:
        "f32", "f16", "bf16" where the values do not say it. extra: what else there is to say.
        """
        if (values is None) == (fingerprint is None):
            raise ValueError("a row has either values or a fingerprint")
        row = self._row(tensor, prompt, layer, pos, phase, step, token_id, logical_tok_idx, route, extra)
        if fingerprint is not None:
            fields = fingerprint._asdict()
            for count in ("n", "nan", "inf", "nz_count"):
                fields[count] = _whole(fields[count])
            fields["sketch"] = (ctypes.c_double * 32)(*fields["sketch"])
            print_ = library.FingerprintStruct(**fields)
            return library.run_add_fingerprint(self._handle(), row, print_)
        of = rows_of(values, dtype)
        return library.run_add_values(self._handle(), row, of.dtype, of.address, of.n)

    @_adding
    def rows(
        self,
        tensor,
        *,
        layer,
        pos,
        values,
        phase="prefill",
        prompt=None,
        step=None,
        token_ids=None,
        logical_tok_idx=None,
        route=None,
        extra=None,
        dtype=None,
    ):
        """Adds a row for each of `values` [n_rows, n], of positions from `pos` on. token_ids:
        [n_rows], of the tokens there."""
        of = rows_of(values, dtype, as_matrix=True)
        ids = None
        if token_ids is not None:
            ids = _token_ids(token_ids)
            if len(ids) != of.n_rows:
                raise ValueError(f"{len(ids)} token ids for {of.n_rows} rows")
        first = self._row(tensor, prompt, layer, pos, phase, step, None, logical_tok_idx, route, extra)
        library.run_add_positions(
            self._handle(), first, of.dtype, of.address, of.n_rows, of.n, of.stride, ids
        )

    def flush(self):
        """Waits until all that was added is committed."""
        library.run_flush(self._handle())

    def end(self, complete=True):
        """Ends the run: when it returns, all of it is on disk, and nothing was refused."""
        run = self._handle()
        self._run = None
        try:
            library.run_end(run, _COMPLETE if complete and self._refused is None else _FAILED)
        finally:
            self._close()
        if complete and self._refused is not None:
            raise library.Error(9, f"the run lacks what was refused, the first because {self._refused}")
