# SPDX-License-Identifier: Apache-2.0
"""Compares exports: what onnxruntime computes from NAME.onnx with what LibTorch computes from NAME.pt.

    onnx_outputs.py torchscript FOLDER PICTURES NAME...   # writes FOLDER/NAME.npz: inputs and outputs
    onnx_outputs.py onnx FOLDER NAME...                   # reads it, prints a table, ends with 1 if they differ

They are two calls because the two libraries may be installed for two Pythons. PICTURES is the folder of
Fashion-MNIST; without it the pictures are drawn.
"""
import gzip
import json
import os
import sys

import numpy as np

SAMPLES = 64
TOLERANCE = 1e-4  # of the largest output, or of 1 if all are smaller


def pictures(about, folder):
    """Test pictures as about, a preprocessing.json, says: (n, c, h, w)."""
    channels, height, width = about["shape"]
    path = os.path.join(folder, "t10k-images-idx3-ubyte.gz")
    if (channels, height, width) == (1, 28, 28) and os.path.exists(path):
        with gzip.open(path) as file:
            values = np.frombuffer(file.read(), np.uint8, SAMPLES * 784, 16)
    else:
        values = np.random.default_rng(1).integers(0, 256, SAMPLES * channels * height * width)
    values = values.reshape(SAMPLES, channels, height, width).astype(np.float32) / about["scale"]
    by_channel = (channels, 1, 1)
    mean, deviation = (np.float32(about[name]).reshape(by_channel) for name in ("mean", "deviation"))
    return [(values - mean) / deviation]


def texts(about):
    """Tokens and, if there is one, mask, (n, l) each, of texts of several lengths."""
    length, bound = about["inputs"][0]["longest"] - 3, about["inputs"][0]["bound"]
    draw = np.random.default_rng(1)
    mask = (np.arange(length) < draw.integers(2, length + 1, (SAMPLES, 1))).astype(np.int64)
    arrays = {"tokens": draw.integers(1, bound, (SAMPLES, length)) * mask, "mask": mask}
    return [arrays[spec["name"]] for spec in about["inputs"]]


def run_torchscript(work, folder, names):
    import torch
    torch.set_num_threads(1)
    for name in names:
        files = {"preprocessing.json": ""}
        module = torch.jit.load(f"{work}/{name}.pt", _extra_files=files)
        about = json.loads(files["preprocessing.json"])
        inputs = texts(about) if "text" in about else pictures(about, folder)
        with torch.no_grad():
            outputs = module(*map(torch.from_numpy, inputs)).numpy()
        np.savez(f"{work}/{name}.npz", outputs=outputs, about=json.dumps(about), inputs=len(inputs),
                 **{f"input{i}": array for i, array in enumerate(inputs)})


def run_onnx(work, names):
    import onnxruntime
    wrong = []
    print(f"onnxruntime {onnxruntime.__version__}; {SAMPLES} samples")
    print(f"{'network':<26}{'difference':>12}{'largest':>10}{'MB':>9}")
    for name in names:
        path, saved = f"{work}/{name}.onnx", np.load(f"{work}/{name}.npz")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        inputs, expected = [saved[f"input{i}"] for i in range(int(saved["inputs"]))], saved["outputs"]
        said = session.get_modelmeta().custom_metadata_map["preprocessing"]
        if json.loads(said) != json.loads(str(saved["about"])):
            wrong.append(f"{name}: the preprocessing is another")
        arguments = [argument.name for argument in session.get_inputs()]
        largest, worst = max(1.0, float(np.abs(expected).max())), 0.0
        for count in (1, 7, SAMPLES):  # any number of samples
            found, = session.run(None, dict(zip(arguments, (array[:count] for array in inputs))))
            if found.shape != expected[:count].shape:
                wrong.append(f"{name}: shape {found.shape} instead of {expected[:count].shape}")
                break
            worst = max(worst, float(np.abs(found - expected[:count]).max()))
        print(f"{name:<26}{worst:>12.2g}{np.abs(expected).max():>10.3g}{os.path.getsize(path) / 1e6:>9.2f}")
        if not worst <= TOLERANCE * largest:
            wrong.append(f"{name}: outputs of at most {largest:.3g} differ by {worst:.3g}")
        if len(set(map(bytes, expected.reshape(SAMPLES, -1)))) < 2:
            wrong.append(f"{name}: all samples have the same outputs, which shows nothing")
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    if sys.argv[1] == "torchscript":
        run_torchscript(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        run_onnx(sys.argv[2], sys.argv[3:])
