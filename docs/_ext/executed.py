"""Directives that execute what a page shows, so that no page can show what does not work.

``{file} NAME`` writes its content to a file and shows it. ``{run} COMMAND`` runs a command of the
command line and shows what it prints. ``{python}`` runs a session with prompts and compares the
answers, as doctest does. ``{picture} WHAT IT SHOWS`` runs plain Python and shows the figure it
drew. ``{report} FOLDER`` links to the report of a run that the page made. All of a page share one
folder and one Python session. A command that fails or an answer that differs is a warning, which
``make docs`` turns into an error.
"""

import base64
import doctest
import html
import io
import os
import shlex
import shutil
import subprocess
import sysconfig
from contextlib import chdir
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class _Executed(SphinxDirective):
    has_content = True

    @property
    def folder(self):
        folder = Path(self.env.doctreedir) / "executed" / self.env.docname
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def block(self, text, language):
        node = nodes.literal_block(text, text)
        node["language"] = language
        self.set_source_info(node)
        return node

    def warn(self, message):
        self.state.document.reporter.warning(message, line=self.lineno)


class File(_Executed):
    required_arguments = 1

    def run(self):
        name, text = self.arguments[0], "\n".join(self.content) + "\n"
        (self.folder / name).write_text(text, encoding="utf-8")
        caption = nodes.paragraph("", "", nodes.literal(name, name))
        return [caption, self.block(text.rstrip(), "text")]


class Run(_Executed):
    required_arguments = 1
    final_argument_whitespace = True
    has_content = False

    def run(self):
        command = " ".join(self.arguments[0].split())
        words = shlex.split(command)
        if words[0] != "hencler":
            raise self.error(f"only hencler can be run, not {words[0]!r}")
        done = subprocess.run(
            [Path(sysconfig.get_path("scripts")) / "hencler", *words[1:]],
            cwd=self.folder,
            env={**os.environ, "COLUMNS": "88", "NO_COLOR": "1", "TERM": "dumb"},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if done.returncode:
            self.warn(f"{command} failed: {done.stdout}")
        lines = [line.rstrip() for line in done.stdout.strip().splitlines()]
        return [self.block("\n".join([f"$ {command}", *lines]), "console")]


class Python(_Executed):
    def run(self):
        text = "\n".join(self.content) + "\n"
        names = self.env.temp_data.setdefault("executed_names", {})
        test = doctest.DocTestParser().get_doctest(
            text, names, self.env.docname, self.get_source_info()[0], self.lineno
        )
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        report = []
        with chdir(self.folder):
            runner.run(test, out=report.append, clear_globs=False)
        names.update(test.globs)
        if runner.failures:
            self.warn("".join(report))
        return [self.block(text.rstrip(), "pycon")]


class Picture(_Executed):
    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        text = "\n".join(self.content)
        names = self.env.temp_data.setdefault("executed_names", {})
        pyplot.close("all")
        try:
            with chdir(self.folder):
                exec(compile(text, f"<{self.env.docname}>", "exec"), names)
        except Exception as error:
            self.warn(f"the picture failed: {error!r}")
        picture = io.BytesIO()
        pyplot.gcf().savefig(picture, dpi=110)
        pyplot.close("all")
        data = base64.b64encode(picture.getvalue()).decode()
        words = html.escape(" ".join(self.arguments[0].split()), quote=True)
        image = f'<img class="executed" alt="{words}" src="data:image/png;base64,{data}">'
        return [self.block(text, "python"), nodes.raw("", image, format="html")]


class Report(_Executed):
    required_arguments = 1
    has_content = False

    def run(self):
        target = Path(self.env.app.outdir) / "reports" / f"{self.env.docname}.html"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.folder / self.arguments[0] / "report.html", target)
        up = "../" * self.env.docname.count("/")
        link = (
            f'<p><a href="{up}reports/{self.env.docname}.html">Open the report of this run</a></p>'
        )
        return [nodes.raw("", link, format="html")]


def setup(app):
    app.add_directive("file", File)
    app.add_directive("picture", Picture)
    app.add_directive("report", Report)
    app.add_directive("run", Run)
    app.add_directive("python", Python)
    return {"parallel_read_safe": False}
