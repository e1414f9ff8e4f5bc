"""Draw the picture of the README, docs/_static/readme.png, from the first example."""

import runpy
from io import BytesIO
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from PIL import Image

HERE = Path(__file__).parent

if __name__ == "__main__":
    example = runpy.run_path(str(HERE.parent / "examples" / "plot_heterophilous.py"))
    drawn = BytesIO()
    example["figure"].savefig(drawn, dpi=110)
    # A palette is a third of the size, and looks the same.
    colours = Image.open(drawn).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
    colours.save(HERE / "_static" / "readme.png", optimize=True)
