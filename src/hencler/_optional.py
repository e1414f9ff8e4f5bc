"""Import of optional packages, with one error message that names the extra to install."""

from __future__ import annotations

import importlib
from typing import Any

from ._errors import MissingExtraError

# import name -> extra of pyproject.toml
_EXTRAS = {
    "torch_geometric": "pyg",
    "networkx": "networkx",
    "pyarrow": "parquet",
    "matplotlib": "plot",
    "jinja2": "report",
}


def optional_import(module: str, purpose: str) -> Any:
    """Import `module`, or say which extra holds it and what it is needed for."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        extra = _EXTRAS.get(package, package)
        raise MissingExtraError(
            f"{purpose} needs the package {package!r}",
            remedy=f"Install it with: pip install 'hencler[{extra}]'",
        ) from error
