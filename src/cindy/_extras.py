"""Optional dependencies: loaded when asked for, named when missing."""

from importlib import import_module
from types import ModuleType

from cindy.errors import MissingExtraError

__all__ = ["require"]


def require(module: str, extra: str, what: str) -> ModuleType:
    """The module, or an error that says which extra of this library brings it.

    what: names what was asked for, "Model.to_dataframe" for example
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "cindy":
            raise
        raise MissingExtraError(
            f'{what} needs the package "{error.name}", which is not installed. '
            f'Run: pip install "cindy[{extra}]"'
        ) from error
