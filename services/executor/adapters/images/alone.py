"""pip, which here can start nothing: what is not ready-made would be built by code of its own. Runs in the container."""

import runpy
import sys

STARTS = ("subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "pty.")


def forbid(event: str, said: tuple[object, ...]) -> None:
    """An audit hook; it cannot be taken away again. pip asks musl's own loader for its version, and no other program."""
    if event.startswith(STARTS) and not (event == "subprocess.Popen" and str(said[0]).startswith("/lib/ld-musl-")):
        raise PermissionError("nothing is run while dependencies are installed")


if __name__ == "__main__":
    sys.addaudithook(forbid)
    runpy.run_module("pip", run_name="__main__", alter_sys=True)
