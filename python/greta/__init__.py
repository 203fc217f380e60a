"""Rows of any inference engine, where greta judges them.

    import greta
    with greta.Run("greta.db", experiment="rollout", mode="as_designed", dtype="f32") as run:
        run.row("attn_out", layer=3, pos=17, values=array)

A row is kept as its fingerprint: hash of all values, statistics, sketch. Values are anything with
Python's buffer protocol or a contiguous tensor of PyTorch on the host, of f32, f16 or bf16; these
are read where they lie. Everything else (another dtype, another device, strides) is copied, as f32.
"""

from greta._library import Error, library_path, version
from greta._run import AFTER_STACK, Fingerprint, Run, fingerprint

__all__ = ["AFTER_STACK", "Error", "Fingerprint", "Run", "fingerprint", "library_path", "version"]
__version__ = version()
