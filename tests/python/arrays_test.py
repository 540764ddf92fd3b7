#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""compress() and decompress() of python/equant beside the C interface, which is called here by ctypes."""

import ctypes
import ctypes.util
import json
import os
import pathlib
import struct
import subprocess
import sys
import unittest

import numpy
import torch

import equant
from equant import _arrays, _library

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Array(ctypes.Structure):  # struct equant_array
    _fields_ = [("step", ctypes.c_uint64), ("tensor", ctypes.c_uint32), ("rank", ctypes.c_uint32),
                ("rows", ctypes.c_uint64)]


def by_c(values, name, options, step, tensor, rank, rows):
    """The message and the decoded values, by the C interface."""
    library = ctypes.CDLL(_library._find())
    codec, size, written = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    pointer = ctypes.POINTER(ctypes.c_float)
    assert library.equant_codec_create(name.encode(), json.dumps(options).encode(), ctypes.c_uint64(1),
                                       ctypes.byref(codec), None, ctypes.c_size_t(0)) == 0
    array, count = Array(step, tensor, rank, rows), ctypes.c_size_t(values.size)
    assert library.equant_codec_max_bytes(codec, count, ctypes.byref(size)) == 0
    room = ctypes.create_string_buffer(size.value)
    assert library.equant_codec_encode(codec, ctypes.byref(array), values.ctypes.data_as(pointer), count, None, room,
                                       size, ctypes.byref(written)) == 0
    decoded = numpy.empty_like(values)
    assert library.equant_codec_decode(codec, ctypes.byref(array), room, written, decoded.ctypes.data_as(pointer),
                                       count) == 0
    library.equant_codec_destroy(codec)
    return room.raw[:written.value], decoded


def values_of(*shape, seed=3):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)


class Arrays(unittest.TestCase):
    def refuses(self, kind, words, call):
        with self.assertRaisesRegex(kind, words) as caught:
            call()
        self.assertEqual(len(str(caught.exception).splitlines()), 1)

    def test_every_compressor_has_the_bytes_of_the_c_interface(self):
        names = equant.compressors()
        self.assertGreater(len(names), 20)
        self.assertEqual(names["bf16"].split(",")[0], "bfloat16")
        for name in names:
            for shape, rows in (((48, 50), 48), ((2400,), 0), ((1,), 0), ((3, 1, 7), 3)):
                values = values_of(*shape)
                data = equant.compress(values, name, step=7, tensor=5, sender=2)
                message, decoded = by_c(values, name, {}, 7, 5, 2, rows)
                self.assertIn(message, data, name)
                self.assertLess(len(data) - len(message), 250)
                found = equant.decompress(data)
                self.assertEqual((found.dtype, found.shape), (numpy.dtype("float32"), shape), name)
                self.assertEqual(found.tobytes(), decoded.tobytes(), name)
                tensor = equant.compress(torch.from_numpy(values), name, step=7, tensor=5, sender=2)
                self.assertIn(message, tensor, name)
                self.assertEqual(equant.decompress(tensor).numpy().tobytes(), decoded.tobytes(), name)

    def test_options_and_seed(self):
        values = values_of(64, 64)
        self.assertIn(by_c(values, "qsgd", {"bits": 8}, 0, 0, 0, 64)[0], equant.compress(values, "qsgd", bits=8))
        self.assertNotEqual(equant.compress(values, "qsgd", seed=2), equant.compress(values, "qsgd"))
        self.assertEqual(equant.compress(values, "qsgd", seed=2), equant.compress(values, "qsgd", seed=2))

    def test_types_come_back(self):
        exact = numpy.array([[0.5, -2.0, 3.0], [1.0, 0.0, -0.25]])
        for dtype in ("float16", "float32", "float64"):
            found = equant.decompress(equant.compress(exact.astype(dtype), "none"))
            self.assertEqual(found.dtype, numpy.dtype(dtype))
            self.assertTrue((found == exact).all())
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            tensor = torch.nn.Parameter(torch.tensor(exact).to(dtype))
            data = equant.compress(tensor, "none")
            found = equant.decompress(data)
            self.assertEqual(found.dtype, dtype)
            self.assertTrue(torch.equal(found, tensor.detach()))
            self.assertEqual(equant.decompress(data, to="numpy").dtype,
                             numpy.dtype("float32" if dtype == torch.bfloat16 else str(dtype).split(".")[1]))
        self.assertIsInstance(equant.decompress(equant.compress(exact, "none"), to="torch"), torch.Tensor)
        third = equant.decompress(equant.compress(numpy.full(3, 1 / 3), "none"))
        self.assertEqual(third.tolist(), [float(numpy.float32(1 / 3))] * 3)  # float64 is rounded
        for shape in ((), (0,), (4, 0)):
            self.assertEqual(equant.decompress(equant.compress(numpy.zeros(shape), "topk")).shape, shape)

    def test_residual_keeps_what_is_left_out(self):
        values, residual = values_of(40, 50), numpy.zeros((40, 50), numpy.float32)
        total = sum(equant.decompress(equant.compress(values, "topk", residual=residual, density=0.1, step=step))
                    for step in range(5))
        self.assertGreater(numpy.abs(residual).max(), 1)
        numpy.testing.assert_allclose(total + residual, 5 * values, atol=1e-5)

    def test_refusals(self):
        self.refuses(TypeError, "expected values of type .*, found int64; try .astype", lambda: equant.compress(
            numpy.arange(3)))
        self.refuses(TypeError, "found torch.int32; try .float", lambda: equant.compress(torch.arange(3).int()))
        self.refuses(TypeError, "found list; try numpy.asarray", lambda: equant.compress([1.0]))
        self.refuses(TypeError, "found >f4; try .astype", lambda: equant.compress(numpy.zeros(3, ">f4")))
        self.refuses(ValueError, "contiguous values .*; try numpy.ascontiguousarray", lambda: equant.compress(
            values_of(4, 6)[:, ::2]))
        self.refuses(ValueError, "contiguous values .*; try .contiguous", lambda: equant.compress(torch.ones(4, 6).t()))
        self.refuses(TypeError, "in main memory .* the device meta; try .cpu", lambda: equant.compress(
            torch.zeros(4, device="meta")))
        self.refuses(TypeError, "dense tensor .*; try .to_dense", lambda: equant.compress(torch.ones(4).to_sparse()))
        self.refuses(ValueError, 'the nearest is "qsgd"', lambda: equant.compress(values_of(3), "qsgdd"))
        self.refuses(ValueError, "bits", lambda: equant.compress(values_of(3), "qsgd", bits=99))
        self.refuses(TypeError, "options that JSON can say", lambda: equant.compress(values_of(3), "qsgd", bits=b"4"))
        self.refuses(equant.Diverged, "infinite|finite|NaN", lambda: equant.compress(
            numpy.array([1, numpy.nan]), "int8"))
        self.refuses(equant.Diverged, "infinite|finite|NaN", lambda: equant.compress(numpy.array([1e300]), "int8"))
        self.refuses(ValueError, "step of compress.., found -1", lambda: equant.compress(values_of(3), step=-1))
        self.refuses(ValueError, "residual of 3 values .* found 4 of float64", lambda: equant.compress(
            values_of(3), residual=numpy.zeros(4)))
        self.refuses(ValueError, "at most 536870912 values", lambda: equant.compress(
            numpy.broadcast_to(numpy.float32(1), (2, 1 << 29)).view(Contiguous)))

    def test_bytes_of_others(self):
        data = equant.compress(values_of(30, 40))
        self.refuses(ValueError, r"expected bytes of equant.compress\(\) to decompress, found others",
                     lambda: equant.decompress(b"words"))
        self.refuses(TypeError, "expected bytes to decompress, found int", lambda: equant.decompress(4))
        self.refuses(ValueError, 'expected "numpy" or "torch"', lambda: equant.decompress(data, to="jax"))
        for at in range(0, len(data), 7):  # no damage gets through
            damaged = bytearray(data)
            damaged[at] ^= 1
            self.refuses(ValueError, "found others", lambda: equant.decompress(damaged))
            self.refuses(ValueError, "found others", lambda: equant.decompress(data[:at]))
        length, = struct.unpack_from("<I", data, 4)
        for change in ({"shape": [30, 41]}, {"shape": [-1]}, {"dtype": "int8"}, {"step": 2**64}, {"compressor": 3}):
            description = json.dumps(dict(json.loads(data[8:8 + length]), **change)).encode()
            whole = data[:4] + struct.pack("<I", len(description)) + description + data[8 + length:-4]
            whole += struct.pack("<I", _arrays.zlib.crc32(whole))
            self.refuses(ValueError, "expected", lambda: equant.decompress(whole))

    def test_torch_is_not_imported_for_arrays(self):
        program = ("import numpy, sys, equant\nequant.decompress(equant.compress(numpy.ones((3, 4)), 'qsgd'))\n"
                   "assert 'torch' not in sys.modules and 'DDPHook' in equant.__all__")
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_processor_without_instructions(self):
        text = "processor : 0\nflags\t\t: fpu sse2 avx2\n"
        self.assertEqual(_library.missing_instructions(["avx2", "avx512f"], text), ["avx512f"])
        self.assertEqual(_library.missing_instructions(["asimd"], "Features : fp asimd\n"), [])
        self.refuses(ImportError, "expected a processor with .*quantum.*, found one without quantum; build it",
                     lambda: _library._require_processor(["quantum"]))
        _library._require_processor([])

    def test_libraries_that_do_not_fit(self):
        for path, words in (("/nowhere/libequant_codec.so", "cannot be loaded"),
                            (ctypes.util.find_library("m"), "another library")):
            run = subprocess.run([sys.executable, "-c", "import equant"], text=True, capture_output=True,
                                 env=dict(os.environ, EQUANT_CODEC_LIBRARY=path))
            self.assertEqual(run.returncode, 1)
            self.assertIn(words, run.stderr.splitlines()[-1])
            self.assertIn("EQUANT_CODEC_LIBRARY", run.stderr.splitlines()[-1])

    @unittest.skipUnless((ROOT / "CMakeLists.txt").exists(), "not in the sources")
    def test_version_is_that_of_the_program(self):
        version = (ROOT / "CMakeLists.txt").read_text().split("project(equant-train VERSION ")[1].split()[0]
        self.assertEqual(version, equant.__version__)
        self.assertIn(f'version = "{version}"', (ROOT / "python/pyproject.toml").read_text())
        self.assertEqual(version, equant.library_version().split("+")[0])


class Contiguous(numpy.ndarray):
    """An array of 2^30 values without their memory, which says that it is contiguous."""

    @property
    def flags(self):
        return numpy.zeros(1).flags


if __name__ == "__main__":
    unittest.main()
