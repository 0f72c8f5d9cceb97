"""python -m cindy.data: make the bundled data set again."""

from cindy.data import make

__all__ = []

if __name__ == "__main__":
    make()
