"""Where the pieces of a summary are worked out."""

__all__: list[str] = []
