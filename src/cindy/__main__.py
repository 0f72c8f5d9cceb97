"""python -m cindy: the command line, where no script of that name is on the path."""

from cindy.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
