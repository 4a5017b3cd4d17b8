"""What a fresh installation must do: `python smoke.py` in an environment with irlax and nothing else of ours.

Not a test of the suite: `make package` builds the archives, installs the wheel, and runs this.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

IRLAX = str(Path(sys.executable).with_name("irlax"))


def irlax(folder, *arguments, code=0):
    """A command in a folder; its standard output."""
    end = subprocess.run([IRLAX, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert end.returncode == code, (arguments, end.returncode, end.stdout, end.stderr)
    print("ok: irlax", *arguments)
    return end.stdout


def main():
    import irlax as package

    home = Path(package.__file__).parent
    assert "site-packages" in home.parts, f"irlax is imported from {home}, which is no installation"
    assert (home / "py.typed").exists() and (home / "data" / "experts" / "README.md").exists()
    with tempfile.TemporaryDirectory() as folder:
        assert irlax(folder, "--version").strip() == package.__version__
        assert json.loads(irlax(folder, "doctor", "--json"))["healthy"]
        Path(folder, "maze.txt").write_text("S..\n.#X\n..G\n")
        irlax(folder, "mdp", "grid", "maze.txt", "--out", "maze.npz", "--demos", "walks.csv", "--horizon", "15")
        irlax(folder, "fit", "maze.npz", "walks.csv", "--reward", "s", "--l2", "0.01", "--out", "run")
        assert json.loads(irlax(folder, "show", "run", "--json"))["converged"]
        irlax(folder, "report", "run")
        irlax(folder, "diagnose", "maze.npz")
        irlax(folder, "reproduce", "risky-path")
        irlax(folder, "demo")
        assert Path(folder, "out", "demo", "report.html").exists()
        irlax(folder, "show", "nothing", code=2)


if __name__ == "__main__":
    main()
