# SPDX-License-Identifier: Apache-2.0
"""compress() and decompress() of arrays and tensors in main memory.

compress() returns, little-endian: "EQA1", the length of the description (4 bytes), the description in JSON, the message
(src/codecs/codec/FORMAT.md), and the CRC-32 of all of that (4 bytes).
"""

import ctypes
import json
import math
import struct
import sys
import threading
import zlib

from ._library import Codec

_MAGIC = b"EQA1"
_DTYPES = ("float32", "float64", "float16", "bfloat16")
_MOST = 1 << 29  # values of a message
_of_thread = threading.local()


def _codec(name, options, seed):
    """Returns a codec of this thread, the same for the same arguments; it keeps the last few."""
    cache = _of_thread.__dict__.setdefault("codecs", {})
    key = (name, json.dumps(options, sort_keys=True, default=str), seed)
    codec = cache.pop(key, None) or Codec(name, options, seed)
    cache[key] = codec
    if len(cache) > 8:
        del cache[next(iter(cache))]
    return codec


def _kind_of(array, what):
    """Returns "numpy" or "torch". Raises TypeError for anything else."""
    for module, name in (("torch", "Tensor"), ("numpy", "ndarray")):
        if module in sys.modules and isinstance(array, getattr(sys.modules[module], name)):
            return module
    raise TypeError(f"expected a NumPy array or a torch tensor as {what}, found {type(array).__name__}; try "
                    "numpy.asarray()")


def _require_layout(kind, array, what):
    """Raises unless the values lie in main memory, one after another."""
    if kind == "torch":
        if array.layout != sys.modules["torch"].strided:
            raise TypeError(f"expected a dense tensor as {what}, found {array.layout}; try .to_dense()")
        if array.device.type != "cpu":
            raise TypeError(f"expected a tensor in main memory as {what}, found one on the device {array.device}; try "
                            ".cpu()")
        if not array.is_contiguous():
            raise ValueError(f"expected contiguous values as {what}, found strides {tuple(array.stride())} of a tensor "
                             f"of shape {tuple(array.shape)}; try .contiguous()")
    else:
        if not array.flags.c_contiguous:
            raise ValueError(f"expected contiguous values as {what}, found strides {array.strides} of an array of "
                             f"shape {array.shape}; try numpy.ascontiguousarray()")


def _address(kind, array):
    return array.data_ptr() if kind == "torch" else array.ctypes.data


def _count(shape):
    return math.prod(shape)


def compress(array, compressor="e-elastiquant", *, seed=1, step=0, tensor=0, sender=0, residual=None, **options):
    """Returns bytes from which decompress() makes an array of the same shape and type.

    `array`: a NumPy array or torch tensor in main memory, contiguous, of at most 2^29 values. Compressors compute in
    float32: values of float64 are rounded to it first, those of float16 and bfloat16 are values of it.
    `options`: keys of the section "compressor" of a config (docs/keys.md), as bits=4.
    `seed`, `step`, `tensor`, `sender`: what random rounding follows from; the same numbers give the same bytes.
    `residual`: None, or an array or tensor of float32 as large as `array`, which begins as zeros. It is added before
    compressing, and becomes what the bytes leave out.
    The first dimension of a matrix is its rows, for compressors that have a scale or factors by row.
    Raises TypeError and ValueError for what cannot be compressed, Diverged for values that are not finite or too large.
    """
    kind = _kind_of(array, "what to compress")
    dtype = str(array.dtype).replace("torch.", "")
    if dtype not in _DTYPES:
        raise TypeError(f"expected values of type {', '.join(_DTYPES)} to compress, found {array.dtype}; try "
                        f"{'.float()' if kind == 'torch' else '.astype(numpy.float32)'}")
    _require_layout(kind, array, "what to compress")
    for name, number in (("seed", seed), ("step", step), ("tensor", tensor), ("sender", sender)):
        most = 2**64 if name in ("seed", "step") else 2**32
        if not isinstance(number, int) or not 0 <= number < most:
            raise ValueError(f"expected a whole number of 0 to {most - 1} as {name} of compress(), found {number!r}")
    shape = tuple(array.shape)
    count = _count(shape)
    if count > _MOST:
        raise ValueError(f"expected at most {_MOST} values to compress, found {count}; cut the array in parts")
    if kind == "torch":
        values = array.detach().float()
    else:
        with sys.modules["numpy"].errstate(over="ignore"):  # too large for float32: the compressor says so
            values = array.astype("float32", copy=False)
    memory = None
    if residual is not None:
        its_kind = _kind_of(residual, "the residual")
        _require_layout(its_kind, residual, "the residual")
        its_type = str(residual.dtype).replace("torch.", "")
        if its_type != "float32" or _count(residual.shape) != count:
            raise ValueError(f"expected a residual of {count} values of float32, as many as there are to compress, "
                             f"found {_count(residual.shape)} of {its_type}; try zeros of the same shape")
        if its_kind == "numpy" and not residual.flags.writeable:
            raise ValueError("expected a residual that compress() may write, found one that is read-only; try .copy()")
        memory = _address(its_kind, residual)
    codec = _codec(compressor, options, seed)
    rows = shape[0] if len(shape) >= 2 and count > 0 else 0
    capacity = codec.max_bytes(count)
    message = ctypes.create_string_buffer(max(capacity, 1))
    written = codec.encode(step, tensor, sender, rows, _address(kind, values), count, memory,
                           ctypes.addressof(message), capacity)
    description = json.dumps({"compressor": compressor, "options": options, "step": step, "tensor": tensor,
                              "shape": shape, "dtype": dtype, "kind": kind}).encode()
    head = _MAGIC + struct.pack("<I", len(description)) + description
    body = memoryview(message)[:written]
    return b"".join((head, body, struct.pack("<I", zlib.crc32(body, zlib.crc32(head)))))


def _read(data):
    """Returns the description and the message. Raises ValueError for bytes that compress() did not make."""
    whole = memoryview(data).cast("B")
    try:
        if whole[:4] != _MAGIC:
            raise ValueError(f"they begin with {bytes(whole[:4])!r}")
        if len(whole) < 12 or struct.unpack("<I", whole[-4:])[0] != zlib.crc32(whole[:-4]):
            raise ValueError(f"their checksum is wrong; they are {len(whole)} bytes")
        length = struct.unpack("<I", whole[4:8])[0]
        description = json.loads(bytes(whole[8:8 + length]))
        shape = description["shape"]
        if (not all(isinstance(size, int) and size >= 0 for size in shape) or _count(shape) > _MOST or
                description["dtype"] not in _DTYPES or description["kind"] not in ("numpy", "torch") or
                not all(isinstance(description[key], int) and 0 <= description[key] < 2**64
                        for key in ("step", "tensor")) or not isinstance(description["options"], dict) or
                not isinstance(description["compressor"], str)):
            raise ValueError(f"their description is {description}")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"expected bytes of equant.compress() to decompress, found others ({error}); try the bytes as "
                         "they were returned, all of them") from error
    return description, whole[8 + length:-4]


def decompress(data, *, to=None):
    """Returns the array or tensor of the bytes that compress() returned, of the shape and type it had.

    `to`: "numpy" or "torch"; None makes what was compressed. NumPy has no bfloat16: it gets float32.
    Raises ValueError for other bytes.
    """
    if to not in (None, "numpy", "torch"):
        raise ValueError(f'expected "numpy" or "torch" as what decompress() makes, found {to!r}')
    try:
        description, message = _read(data)
    except TypeError as error:
        raise TypeError(f"expected bytes to decompress, found {type(data).__name__}; try what equant.compress() "
                        "returned") from error
    shape, dtype = description["shape"], description["dtype"]
    kind = to or description["kind"]
    if kind == "torch":
        import torch
        values = torch.empty(shape, dtype=torch.float32)
    else:
        import numpy
        values = numpy.empty(shape, "float32")
    codec = _codec(description["compressor"], description["options"], 1)
    kept = bytes(message)
    codec.decode(description["step"], description["tensor"],
                 ctypes.cast(ctypes.c_char_p(kept), ctypes.c_void_p), len(kept), _address(kind, values), _count(shape))
    if kind == "torch":
        return values.to(getattr(torch, dtype))
    return values if dtype == "bfloat16" else values.astype(dtype, copy=False)
