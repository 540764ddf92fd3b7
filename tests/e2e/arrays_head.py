# SPDX-License-Identifier: Apache-2.0
"""What the scripts that write arrays and small networks begin with: `from arrays_head import *`, run
with tests/e2e in PYTHONPATH and the folder WORK as argument.
"""

import os  # noqa: F401
import sys

import numpy
import torch
from torch import nn  # noqa: F401

work = sys.argv[1]
rng = numpy.random.default_rng(1)
torch.manual_seed(1)


def save(folder, x, y, tests):
    """x_train.npy, ... under WORK/folder; the first `tests` samples are the test set; y may be None."""
    os.makedirs(f"{work}/{folder}", exist_ok=True)
    for name, part in (("train", slice(tests, None)), ("test", slice(0, tests))):
        numpy.save(f"{work}/{folder}/x_{name}.npy", x[part])
        if y is not None:
            numpy.save(f"{work}/{folder}/y_{name}.npy", y[part])
