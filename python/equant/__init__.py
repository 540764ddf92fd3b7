# SPDX-License-Identifier: Apache-2.0
"""The compressors of equant-train for NumPy, PyTorch and DistributedDataParallel.

    data = equant.compress(array, "e-elastiquant", bits=4)
    array = equant.decompress(data)
    hook = equant.DDPHook(ddp_model, "e-elastiquant")

PyTorch is imported only by DDPHook and by decompress() where a tensor is asked for.
"""

from ._library import Diverged, compressors, library, library_version
from ._arrays import compress, decompress

library()  # a library that does not fit is told here, not in the first call

__all__ = ["DDPHook", "Diverged", "compress", "compressors", "decompress", "library_version"]
__version__ = "0.2.0"


def __getattr__(name):
    if name == "DDPHook":
        from ._ddp import DDPHook
        return DDPHook
    raise AttributeError(f"module 'equant' has no attribute {name!r}")
