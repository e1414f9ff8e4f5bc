"""Every public name has an example, which pytest runs as a doctest of the module it is from."""

from __future__ import annotations

import doctest
import inspect
from importlib import import_module

import pytest

MODULES = ("", ".baselines", ".datasets", ".io", ".metrics", ".plotting", ".report")


def public() -> list[tuple[str, object]]:
    found = {}
    for module in (import_module(f"hencler{name}") for name in MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isroutine(value) or inspect.isclass(value):
                found[f"{module.__name__}.{name}"] = value
    return sorted(found.items())


@pytest.mark.parametrize(("name", "value"), public())
def test_has_an_example_that_is_run(name, value):
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(value) or "")
    run = [each for each in examples if not each.options.get(doctest.SKIP)]
    assert any(each.want for each in run), f"{name} has no example with an answer"
    # pytest is told to pass the benchmarks over, and looks at a name where it is defined.
    assert value.__module__.startswith("hencler")
    assert not value.__module__.startswith("hencler.bench")


def test_all_modules_are_looked_at():
    import hencler

    assert {f".{name}" for name in hencler._MODULES} <= set(MODULES)
