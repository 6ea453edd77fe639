"""``python -m counteredge``."""

from counteredge.cli import main

if __name__ == "__main__":
    main()
