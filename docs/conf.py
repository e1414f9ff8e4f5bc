"""Configuration of the pages; ``make docs`` builds them with warnings as errors."""

import os
import re
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("OMP_NUM_THREADS", "2")

from hencler import __version__  # noqa: E402

project = "hencler"
copyright = "the hencler developers"
version = release = __version__

extensions = [
    "executed",
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "results.md", "gallery/**.md5", "gallery/**.ipynb"]

# --- text --------------------------------------------------------------------------------------

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# --- gallery -----------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "order.ExampleOrder",
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e6,
    "write_computation_times": False,
    "remove_config_comments": True,
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

# --- look --------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_title = "hencler"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": True,
    "show_toc_level": 2,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "contributing": []}

# --- results -----------------------------------------------------------------------------------

NO_RESULTS = """
The tables have not been written yet. `hencler bench paper --page docs/results.md` writes them.
"""


def _insert_results(app, docname, source):
    """The tables that `hencler bench paper --page docs/results.md` wrote, on their page."""
    if docname == "tables":
        file = HERE / "results.md"
        source[0] += "\n" + (file.read_text(encoding="utf-8") if file.exists() else NO_RESULTS)


ATTRIBUTE = re.compile(r"(?<![`*\\\w])([A-Za-z]\w*)_(?=[\s.,;:)]|$)")


def _escape(app, what, name, obj, options, lines):
    """What docstrings mean as plain text: x_ is an attribute and no link, |x| an absolute value."""
    formulas = any("math:" in line for line in lines)
    for i, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        line = ATTRIBUTE.sub(r"\1\\_", line)
        lines[i] = line if formulas else line.replace("|", r"\|")


OF_SCIKIT_LEARN = re.compile(r"set_\w+_request|get_metadata_routing|set_output|[gs]et_params")


def _skip(app, what, name, obj, skip, options):
    """Machinery that scikit-learn adds to every estimator, and documents itself."""
    return True if OF_SCIKIT_LEARN.fullmatch(name) else None


def setup(app):
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _escape)
    app.connect("source-read", _insert_results)
