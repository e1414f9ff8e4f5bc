"""The command line: every command is a thin layer over the library."""

from __future__ import annotations

import difflib
import json
import os
import shutil
import sys
import time
import warnings as warnings_module
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ._errors import HenclerError, MissingExtraError, ParameterError, did_you_mean

app = typer.Typer(
    name="hencler",
    help="Cluster the nodes of a graph when linked nodes tend to be different.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench_app = typer.Typer(help="Produce the published numbers.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")

out = Console()
err = Console(stderr=True)

GRAPH_HELP = (
    "dataset:NAME, or a file: .csv, .tsv or .parquet (edges), .graphml, .gml, .mtx, .npz; "
    "or a folder that 'convert' made"
)
INTERRUPTED = 130
PRESETS = ("default", "paper", "released")
DEVICES = ("auto", "cpu", "cuda")
SAME_NAME = (
    "preset", "n_init", "n_components", "view", "learned_maps", "epochs", "learning_rate",
    "batch_size", "shared_map", "losses", "device",
    "checkpoint_seconds", "checkpoint_epochs",
)  # fmt: skip
"""Settings that are parameters of the estimator under the same name."""


def _graphs(incomplete: str) -> list[str]:
    """Data sets for the shell to complete; files it knows by itself."""
    from .datasets import DATASETS

    names = [f"dataset:{name}" for name in DATASETS]
    return [name for name in names if name.startswith(incomplete)] if incomplete else []


def _one_of(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


GraphArgument = Annotated[
    str, typer.Argument(help=GRAPH_HELP, show_default=False, autocompletion=_graphs)
]
DeviceOption = Annotated[
    str, typer.Option(help="auto, cpu or cuda.", autocompletion=_one_of(DEVICES))
]
FeaturesOption = Annotated[
    Path | None, typer.Option(help="Table of node attributes, first column the node's id.")
]
LabelOption = Annotated[
    str | None, typer.Option(help="Column of the table that holds classes; never clustered by.")
]
DirectedOption = Annotated[
    bool | None,
    typer.Option("--directed/--undirected", help="Default: undirected if every edge has its twin."),
]
BipartiteOption = Annotated[
    bool,
    typer.Option(
        "--bipartite", help="The two columns of the table name different things: users, items."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")
]


def main() -> None:
    """Entry point: a user's mistake is one line on standard error and exit status 2."""
    try:
        with _ranks():
            sys.exit(app(prog_name="hencler", standalone_mode=False) or 0)
    except HenclerError as error:
        _fail(str(error))
    except typer.Exit as error:
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _interrupted()
    except SystemExit as error:
        if error.code == INTERRUPTED:  # the parser has seen Ctrl-C before us
            _interrupted()
        raise
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except MemoryError as error:
        _fail(f"out of memory ({error}). Use a smaller --batch-size or a machine with more")
    except OSError as error:
        _fail(f"{error.filename or 'the system'}: {error.strerror or error}.")
    except Exception as error:
        # The parser's own errors know how to say themselves; anything else is our mistake.
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # which has shown the help by now
            sys.exit(0)
        _fail(_parser_message(error))


def _interrupted() -> NoReturn:
    err.print("interrupted: no clusters were written", highlight=False)
    sys.exit(INTERRUPTED)


def _parser_message(error: Any) -> str:
    """What the parser of the command line found wrong, and what may have been meant."""
    message = str(error.format_message())
    close = getattr(error, "possibilities", None)
    # Some versions of the parser offer possibilities for commands too, within their message.
    if close and hasattr(error, "option_name"):
        wrong = str(error.option_name)
        close = difflib.get_close_matches(wrong, close, 1) or close
        message = f"No such option: {wrong}. Did you mean {close[0]}?"
    context = getattr(error, "ctx", None)
    command = "hencler" if context is None else context.command_path
    return f"{message} Try '{command} --help'."


@contextmanager
def _ranks() -> Iterator[None]:
    """Join the other processes, if torchrun started several."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "RANK" not in os.environ:
        yield
        return
    from ._ranks import joined

    with joined():
        yield


def _is_assistant() -> bool:
    """Whether this is one of torchrun's processes other than the first, which writes and speaks."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and os.environ.get("RANK", "0") != "0"


def _fail(message: str) -> None:
    err.print(f"[bold red]error:[/] {_escape(message)}", soft_wrap=True, highlight=False)
    sys.exit(2)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(" ".join(text.split()))


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        from . import __version__

        out.print(f"hencler {__version__}")
        raise typer.Exit


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder of the run.")] = Path(
        "hencler-demo"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the graph and the fits.")] = 0,
) -> None:
    """Cluster an embedded graph and compare with simpler methods.

    The graph's clusters link to other clusters. Attributes alone cannot tell all of them
    apart, nor can the links without their direction.
    """
    from ._demo import run_demo

    table = Table("method", "NMI", "ARI", "seconds")
    with _progress(quiet=False):
        rows, summary = run_demo(folder, seed)
        _write_report(folder)
    for row in rows:
        table.add_row(
            row["method"], f"{row['nmi']:.2f}", f"{row['ari']:.2f}", f"{row['seconds']:.1f}"
        )
    out.print(
        f"{summary['nodes']} nodes, {summary['edges']} directed edges, "
        f"{summary['attributes']} attributes, {len(summary['cluster_sizes'])} clusters"
    )
    out.print(table)
    out.print(f"The run is in {folder}; open {folder / 'report.html'} in a browser.")
    out.print(f"A graph of your own: {_program()} fit edges.csv --clusters 4", highlight=False)


def _program() -> str:
    """How the shell finds this program; a fresh environment is not on its path yet."""
    called = Path(sys.argv[0])
    if shutil.which(called.name) or called.name != "hencler":
        return "hencler"
    return os.path.relpath(called) if called.is_absolute() else str(called)


@app.command()
def fit(
    graph: Annotated[
        str | None,
        typer.Argument(help=GRAPH_HELP, show_default=False, autocompletion=_graphs),
    ] = None,
    clusters: Annotated[
        str | None, typer.Option("--clusters", "-k", help="How many, or 'auto'.")
    ] = None,
    features: FeaturesOption = None,
    label: LabelOption = None,
    directed: DirectedOption = None,
    bipartite: BipartiteOption = False,
    folder: Annotated[Path, typer.Option("--out", help="Folder of the run.")] = Path("hencler-run"),
    preset: Annotated[
        str | None,
        typer.Option(
            help="default, paper or released.",
            show_default="default",
            autocompletion=_one_of(PRESETS),
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=0, help="Epochs of training, of the other presets.", show_default="300"),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Nodes per step.", show_default="all, 8192 beyond 100,000 nodes"),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="auto, cpu or cuda.", show_default="auto", autocompletion=_one_of(DEVICES)
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Same seed, same clusters.", show_default="0")
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            help="Table node,class to compare the finished clusters with, or 'dataset'.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Settings: a hencler.yaml, or the folder of a run that has one."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")
    ] = False,
    checkpoint_seconds: Annotated[
        float | None,
        typer.Option(min=0, help="Least time between two checkpoints.", show_default="30"),
    ] = None,
    checkpoint_epochs: Annotated[
        int | None, typer.Option(min=1, help="Epochs after which one is written in any case.")
    ] = None,
    report: Annotated[
        bool | None, typer.Option(help="Write report.html.", show_default="report")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how much memory it would take.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Cluster the nodes of a graph.

    Examples:

      hencler fit dataset:texas --clusters 5 --truth dataset

      hencler fit edges.csv --features nodes.csv --clusters 4 --out run

      hencler fit purchases.csv --bipartite --clusters 6

      hencler fit --config run --seed 1 --out again
    """
    from ._config import SETTINGS, read_settings, write_settings
    from ._folders import locked, make_folder, sweep

    given = {
        "graph": graph,
        "features": None if features is None else str(features),
        "label": label,
        "directed": directed,
        "bipartite": bipartite or None,  # a file may say it, too
        "truth": truth,
        "clusters": None if clusters is None else _cluster_count(clusters),
        "preset": preset,
        "seed": seed,
        "epochs": epochs,
        "batch_size": batch_size,
        "device": device,
        "checkpoint_seconds": checkpoint_seconds,
        "checkpoint_epochs": checkpoint_epochs,
        "report": report,
    }
    settings: dict[str, Any] = {name: each.default for name, each in SETTINGS.items()}
    settings |= {} if config is None else read_settings(config)
    settings |= {name: value for name, value in given.items() if value is not None}
    _check_given(settings, config)
    with _progress(quiet or as_json or _is_assistant()), _collected() as notes:
        loaded, classes = _open(settings)
        plan = _estimator(settings).plan_memory(loaded)
        if dry_run:
            print(json.dumps(plan.to_dict()) if as_json else plan.line())
            return
        if _is_assistant():
            if settings["preset"] != "default":  # which one process does alone
                checkpoint = folder / "checkpoint"
                _estimator(settings, checkpoint=checkpoint, resume=resume).fit(loaded)
            return
        if not (quiet or as_json):
            out.print(plan.line(), highlight=False, markup=False, soft_wrap=True)
        make_folder(folder)
        with locked(folder, wait=False):
            sweep(folder)
            write_settings(folder, settings)
            model = _estimator(
                settings,
                checkpoint=folder / "checkpoint",
                resume=resume,
            )
            summary = _fit_into(folder, model, loaded, classes, settings, notes)
        summary["memory"] = plan.to_dict()
    if as_json:
        print(json.dumps({**summary, "out": str(folder)}))
    elif not quiet:
        out.print(repr(loaded), highlight=False, markup=False)
        _show_summary(summary, folder)


def _check_given(settings: dict[str, Any], config: Path | None) -> None:
    """The two settings without a default."""
    where = "on the command line" if config is None else f"on the command line or in {config}"
    if settings["graph"] is None:
        raise ParameterError(
            f"no graph was named {where}",
            remedy="Name a file or a data set, as in 'hencler fit edges.csv --clusters 4'",
        )
    if settings["clusters"] is None:
        raise ParameterError(
            f"--clusters was not given {where}",
            remedy="Give a whole number, or 'auto' to have one proposed",
        )


def _open(settings: dict[str, Any]) -> tuple[Any, Any]:
    """The graph, and the classes to compare with."""
    from ._errors import HenclerWarning
    from ._progress import announce
    from ._run import open_graph, truth_labels

    announce("reading the graph")
    features = settings["features"]
    loaded = open_graph(
        settings["graph"],
        None if features is None else Path(features),
        settings["label"],
        settings["directed"],
        settings["bipartite"],
    )
    classes = truth_labels(loaded, settings["truth"])
    if classes is not None and len(set(classes.tolist())) > max(10, loaded.n_nodes / 2):
        warnings_module.warn(
            f"--truth {settings['truth']} has {len(set(classes.tolist()))} classes for "
            f"{loaded.n_nodes} nodes; name the column of the classes 'class'",
            HenclerWarning,
            stacklevel=2,
        )
    return loaded, classes


def _estimator(settings: dict[str, Any], **how: Any) -> Any:
    """The estimator of the settings; `how` does not change its result."""
    from ._estimator import HeNCler

    same = {name: settings[name] for name in SAME_NAME}
    return HeNCler(settings["clusters"], random_state=settings["seed"], **same, **how)


def _fit_into(
    folder: Path,
    model: Any,
    graph: Any,
    classes: Any,
    settings: dict[str, Any],
    notes: list[str],
) -> dict[str, Any]:
    """Fit, and write everything about it into the folder."""
    from ._progress import announce
    from ._run import write_run

    start = time.perf_counter()
    model.fit(graph)
    seconds = time.perf_counter() - start
    announce("writing the run")
    summary = write_run(
        folder,
        graph,
        model,
        seconds=seconds,
        source=str(settings["graph"]),
        truth=classes,
        warnings=notes,
    )
    if settings["report"]:
        _write_report(folder)
    if not model.interrupted_:
        model.discard_checkpoint()
    return summary


def _cluster_count(text: str) -> int | str:
    if text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError(
            f"{text!r} is not a number of clusters",
            place="--clusters",
            remedy="Give a whole number from 1 on, or 'auto'",
        )
    return int(text)


@app.command()
def convert(
    edges: Annotated[
        Path, typer.Argument(help="Edge list: .csv, .tsv, .txt, .parquet, or pairs in .npy.")
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder to make.")],
    features: FeaturesOption = None,
    label: LabelOption = None,
    directed: DirectedOption = None,
    bipartite: BipartiteOption = False,
    dtype: Annotated[str, typer.Option(help="float32 or float16, of the attributes.")] = "float32",
    quiet: QuietOption = False,
) -> None:
    """Stream an edge list larger than memory into a folder that 'fit' maps from disk.

    Example: hencler convert edges.csv --features x.npy --out graph
    """
    from .io import convert as to_store
    from .io import read_graph

    to_store(
        edges,
        folder,
        features=features,
        label=label,
        directed=directed,
        bipartite=bipartite,
        dtype=dtype,
    )
    if not quiet:
        out.print(f"{read_graph(folder)!r} in {folder}", highlight=False, markup=False)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model, such as run/model.")],
    graph: GraphArgument,
    labels: Annotated[Path, typer.Option("--out", help="Table node,cluster to write.")],
    features: FeaturesOption = None,
    label: LabelOption = None,
    directed: DirectedOption = None,
    bipartite: BipartiteOption = False,
    device: DeviceOption = "auto",
    quiet: QuietOption = False,
) -> None:
    """Cluster the nodes of a graph with a model fitted before.

    Example: hencler predict run/model new_edges.csv --features new_nodes.csv --out labels.csv
    """
    from ._estimator import HeNCler
    from ._run import open_graph
    from .io import write_labels

    estimator = HeNCler.load(model, device=device)
    loaded = open_graph(graph, features, label, directed, bipartite)
    write_labels(labels, loaded.ids, estimator.predict(loaded))
    if not quiet:
        out.print(f"{loaded.n_nodes} nodes written to {labels}")


@app.command()
def evaluate(
    labels: Annotated[Path, typer.Argument(help="Table node,cluster.")],
    truth: Annotated[Path, typer.Argument(help="Table node,class.")],
    as_json: JsonOption = False,
) -> None:
    """Compare clusters with classes.

    Example: hencler evaluate run/labels.csv classes.csv
    """
    from .io import align_labels, read_labels
    from .metrics import evaluate as scores_of

    ids, found = read_labels(labels)
    scores = scores_of(found, align_labels(ids, read_labels(truth)))
    if as_json:
        print(json.dumps(scores))
    else:
        out.print(_score_table(scores))


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a run.")],
) -> None:
    """Write report.html of a run anew."""
    with _progress(quiet=False):
        _write_report(folder)
    if (folder / "report.html").is_file():
        out.print(f"{folder / 'report.html'}", soft_wrap=True, highlight=False)


@app.command()
def datasets(
    name: Annotated[str | None, typer.Argument(help="One data set; default: all.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the benchmark graphs, or load and check one."""
    from dataclasses import asdict

    from .datasets import DATASETS, load_dataset

    if name is not None:
        graph = load_dataset(name)
        if as_json:
            print(json.dumps(asdict(DATASETS[name])))
        else:
            out.print(repr(graph), highlight=False)
        return
    if as_json:
        print(json.dumps([asdict(info) for info in DATASETS.values()]))
        return
    table = Table("name", "nodes", "edges", "attributes", "classes", "directed")
    for info in DATASETS.values():
        edges = info.n_links if info.directed else info.n_undirected
        table.add_row(
            info.name,
            f"{info.n_nodes:,}",
            f"{edges:,}",
            f"{info.n_attributes:,}",
            str(info.n_classes),
            "yes" if info.directed else "no",
        )
    out.print(table)


# --- benchmarks ------------------------------------------------------------------------------

RESULTS = Path("benchmarks/results")
TABLE_START, TABLE_END = "<!-- table: start -->", "<!-- table: end -->"


@bench_app.command("paper")
def bench_paper(
    methods: Annotated[str | None, typer.Option(help="Names, with commas; default: all.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Names, with commas; default: all.")] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Seeds; default: 10, large 3.")] = None,
    device: DeviceOption = "auto",
    protocol: Annotated[str, typer.Option(help="both, honest or paper.")] = "both",
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = 1,
    reuse: Annotated[bool, typer.Option(help="Keep cells of earlier commits.")] = True,
    store: Annotated[Path, typer.Option("--out", help="Where cells are kept.")] = RESULTS
    / "paper.jsonl",
    page: Annotated[Path | None, typer.Option(help="Markdown page to write.")] = None,
    readme: Annotated[Path | None, typer.Option(help="File whose marked table to renew.")] = None,
    only_tables: Annotated[bool, typer.Option(help="Run nothing, only write tables.")] = False,
) -> None:
    """Regenerate the paper's tables under both protocols.

    Example: hencler bench paper --datasets texas --methods kmeans,dmon,hencler --runs 2
    """
    from .bench.paper import open_store, run
    from .bench.tables import render, short_tables
    from .io import atomic_write

    names = _names(datasets)
    for name in names or []:
        _check_dataset(name)
    if only_tables:
        cells = open_store(store)
    else:
        cells = run(
            store,
            methods=_names(methods),
            datasets=names,
            runs=runs,
            device=device,
            protocol=protocol,
            jobs=jobs,
            reuse=reuse,
            progress=_show_cell,
        )
    if page is not None:
        with atomic_write(page, mode="w") as file:
            times = open_store(store.with_name("times.jsonl"))
            file.write(f"# Results\n\n{render(cells, times)}")
    if readme is not None:
        _renew(readme, short_tables(cells))
    _show_cells(cells, names, _names(methods))


def _renew(file: Path, table: str) -> None:
    """Put a table between the marks of a file."""
    from .io import atomic_write

    before, _, rest = file.read_text(encoding="utf-8").partition(TABLE_START)
    _, _, after = rest.partition(TABLE_END)
    with atomic_write(file, mode="w") as handle:
        handle.write(f"{before}{TABLE_START}\n{table}\n{TABLE_END}{after}")


@bench_app.command("times")
def bench_times(
    methods: Annotated[str | None, typer.Option(help="Names, with commas; default: all.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Default: the paper's seven.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    limit: Annotated[float, typer.Option(min=1, help="Seconds after which a fit is stopped.")] = 60,
    store: Annotated[Path, typer.Option("--out", help="Where times are kept.")] = RESULTS
    / "times.jsonl",
) -> None:
    """Time one fit of each method on each graph, one at a time."""
    from .bench.times import run

    def show(cell: dict[str, Any]) -> None:
        took = f" {cell['seconds']:.1f} s" if cell["status"] == "ok" else ""
        out.print(f"{cell['method']} on {cell['dataset']}: {cell['status']}{took}")

    run(
        store,
        methods=_names(methods),
        datasets=_names(datasets),
        device=device,
        limit=limit,
        progress=show,
    )


@bench_app.command("figures")
def bench_figures(
    store: Annotated[Path, typer.Option(help="Cells of 'bench paper'.")] = RESULTS / "paper.jsonl",
    folder: Annotated[Path, typer.Option("--out", help="Folder of the pictures.")] = Path(
        "docs/_static"
    ),
    datasets: Annotated[
        str, typer.Option(help="Graphs whose learned similarity is drawn.")
    ] = "wisconsin,drosophila-left",
) -> None:
    """Draw time against nodes, and the learned similarity ordered by class."""
    from .bench._record import environment, write_json
    from .bench.figures import similarity_figure, time_figure
    from .bench.paper import open_store

    folder.mkdir(parents=True, exist_ok=True)
    times = open_store(store.with_name("times.jsonl"))
    time_figure(open_store(store), folder / "time.png", times)
    numbers = similarity_figure(_names(datasets) or [], folder / "similarity.png")
    write_json(RESULTS / "asymmetry.json", {"asymmetry": numbers, "environment": environment()})
    out.print(f"{folder / 'time.png'}, {folder / 'similarity.png'}")


@bench_app.command("encodings")
def bench_encodings(
    store: Annotated[Path, typer.Option("--out", help="File to write.")] = RESULTS
    / "encodings.json",
    full: Annotated[bool, typer.Option(help="Also PyG on tolokers: minutes, 7 GB.")] = False,
) -> None:
    """Time and memory of the positional encoding, beside PyG's."""
    from .bench.encodings import run

    run(store, full=full)
    out.print(str(store))


@bench_app.command("scale")
def bench_scale(
    sizes: Annotated[
        str, typer.Option(help="small, million, ten-million, default; with commas.")
    ] = "small",
    store: Annotated[Path, typer.Option("--out", help="File to write.")] = RESULTS / "scale.json",
    scratch: Annotated[
        Path | None, typer.Option(help="Folder for the generated graphs; up to 12 GB.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="File whose marked table to renew.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Picture of the growth to draw.")] = None,
    only_tables: Annotated[bool, typer.Option(help="Run nothing, only write tables.")] = False,
) -> None:
    """Growth of time and memory with nodes, edges, attributes and clusters.

    Example: hencler bench scale --sizes small,million
    """
    from .bench.growth import growth_figure, growth_page
    from .bench.scale import read_cells, run

    if not only_tables:
        run(
            store,
            _names(sizes) or [],
            scratch=scratch,
            progress=lambda line: err.print(line, highlight=False, markup=False, soft_wrap=True),
        )
    cells = read_cells(store)
    if page is not None:
        _renew(page, growth_page(cells))
    if figure is not None:
        growth_figure(cells, figure)
    out.print(str(store))


@bench_app.command("generated")
def bench_generated(
    seeds: Annotated[int, typer.Option(min=1, help="Graphs of each kind.")] = 2,
    jobs: Annotated[int, typer.Option(min=1, help="Graphs at a time.")] = 1,
    store: Annotated[Path, typer.Option("--out", help="File to write.")] = RESULTS
    / "generated.json",
    page: Annotated[Path | None, typer.Option(help="File whose marked table to renew.")] = None,
    only_tables: Annotated[bool, typer.Option(help="Run nothing, only write tables.")] = False,
) -> None:
    """The default on generated graphs of many kinds, beside each of its views alone.

    Example: hencler bench generated --seeds 1 --jobs 2
    """
    from .bench.generated import render, run

    def show(row: dict[str, Any]) -> None:
        kind = f"{row['pattern']} links, attributes {row['attributes']}"
        out.print(f"{kind}: NMI {100 * row['nmi']:.1f}")

    if only_tables:
        result = json.loads(store.read_text())
    else:
        result = run(store, seeds=seeds, jobs=jobs, progress=show)
    if page is not None:
        _renew(page, render(result))
    out.print(render(result), markup=False, highlight=False, soft_wrap=True)


@bench_app.command("trust")
def bench_trust(
    parts: Annotated[str | None, typer.Option(help="Names, with commas; default: all.")] = None,
    store: Annotated[Path, typer.Option("--out", help="File to write.")] = RESULTS / "trust.json",
    page: Annotated[Path | None, typer.Option(help="File whose marked table to renew.")] = None,
    only_tables: Annotated[bool, typer.Option(help="Run nothing, only write tables.")] = False,
) -> None:
    """Try to break it, and count: kills, full disks, many fits, processes, hostile inputs.

    Example: hencler bench trust --parts crash,disk
    """
    from .bench.trust import render, run

    result = json.loads(store.read_text()) if only_tables else run(store, _names(parts))
    if page is not None:
        _renew(page, render(result))
    out.print(render(result), markup=False, highlight=False, soft_wrap=True)


def _check_dataset(name: str) -> None:
    from .bench.paper import STAND_IN
    from .datasets import DATASETS

    if name.removeprefix(STAND_IN) not in DATASETS:
        raise ParameterError(
            f"there is no data set {name!r}",
            place="--datasets",
            remedy=did_you_mean(name, DATASETS),
        )


@bench_app.command("speed")
def bench_speed(
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    sections: Annotated[str | None, typer.Option(help="Names, with commas; default: all.")] = None,
    graphs: Annotated[str | None, typer.Option(help="Names, with commas; default: all.")] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Time per comparison.")] = 6.0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs per score.")] = 5,
    store: Annotated[
        Path | None, typer.Option("--out", help="File to write; default: by device.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Page whose plan to renew.")] = None,
    epoch_page: Annotated[Path | None, typer.Option(help="Page whose epochs to renew.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Picture of the ranks to draw.")] = None,
    only_tables: Annotated[bool, typer.Option(help="Run nothing, only write tables.")] = False,
) -> None:
    """Epochs of the trained presets beside bare autoencoders, and times to a clustering.

    Example: hencler bench speed --sections epoch --graphs chameleon
    """
    from ._torch import resolve_device
    from .bench.speed import run

    target = store or RESULTS / f"speed-{resolve_device(device).type}.json"
    if not only_tables:
        run(
            target,
            device=device,
            sections=_names(sections),
            graphs=_names(graphs),
            seconds=seconds,
            seeds=seeds,
            say=lambda line: err.print(line, highlight=False, markup=False, soft_wrap=True),
        )
    from .bench import plan

    files = sorted(target.parent.glob("speed-*.json"))
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    if page is not None:
        _renew(page, plan.plan_page(results))
    if epoch_page is not None:
        _renew(epoch_page, plan.epoch_page(results))
    if figure is not None:
        plan.ranks_figure(results, figure)
    out.print(str(target))


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _show_cell(done: int, total: int, left: float | None, line: str) -> None:
    remaining = "" if left is None else f", {left / 60:.0f} min left"
    err.print(f"[{done}/{total}{remaining}] {line}", highlight=False, markup=False)


def _show_cells(cells: Any, datasets: list[str] | None, methods: list[str] | None) -> None:
    from .bench.tables import summarise

    table = Table(
        "method", "data", "runs", "NMI, by labels", "NMI, honest", "ARI", "ACC", "seconds"
    )
    for (method, dataset), s in summarise(cells).items():
        if (datasets and dataset not in datasets) or (methods and method not in methods):
            continue
        if s.status != "ok":
            table.add_row(method, dataset, "0", s.status)
            continue
        best = "{:.2f} ± {:.2f}".format(*s.best["nmi"]) if s.best else ""
        honest = ("{:.2f} ± {:.2f}".format(*s.honest[m]) for m in ("nmi", "ari", "acc"))
        table.add_row(method, dataset, str(s.runs), best, *honest, f"{s.seconds:.1f}")
    out.print(table)


# --- shown to people -------------------------------------------------------------------------


@contextmanager
def _progress(quiet: bool) -> Iterator[None]:
    """A bar with the time left for every long step, on a terminal and nowhere else."""
    from ._progress import Step, listening

    if quiet or not err.is_terminal:
        yield
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("", count="", left="", visible=False)
        name = ""

        def move(step: Step) -> None:
            nonlocal name
            if step.name != name or step.done == 0:
                bar.reset(task, description=step.name, total=step.total, visible=True)
                name = step.name
            count = "" if step.total is None else f"{step.done:,}/{step.total:,}"
            bar.update(task, completed=step.done, total=step.total, count=count, left="")
            left = bar.tasks[0].time_remaining
            if left is not None and 0 < step.done < (step.total or 0):
                bar.update(task, left=f"{_duration(left)} left")

        with listening(move):
            yield


def _duration(seconds: float) -> str:
    """A time that people read: 8 s, 2 min, 1 h 5 min."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def _collected() -> Iterator[list[str]]:
    """Warnings of the library, as lines for the summary and on standard error."""
    from ._errors import HenclerWarning

    notes: list[str] = []

    def note(message: Any, category: type[Warning], *place: Any, **kwargs: Any) -> None:
        text = str(message)
        if issubclass(category, HenclerWarning) and text not in notes:
            notes.append(text)
            err.print(f"[yellow]warning:[/] {_escape(text)}", soft_wrap=True, highlight=False)

    with warnings_module.catch_warnings():
        warnings_module.simplefilter("always")
        warnings_module.showwarning = note
        yield notes


def _write_report(folder: Path) -> None:
    from ._run import read_run
    from .report import write_report

    read_run(folder)
    try:
        write_report(folder)
    except MissingExtraError as error:  # the clusters are written; a page less is no failure
        err.print(f"no report.html: {_escape(str(error))}", soft_wrap=True, highlight=False)


def _show_summary(summary: dict[str, Any], folder: Path) -> None:
    table = Table("cluster", "nodes")
    for cluster, size in enumerate(summary["cluster_sizes"]):
        table.add_row(str(cluster), f"{size:,}")
    out.print(table)
    if "metrics" in summary:
        out.print(_score_table(summary["metrics"]))
    seconds = f"{summary['seconds']:.1f} s"
    page = folder / "report.html"
    hint = f"; open {page} in a browser" if page.is_file() else ""
    out.print(f"{seconds}; the run is in {folder}{hint}", soft_wrap=True, highlight=False)


def _score_table(scores: dict[str, Any]) -> Table:
    table = Table("measure", "value")
    for name, value in scores.items():
        table.add_row(name, str(value) if isinstance(value, int) else f"{value:.4f}")
    return table


if __name__ == "__main__":  # torchrun -m hencler.cli
    main()
