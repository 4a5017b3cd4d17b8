"""The peers, each in a virtual environment of its own under .bench/, with versions that install together."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.record import ROOT
from benchmarks.speed import fresh

HERE = Path(__file__).resolve().parent / "peers"


def ask(peer: str, question: str, **arguments: Any) -> dict[str, Any]:
    """What the function of that name in `peers/` answers, run by the peer's own Python."""
    return fresh.call(f"benchmarks.speed.peers.{peer.replace('-', '_')}", question, python=_python(peer), **arguments)


def versions(peer: str) -> dict[str, str]:
    """The pins of a peer's environment that matter to its speed."""
    pins = dict(line.split("==") for line in (HERE / f"{peer}.txt").read_text().split())
    return {name: pins[name] for name in (peer, "numpy", "scipy", "torch", "jax") if name in pins}


def _python(peer: str) -> Path:
    """The interpreter of the peer's environment, which is made anew unless it came from the very same list."""
    folder, wanted = ROOT / ".bench" / peer, HERE / f"{peer}.txt"
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted.read_text():
        return python
    print(f"Installing {peer} in .bench/{peer} ...", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    # The list is complete, so nothing is left to resolve; some of these packages pin each other too narrowly for pip.
    quietly = ["--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([python, "-m", "pip", "install", *quietly, "--requirement", wanted], check=True)
    stamp.write_text(wanted.read_text())
    return python
