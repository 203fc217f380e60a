"""libgreta_trace by ctypes: the functions and structures of greta_trace.h."""

import ctypes
import os
import pathlib
from ctypes import c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32
from ctypes import c_uint64, c_void_p

ABI = 1
UNKNOWN = -1


class Error(Exception):
    """A call that was not done. `status` is that of greta_trace.h, `name` its name."""

    NAMES = {
        1: "argument",
        2: "state",
        3: "exists",
        4: "format",
        5: "io",
        6: "busy",
        7: "memory",
        8: "internal",
        9: "refused",
    }

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status
        self.name = self.NAMES.get(status, "unknown")


class _Structure(ctypes.Structure):
    """One that begins with its own size."""

    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(self), **fields)


class RunInfo(_Structure):
    _fields_ = [
        ("size", c_size_t),
        ("run", c_char_p),
        ("experiment", c_char_p),
        ("date", c_char_p),
        ("commit", c_char_p),
        ("mode", c_char_p),
        ("backend", c_char_p),
        ("dtype", c_char_p),
        ("model", c_char_p),
        ("model_sha256", c_char_p),
        ("model_root", c_char_p),
        ("seed", c_int64),
        ("attributes", ctypes.POINTER(c_char_p)),
        ("sample_values", c_uint32),
    ]


class Prompt(_Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("token_ids", ctypes.POINTER(c_int32)),
        ("n_tokens", c_size_t),
        ("text_sha256", c_char_p),
    ]


class Planned(ctypes.Structure):
    _fields_ = [("side", c_int32), ("layer", c_int32), ("tensor", c_char_p)]


class Row(_Structure):
    _fields_ = [
        ("size", c_size_t),
        ("prompt", c_char_p),
        ("tensor", c_char_p),
        ("phase", c_int32),
        ("layer", c_int32),
        ("pos_id", c_int64),
        ("step", c_int64),
        ("token_id", c_int64),
        ("logical_tok_idx", c_int64),
        ("route", c_char_p),
        ("extra", c_char_p),
    ]


class FingerprintStruct(_Structure):
    _fields_ = [
        ("size", c_size_t),
        ("n", c_uint64),
        ("hash", c_uint64),
        ("min", c_float),
        ("max", c_float),
        ("mean", c_double),
        ("abs_sum", c_double),
        ("sum_sq", c_double),
        ("nan", c_uint64),
        ("inf", c_uint64),
        ("nz_count", c_uint64),
        ("sketch", c_double * 32),
    ]


def _candidates():
    """Where the library may be: as told, beside this module, where the system looks."""
    told = os.environ.get("GRETA_TRACE_LIBRARY")
    if told:
        yield told
        return
    name = f"libgreta_trace.so.{ABI}"
    for above in pathlib.Path(__file__).resolve().parents:
        if above.name == "lib":
            yield from (str(p) for p in (above / name, *sorted(above.glob(f"*/{name}"))) if p.exists())
            break
    yield name


def _load():
    why = None
    for path in _candidates():
        try:
            return path, ctypes.CDLL(path)
        except OSError as error:
            why = why or error
    raise ImportError(
        f"libgreta_trace cannot be loaded ({why}): install it (cmake --install), or name it by "
        "GRETA_TRACE_LIBRARY"
    )


_path, lib = _load()

lib.greta_abi_version.restype = c_uint32
if lib.greta_abi_version() != ABI:
    raise ImportError(f"{_path} has ABI version {lib.greta_abi_version()}, not {ABI}")
lib.greta_version.restype = c_char_p
lib.greta_error_text.restype = c_char_p
lib.greta_run_name.restype = c_char_p
lib.greta_run_name.argtypes = [c_void_p]


def _function(name, *arguments):
    function = getattr(lib, name)
    function.restype = c_int
    function.argtypes = arguments

    def call(*given):
        status = function(*given)
        if status != 0:
            raise Error(status, lib.greta_error_text().decode("utf-8", "replace"))

    return call


_row = ctypes.POINTER(Row)
_print = ctypes.POINTER(FingerprintStruct)
trace_open = _function("greta_trace_open", c_char_p, c_int, ctypes.POINTER(c_void_p))
trace_close = _function("greta_trace_close", c_void_p)
run_begin = _function("greta_run_begin", c_void_p, ctypes.POINTER(RunInfo), ctypes.POINTER(c_void_p))
run_add_attribute = _function("greta_run_add_attribute", c_void_p, c_char_p, c_char_p)
run_add_prompt = _function("greta_run_add_prompt", c_void_p, ctypes.POINTER(Prompt))
run_add_plan = _function(
    "greta_run_add_plan", c_void_p, c_char_p, ctypes.POINTER(Planned), c_size_t
)
run_add_values = _function("greta_run_add_values", c_void_p, _row, c_int, c_void_p, c_size_t)
run_add_positions = _function(
    "greta_run_add_positions",
    c_void_p,
    _row,
    c_int,
    c_void_p,
    c_size_t,
    c_size_t,
    c_size_t,
    ctypes.POINTER(c_int32),
)
run_add_fingerprint = _function("greta_run_add_fingerprint", c_void_p, _row, _print)
run_flush = _function("greta_run_flush", c_void_p)
run_end = _function("greta_run_end", c_void_p, c_int)
fingerprint_values = _function("greta_fingerprint_values", c_int, c_void_p, c_size_t, _print)


def version():
    """Version of the library: 0.1.0."""
    return lib.greta_version().decode()


def library_path():
    """Which library was loaded."""
    return _path
