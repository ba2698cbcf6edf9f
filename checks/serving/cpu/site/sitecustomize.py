"""Python runs this in every process of the server before anything else.

A Llama needs nothing of it. `PKGTOOLS_E2E_SHIM=k3` lets Kimi K3's kernels run on the CPU;
`PKGTOOLS_E2E_SPY=FOLDER` writes down what its layers compute.
"""

import os

if os.environ.get("PKGTOOLS_E2E_SHIM") == "k3":
    import k3_shim

    k3_shim.install()
if os.environ.get("PKGTOOLS_E2E_SPY"):
    import k3_spy

    k3_spy.install(os.environ["PKGTOOLS_E2E_SPY"])
