"""`python -m cindy`: the command line, if the script `cindy` is not on the path."""

from cindy.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
