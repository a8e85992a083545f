"""``python -m tests.judge --part choosers --cases 20000 --seed 7`` prints what is wrong, then the counts."""

import argparse
import sys
from functools import partial

from .court import run
from .parts import PARTS


def main():
    """Exit code 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.judge", description=__doc__)
    parser.add_argument("--part", choices=list(PARTS), action="append", help="all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--case", type=int, help="this case alone")
    parser.add_argument("--seconds", type=float, help="of each part, at most")
    args = parser.parse_args()
    numbers = range(args.first, args.first + args.cases) if args.case is None else [args.case]
    wrong = 0
    for part in args.part or PARTS:
        total = run(part, PARTS[part], args.seed, numbers, args.seconds, partial(print, flush=True))
        print(total.report(), flush=True)
        wrong += len(total.faults)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
