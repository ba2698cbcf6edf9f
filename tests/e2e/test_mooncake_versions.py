"""The sink's tests on other releases of Mooncake than the one that is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from serving.process import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.server

_OLDEST: Final = "0.3.10.post2"
_K3: Final = "0.3.12.post1"
"""What the Dockerfile of Kimi K3's own SGLang pins. Its wheel needs CUDA's runtime."""


@pytest.fixture(scope="module", params=[_OLDEST, _K3])
def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, str]:
    """Install a release beside the others; return the variables that put it first."""
    pytest.importorskip("mooncake.store", exc_type=ImportError)
    folder = tmp_path_factory.mktemp("mooncake")
    wanted = [f"mooncake-transfer-engine-non-cuda=={request.param}", "nvidia-cuda-runtime-cu12"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "-t", str(folder), *wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"pip does not install it: {done.stderr.strip()[-200:]}")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
        "LD_LIBRARY_PATH": str(folder / "nvidia" / "cuda_runtime" / "lib"),
    }


def test_the_sink_works_with_it(environment: Mapping[str, str]) -> None:
    tests = Path(__file__).with_name("test_sink.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)],
        env=environment,
        cwd=tests.parents[2],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]


def test_its_master_takes_the_options_of_a_recipe(environment: Mapping[str, str]) -> None:
    """It ends at once over an option that it does not know."""
    command = ["mooncake_master", f"--rpc_port={free_port()}", f"--metrics_port={free_port()}"]
    command += ["--undefok=metrics_host", "--metrics_host=127.0.0.1"]
    program = Path(environment["PYTHONPATH"].split(os.pathsep)[0]) / "bin" / command[0]
    master = subprocess.Popen(
        [sys.executable, str(program), *command[1:]],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            master.wait(3)
    finally:
        os.killpg(master.pid, 9)
        master.wait()
