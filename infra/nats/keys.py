"""`python -m infra.nats.keys DIR`: a nkey user per room, and the accounts.conf that gives each what it may say and hear.

Seeds (DIR/<room>/seed.nk, for their owner only) that are there already are kept; DIR/server/accounts.conf is written anew each
time. A room needs its own folder only, and nats-server none but `server`.
"""

import sys
from pathlib import Path

from autopatch.chassis.permissions import make_keys, server_config


def main(folder: Path) -> None:
    """Seeds for the rooms' nkey_folder, accounts.conf for nats-server's `include`."""
    public = make_keys(folder)
    (folder / "server").mkdir(exist_ok=True)
    (folder / "server" / "accounts.conf").write_text(server_config(public))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m infra.nats.keys DIR")
    main(Path(sys.argv[1]))
