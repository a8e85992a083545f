"""``drsub-fast choose``: chooses items for many users from a file of their candidates."""

from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path

from drsub_fast.batch.choice_files import read_choice_stack
from drsub_fast.batch.choices import as_settings, stacked_choices
from drsub_fast.cli.batch import add_places, check_places, of_stack, write_batch
from drsub_fast.objectives.similarity import SIMILARITIES

DESCRIPTION = (
    "Chooses items for each of many users, as greedy_map_stacked does. FILE is an .npz file or a folder of .npy files "
    "with the arrays features (N, d) and offsets (B + 1), or features (B, n, d) and lengths (B), or L (B, n, n); "
    "quality, groups and per_group where there are any. Or it is a .parquet file with a row for each candidate and the "
    "columns user, features (lists of numbers), quality, groups; the candidates of a user follow each other. It is "
    "read in pieces. Finished pieces are kept in OUT.checkpoint until the end. Exit status 1 if the data of any user "
    "were refused."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments of the subcommand."""
    parser.add_argument("input", type=Path, metavar="FILE", help="candidates: .npz, .parquet or a folder of .npy files")
    parser.add_argument("--size", type=int, required=True, metavar="K", help="items for each user")
    parser.add_argument("--similarity", choices=SIMILARITIES, default="cosine", help="of features; cosine by default")
    parser.add_argument("--gamma", type=float, metavar="FLOAT", help="of --similarity rbf")
    parser.add_argument("--per-group", type=int, metavar="N", help="most items of each group")
    add_places(parser)


def run(args: Namespace) -> int:
    """Chooses, writes the table, prints a summary."""
    check_places(args)
    stack, per_group = read_choice_stack(args.input)
    per_group = per_group if args.per_group is None else args.per_group
    settings = as_settings(stack, args.size, args.similarity, args.gamma, per_group)
    return write_batch(args, "user", stack.count, partial(of_stack, stacked_choices, "user", stack, settings))
