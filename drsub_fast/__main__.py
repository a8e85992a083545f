"""``python -m drsub_fast``."""

from drsub_fast.cli import main

raise SystemExit(main())
