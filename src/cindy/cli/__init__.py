"""The command line: the only part of the library that prints."""

from cindy.cli.app import app, main

__all__ = ["app", "main"]
