"""What two_rows.c does, by somebody who has only what is installed."""
import array
import sys

import greta

values = array.array("f", [1, -2, 0.5, 3])
with greta.Run(sys.argv[1], experiment="from_python") as run:
    for phase in ("prefill_last", "decode0"):
        run.row("attn_out", layer=3, pos=17, phase=phase, values=values)
print(greta.__version__)
