"""Python runs this in every process of the server before anything else.

A Llama needs nothing of it. `PKGTOOLS_E2E_SHIM=k3` lets Kimi K3's kernels run on the CPU;
`PKGTOOLS_E2E_SHIM=k3-weights` gives a tiny K3 on a GPU realistic weights and nothing else;
`PKGTOOLS_E2E_SPY=FOLDER` writes down what its layers compute, and
`PKGTOOLS_E2E_SPY_LAST=N` only what they compute for the last N tokens.
`PKGTOOLS_E2E_CLOCK=FOLDER` writes down how long capture's hooks take.
"""

import os

if os.environ.get("PKGTOOLS_E2E_SHIM") == "k3":
    import k3_shim

    k3_shim.install()
elif os.environ.get("PKGTOOLS_E2E_SHIM") == "k3-weights":
    from after_import import after_import
    from k3_weights import CHANGES

    after_import(CHANGES)
if os.environ.get("PKGTOOLS_E2E_SPY"):
    import k3_spy

    k3_spy.install(os.environ["PKGTOOLS_E2E_SPY"], os.environ.get("PKGTOOLS_E2E_SPY_LAST"))
if os.environ.get("PKGTOOLS_E2E_CLOCK"):
    import capture_clock

    capture_clock.install(os.environ["PKGTOOLS_E2E_CLOCK"])
