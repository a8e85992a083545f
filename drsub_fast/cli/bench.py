"""``drsub-fast bench``: measures the speed table on this machine."""

from argparse import ArgumentParser, Namespace

from drsub_fast.engine.jit import compiling
from drsub_fast.experiments import peers, speed_table

DESCRIPTION = "Ratios of the time of other ways to ours, both measured in turn in this run with one BLAS thread."


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument("--quick", action="store_true", help="small sizes only, about a minute")


@compiling()
def run(args: Namespace) -> int:
    """Prints the speed table row by row, then how the time of a step grows with n."""
    layout = "{:30}{:26}{:22}{:>12}{:>12}{:>9}  {}"
    print(layout.format("task", "size", "against", "theirs", "ours", "ratio", "values"))
    if peers.missing():
        print(peers.missing())
    for row in speed_table.table(args.quick):
        texts = [f"{1e3 * t:.4g} ms" for t in (row.baseline_time, row.time)]
        ratio = f"{row.ratio:.{1 if row.ratio < 10.0 else 0}f}x"
        print(layout.format(row.task, row.size, row.baseline, *texts, ratio, row.agreement), flush=True)
    sizes = (64, 128, 256) if args.quick else (64, 128, 256, 512, 1024)
    exponents, times, memory = speed_table.growth(sizes, seconds=0.5 if args.quick else 3.0)
    steps = ", ".join(
        f"{1e6 * t:.3g} us and {y / 1e6:.3g} MB at n = {n}" for n, t, y in zip(sizes, times, memory, strict=True)
    )
    print(f"a warm step grows like n^{exponents[0]:.2f}, its memory like n^{exponents[1]:.2f} (m = n / 2): {steps}")
    return 0
