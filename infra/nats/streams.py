"""`python -m infra.nats.streams`: makes the streams, buckets and consumers as the user `admin`, whose seed no room needs then.

Takes AUTOPATCH_NATS_URL and AUTOPATCH_NKEY_FOLDER as the rooms do. Safe to run again.
"""

import asyncio
import sys

from autopatch.chassis.main import prepare
from autopatch.chassis.settings import Common, load
from autopatch.contract.errors import AutoPatchError


def main() -> int:
    """Exit code 0 when everything is there, 2 with the reason."""
    try:
        asyncio.run(prepare(load(Common)))
    except AutoPatchError as error:
        print(f"streams: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
