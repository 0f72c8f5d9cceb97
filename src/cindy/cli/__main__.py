"""python -m cindy.cli: the command line, where no script of that name is on the path."""

from cindy.cli.app import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
