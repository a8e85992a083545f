"""``python -m drsub_fast``."""

from drsub_fast.cli.command import main

raise SystemExit(main())
