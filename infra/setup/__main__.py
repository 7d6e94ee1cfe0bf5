"""`python3 -m infra.setup PROFILE [--model MODE]`: everything that a fresh machine lacks, or what to install by hand.

Profiles: `demo` what the demo needs, `dev` that and the tools for tests and checks. Quick when nothing is to be done. Uses the
standard library only: nothing is installed yet when it runs.
"""

import argparse
import sys

from infra.setup import packages, programs, python
from infra.setup.steps import Failed, Report, together


def main() -> int:
    """Exit codes: 0 ready, 1 a step failed, 2 something has to be installed by hand."""
    parser = argparse.ArgumentParser(prog="make setup", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile", choices=("demo", "dev"))
    options = parser.parse_args()
    report = Report()
    try:
        python.check_version()
        packages.install(report, packages.FIRST)
        together(
            lambda: python.environment(report, options.profile),
            lambda: servers(report, options.profile),
        )
    except Failed as failure:
        report.say("setup", str(failure))
        return failure.exit_code
    report.say("setup", "ready")
    return 0


def servers(report: Report, profile: str) -> None:
    """Packages, then what needs them."""
    packages.install(report, packages.SERVERS)
    together(lambda: programs.unpack(report, profile), lambda: programs.images(report))


if __name__ == "__main__":
    sys.exit(main())
