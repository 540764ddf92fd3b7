# SPDX-License-Identifier: Apache-2.0
"""libequant_codec by ctypes: the functions of equant/codec.h, and Codec, a compressor with its options."""

import ctypes
import functools
import json
import os
import pathlib

ABI_VERSION = 1  # of equant/codec.h
USAGE, DIVERGED, WIRE = 2, 4, 5  # enum equant_codec_status
LOSSLESS, VOTES = 1, 32  # enum equant_codec_property

_SIZE, _POINTER, _CODEC, _INT = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int


class _Array(ctypes.Structure):  # struct equant_array
    _fields_ = [("step", ctypes.c_uint64), ("tensor", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("rows", ctypes.c_uint64)]


# Result and arguments of each function.
_FUNCTIONS = {
    "abi_version": (ctypes.c_uint32, []),
    "library_version": (ctypes.c_char_p, []),
    "count": (_SIZE, []),
    "name": (ctypes.c_char_p, [_SIZE]),
    "about": (ctypes.c_char_p, [_SIZE]),
    "create": (_INT, [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.POINTER(_CODEC), ctypes.c_char_p,
                      _SIZE]),
    "destroy": (None, [_CODEC]),
    "error": (ctypes.c_char_p, [_CODEC]),
    "properties": (ctypes.c_uint64, [_CODEC]),
    "max_bytes": (_INT, [_CODEC, _SIZE, ctypes.POINTER(_SIZE)]),
    "encode": (_INT, [_CODEC, ctypes.POINTER(_Array), _POINTER, _SIZE, _POINTER, _POINTER, _SIZE,
                      ctypes.POINTER(_SIZE)]),
    "decode": (_INT, [_CODEC, ctypes.POINTER(_Array), _POINTER, _SIZE, _POINTER, _SIZE]),
    "decode_add": (_INT, [_CODEC, ctypes.POINTER(_Array), _POINTER, _SIZE, ctypes.c_float, _POINTER, _SIZE]),
    "finish_mean": (_INT, [_CODEC, _POINTER, _SIZE]),
}


def missing_instructions(needed, processor):
    """Returns those of the names in `needed` that no line of flags in `processor`, the text of /proc/cpuinfo, has."""
    has = set()
    for line in processor.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            has.update(value.split())
    return [name for name in needed if name not in has]


def _require_processor(needed):
    """Raises ImportError where the processor lacks what the package was compiled for, before it ends by SIGILL."""
    if not needed:
        return
    try:
        processor = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux: nothing says what the processor has
        return
    missing = missing_instructions(needed, processor)
    if missing:
        raise ImportError(
            f"equant: expected a processor with {', '.join(needed)}, for which this package was compiled, found one "
            f"without {', '.join(missing)}; build it without -march and -m flags in CXXFLAGS: pip install "
            "--no-cache-dir --force-reinstall ./python")


def _find():
    """Returns the library's path or name: that of the environment, the package's own, or the system's."""
    given = os.environ.get("EQUANT_CODEC_LIBRARY")
    if given:
        return given
    name = f"libequant_codec.so.{ABI_VERSION}"
    own = pathlib.Path(__file__).resolve().parent / "lib" / name
    if not own.exists():
        return name
    from . import _built  # written by python/CMakeLists.txt, beside the library
    _require_processor(_built.INSTRUCTIONS)
    return str(own)


@functools.lru_cache(maxsize=None)
def library():
    """Returns the library, each function with its types. Raises ImportError if there is none that fits."""
    path = _find()
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"equant: expected the library {path}, found that it cannot be loaded ({error}); run pip "
                          "install ./python, or set EQUANT_CODEC_LIBRARY to libequant_codec.so of a build") from error
    try:
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, "equant_codec_" + name)
            function.restype, function.argtypes = result, arguments
        found = loaded.equant_codec_abi_version()
    except AttributeError as error:
        raise ImportError(f"equant: expected libequant_codec at {path}, found another library ({error}); set "
                          "EQUANT_CODEC_LIBRARY to libequant_codec.so of a build") from error
    if found != ABI_VERSION:
        raise ImportError(f"equant: expected version {ABI_VERSION} of equant/codec.h, found {found} in {path}; install "
                          "library and package of one version")
    return loaded


def compressors():
    """Returns a dictionary of all compressors: name and description in one line."""
    functions = library()
    return {functions.equant_codec_name(i).decode(): functions.equant_codec_about(i).decode()
            for i in range(functions.equant_codec_count())}


def library_version():
    """Returns the version of equant-train that the library belongs to: "0.2.0", or "0.2.0+abc1234"."""
    return library().equant_codec_library_version().decode()


class Diverged(FloatingPointError):
    """A value to encode is NaN, infinite or too large for the compressor."""


class Codec:
    """A compressor with its options: equant_codec of equant/codec.h. One thread at a time may use it.

    Arrays and messages are addresses and lengths. Errors: ValueError for wrong options and for bytes of another array,
    Diverged, MemoryError, RuntimeError for an error in the library.
    """

    def __init__(self, name, options, seed):
        self._library = library()
        self._codec = _CODEC()
        error = ctypes.create_string_buffer(512)
        try:
            text = json.dumps(options)
        except TypeError as problem:
            raise TypeError(f"expected options that JSON can say, found {options!r} ({problem}); try numbers, texts, "
                            "booleans and lists") from problem
        self._raise(self._library.equant_codec_create(name.encode(), text.encode(), seed, ctypes.byref(self._codec),
                                                      error, len(error)), error)
        self.properties = self._library.equant_codec_properties(self._codec)

    def __del__(self):
        if getattr(self, "_codec", None):
            self._library.equant_codec_destroy(self._codec)

    def _raise(self, status, error=None):
        if status == 0:
            return
        sentence = (error.value if error else self._library.equant_codec_error(self._codec)).decode()
        kinds = {USAGE: ValueError, DIVERGED: Diverged, WIRE: ValueError, 12: MemoryError}
        raise kinds.get(status, RuntimeError)(sentence)

    def max_bytes(self, count):
        """Returns an upper bound of the bytes that `count` values are encoded to."""
        most = _SIZE()
        self._raise(self._library.equant_codec_max_bytes(self._codec, count, ctypes.byref(most)))
        return most.value

    def encode(self, step, tensor, rank, rows, values, count, residual, message, capacity):
        """Writes `count` values as a message and returns its length; `residual` may be None, otherwise what was not
        sent replaces it."""
        written = _SIZE()
        self._raise(self._library.equant_codec_encode(
            self._codec, ctypes.byref(_Array(step, tensor, rank, rows)), values, count, residual, message, capacity,
            ctypes.byref(written)))
        return written.value

    def decode(self, step, tensor, message, length, values, count):
        """Writes the `count` values of a message."""
        self._raise(self._library.equant_codec_decode(
            self._codec, ctypes.byref(_Array(step, tensor, 0, 0)), message, length, values, count))

    def decode_add(self, step, tensor, message, length, scale, total, count):
        """Adds `scale` times the values of a message to `total`."""
        self._raise(self._library.equant_codec_decode_add(
            self._codec, ctypes.byref(_Array(step, tensor, 0, 0)), message, length, scale, total, count))

    def finish_mean(self, mean, count):
        """Turns the mean over ranks into the update: a majority vote where the property VOTES is set."""
        self._raise(self._library.equant_codec_finish_mean(self._codec, mean, count))
