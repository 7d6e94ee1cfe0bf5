"""Other tools, each in an environment of its own under .cache/peers: `python -m bench.repair.peers install [TOOL …]`."""

import argparse
import subprocess
import sys
import venv
from pathlib import Path

from autopatch.contract.errors import AutoPatchError, OperatorError, Unavailable

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".cache" / "peers"
PACKAGES = {"aider": "aider-chat==0.86.2", "mini": "mini-swe-agent==2.4.6"}


def program(tool: str) -> Path:
    """Its command. Raises Unavailable when it is not installed as it should be."""
    found = FOLDER / tool / "bin" / tool
    if not found.exists() or installed(tool) != PACKAGES[tool]:
        raise Unavailable(tool, "not installed", tip=f"python -m bench.repair.peers install {tool}")
    return found


def installed(tool: str) -> str:
    """Which package was installed to its end, '' for none."""
    stamp = FOLDER / tool / "installed"
    return stamp.read_text("utf-8").strip() if stamp.exists() else ""


def install(tool: str) -> bool:
    """Install it unless it is there; False when it was. May be stopped and repeated. Raises Unavailable."""
    package, folder = PACKAGES[tool], FOLDER / tool
    if installed(tool) == package:
        return False
    venv.create(folder, with_pip=True, symlinks=True, clear=bool(installed(tool)))
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["pip failed"]
        raise Unavailable(tool, f"{package} could not be installed: {last[0][:300]}")
    (folder / "installed").write_text(package)
    return True


def main() -> int:
    """Exit code 1 when one could not be installed."""
    parser = argparse.ArgumentParser(prog="python -m bench.repair.peers", description="Tools to compare with.")
    parser.add_argument("action", choices=["install", "list"])
    parser.add_argument("tool", nargs="*", help=f"of {', '.join(PACKAGES)}; all when none is named")
    given = parser.parse_args()
    try:
        if unknown := [tool for tool in given.tool if tool not in PACKAGES]:
            raise OperatorError(f"{unknown[0]} is none of {', '.join(PACKAGES)}")
        for tool in given.tool or PACKAGES:
            if given.action == "install":
                print(f"{tool}: {'installed' if install(tool) else 'is there'} ({PACKAGES[tool]})", flush=True)
            else:
                print(f"{tool}: {installed(tool) or 'not installed'}")
    except AutoPatchError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
