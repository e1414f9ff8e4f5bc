"""Formulas as MathML, which browsers show by themselves: pages need no script from elsewhere."""

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util import logging

logger = logging.getLogger(__name__)


def _convert(node, display):
    try:
        return convert(node.astext(), display=display)
    except Exception as error:
        logger.warning("formula %r: %s", node.astext(), error, location=node)
        return f"<code>{node.astext()}</code>"


def _inline(self, node):
    self.body.append(_convert(node, "inline"))
    raise nodes.SkipNode


def _block(self, node):
    self.body.append(f'<div class="math-block">{_convert(node, "block")}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
