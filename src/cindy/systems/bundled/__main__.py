"""python -m cindy.systems.bundled: make the bundled data set again."""

from cindy.systems.bundled import make

__all__ = []

if __name__ == "__main__":
    make()
