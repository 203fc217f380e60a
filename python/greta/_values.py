"""Values of any kind as an address, a number of values and a dtype of greta_trace.h."""

import array
import ctypes
import math
import sys

F32, F16, BF16 = 1, 2, 3
_SIZES = {F32: 4, F16: 2, BF16: 2}
_NAMES = {"f32": F32, "float32": F32, "f16": F16, "float16": F16, "bf16": BF16, "bfloat16": BF16}


class Rows:
    """n_rows rows of n values, `stride` bytes apart, from `address` on. Keeps them alive."""

    def __init__(self, owner, address, dtype, n_rows, n, stride):
        self.owner, self.address, self.dtype = owner, address, dtype
        self.n_rows, self.n, self.stride = n_rows, n, stride


def _shape(shape, as_matrix):
    if not as_matrix:
        return 1, math.prod(shape)
    if len(shape) != 2:
        raise ValueError(f"rows need values of two dimensions, not of shape {tuple(shape)}")
    return shape[0], shape[1]


def _is_plain(shape, strides, size, as_matrix):
    """Whether the values of each row lie one behind the other."""
    expected = size
    for extent, stride in reversed(list(zip(shape, strides))[1 if as_matrix else 0 :]):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return not as_matrix or strides[0] >= 0


def _of_torch(tensor, as_matrix):
    torch = sys.modules["torch"]
    kinds = {torch.float32: F32, torch.float16: F16, torch.bfloat16: BF16}
    tensor = tensor.detach()
    if tensor.dtype not in kinds:
        tensor = tensor.to(torch.float32)
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    size = tensor.element_size()
    n_rows, n = _shape(tensor.shape, as_matrix)
    if not _is_plain(tensor.shape, [s * size for s in tensor.stride()], size, as_matrix):
        tensor = tensor.contiguous()
    stride = tensor.stride(0) * size if as_matrix else n * size
    return Rows(tensor, tensor.data_ptr(), kinds[tensor.dtype], n_rows, n, stride)


def _of_numpy(values, dtype, as_matrix):
    numpy = sys.modules["numpy"]
    kind = {"float32": F32, "float16": F16, "bfloat16": BF16}.get(values.dtype.name)
    if dtype is not None and values.dtype.itemsize == _SIZES[dtype]:
        kind = dtype
    if kind is None or not values.dtype.isnative:
        values, kind = values.astype(numpy.float32), F32
    n_rows, n = _shape(values.shape, as_matrix)
    if not _is_plain(values.shape, values.strides, values.itemsize, as_matrix):
        values = numpy.ascontiguousarray(values)
    stride = values.strides[0] if as_matrix else n * values.itemsize
    return Rows(values, values.ctypes.data, kind, n_rows, n, stride)


def _of_buffer(view, dtype, as_matrix):
    kind = {"f": F32, "e": F16}.get(view.format.lstrip("@="))
    if dtype is not None and view.itemsize == _SIZES[dtype]:
        kind = dtype
    if kind is None:
        raise TypeError(f"values of format {view.format!r}: use f32, or name their dtype")
    n_rows, n = _shape(view.shape, as_matrix)
    data = view if view.c_contiguous else memoryview(view.tobytes())
    make = ctypes.c_char * view.nbytes
    owner = make.from_buffer_copy(data) if data.readonly else make.from_buffer(data)
    return Rows((owner, data), ctypes.addressof(owner), kind, n_rows, n, n * view.itemsize)


def rows_of(values, dtype=None, as_matrix=False):
    """Where `values` lie, copied only where they must be.

    dtype: "f32", "f16", "bf16" where the values do not say it, as integers of 16 bits do not.
    """
    kind = None
    if dtype is not None:
        if dtype not in _NAMES:
            raise ValueError(f"dtype {dtype!r} is none of {', '.join(sorted(_NAMES))}")
        kind = _NAMES[dtype]
    if "torch" in sys.modules and isinstance(values, sys.modules["torch"].Tensor):
        return _of_torch(values, as_matrix)
    if "numpy" in sys.modules and hasattr(values, "__array_interface__"):
        return _of_numpy(sys.modules["numpy"].asarray(values), kind, as_matrix)
    try:
        view = memoryview(values)
    except TypeError:
        if as_matrix:
            return _of_lists(values)
        view = memoryview(array.array("f", values))
    return _of_buffer(view, kind, as_matrix)


def _of_lists(rows):
    rows = [array.array("f", row) for row in rows]
    n = len(rows[0]) if rows else 0
    if any(len(row) != n for row in rows):
        raise ValueError("rows of different lengths")
    flat = array.array("f")
    for row in rows:
        flat.extend(row)
    address, _ = flat.buffer_info()
    return Rows(flat, address, F32, len(rows), n, 4 * n)
