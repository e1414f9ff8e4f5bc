"""Why a figure of the paper is missed: kept by hand, looked up by method and graph.

A test sees to it that no miss in the committed results is without a reason. Where other settings
were tried, or another column of our own tables agrees, the text says so; the rest is conjecture.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["REASONS"]

_NO_SETTINGS = (
    "The authors of the method publish no settings for this graph, the paper names none; ours are "
    "those of their other small graphs."
)
_HOLE = (
    "The paper's column for HoLe was not picked by labels, and what it calls F1 is the accuracy "
    "after matching: our *honest* NMI and our ACC are close to it. Our figure here is the best "
    "epoch, in the paper's own F1."
)
_ZERO = "Both are zero for all purposes; the spread is that of rounding."
_F1_OF_COLLAPSE = (
    "The paper's figure is near that of a single cluster, which one lopsided epoch among 300 is "
    "enough for. Here every fifth epoch is scored, and KMeans starts ten times, which ends in a "
    "lopsided split less often than one start does."
)
_OTHER_MODEL = (
    "The paper's text is not well defined (unbounded loss, degrees of zero), and this preset is "
    "its nearest well-defined reading. The figures come from other code: see *released*."
)
_WEBKB_LEVEL = (
    " The paper's figure is the level of KMeans restarts picked by labels, see the section on "
    "the protocols."
)
_NOT_RELEASED = (
    "This graph is not in the released code, nor is the preparation of its attributes, which may "
    "well have been another."
)
_TRIED_ON_CORA = (
    " Rows of sum 1, rows of length 1 and standardised columns were tried in two runs each: one "
    "run with rows of length 1 did better than raw attributes, none reached the paper's figure."
)
_ABLATION = (
    "The variants of the ablation are not in the released code; ours are variants of the preset "
    "`paper`, which is another model than the one that was run."
)
_COPIED = (
    "Figures of this method on the three citation graphs have one decimal and look taken over from "
    "an earlier paper, with another measure under the name of F1."
)
_ACCURACY = (
    " This one agrees with our ACC, not with any NMI of ours: probably an accuracy in the wrong "
    "column."
)


def _for(method: str, datasets: str | Iterable[str], reason: str) -> dict[tuple[str, str], str]:
    names = datasets.split() if isinstance(datasets, str) else datasets
    return {(method, name): reason for name in names}


REASONS: dict[tuple[str, str], str] = {
    # KMeans
    **_for("kmeans", "cora", _COPIED + _ACCURACY),
    **_for(
        "kmeans",
        "citeseer pubmed",
        "The figure is that of KMeans on raw attributes, see the row *KMeans, raw*, while those on "
        "the heterophilous graphs are of standardised ones.",
    ),
    **_for(
        "kmeans",
        "minesweeper tolokers",
        "The paper's wide spread shows that single starts end in very different answers; the best "
        "of ten starts, taken here, mostly ends in the same one.",
    ),
    # MinCutPool
    **_for(
        "mincutpool",
        "squirrel",
        "Hardly the schedule: two runs of the authors' own, 10,000 steps of 5e-4, ended as low. "
        "The paper does not say which of the two edge sets of squirrel the baselines were given.",
    ),
    **_for("mincutpool", "cora", _COPIED + _ACCURACY),
    **_for("mincutpool", "citeseer pubmed", _COPIED),
    **_for(
        "mincutpool",
        "texas cornell wisconsin",
        "An early epoch in which nearly all nodes are in one cluster; how often that happens "
        "depends on the initial weights. The paper's implementation is not known.",
    ),
    # DMoN
    **_for(
        "dmon",
        "cora",
        "The weight 0.1 of the collapse term, the default of the authors' layer, is used here. It "
        "was picked by the score of the first two seeds among four settings; over five seeds it is "
        "within the noise of the 1 of their script, with a wider spread." + _ACCURACY,
    ),
    **_for("dmon", "citeseer pubmed", _COPIED),
    # S3GC
    **_for(
        "s3gc",
        "cora",
        "Better than the paper: the settings of a later copy of the code (longer walks, more of "
        "them, smaller batches) are better than those of the first script.",
    ),
    **_for(
        "s3gc",
        "citeseer pubmed",
        "The code of the authors cannot be had; settings are those of a derived copy. The F1 of "
        "S3GC's own metric file is the macro F1 after matching, which our runs on citeseer agree "
        "with.",
    ),
    **_for(
        "s3gc",
        "tolokers",
        "Two tenths of a point of NMI, outside of a spread that is tiny because embedding "
        "and KMeans always end in the same split; the F1 is of another epoch or another measure "
        "(the paper's own F1 is low for this split). No settings are published for this graph.",
    ),
    # MUSE
    **_for(
        "muse",
        "chameleon",
        "Better than the paper: ten starts of KMeans in every epoch, where newer versions of "
        "scikit-learn make one; the authors' defaults otherwise.",
    ),
    **_for("muse", "minesweeper tolokers", _F1_OF_COLLAPSE),
    # HoLe
    **_for("hole", "texas cornell wisconsin chameleon squirrel minesweeper", _HOLE),
    **_for("hole", "cora citeseer pubmed", _HOLE),
    **_for(
        "hole",
        "tolokers",
        _NO_SETTINGS + " Rows of attributes are scaled to length 1, as the authors' loader does, "
        "which may lose what the attributes of tolokers mean; other settings were not tried.",
    ),
    # HeNCler, released
    **_for(
        "hencler-released",
        "texas wisconsin",
        "The preset follows the published model step by step, which a test shows; the spread over "
        "seeds is wide." + _WEBKB_LEVEL,
    ),
    **_for(
        "hencler-released",
        "cornell",
        "The preset follows the published model step by step, which a test shows. A wrong Cornell, "
        "whose attributes and labels are those of Texas, is in circulation, and the paper's figure "
        "is near the one for texas." + _WEBKB_LEVEL,
    ),
    **_for(
        "hencler-released",
        "squirrel pubmed",
        "Better than the paper in an F1 that rewards large clusters; NMI agrees.",
    ),
    **_for("hencler-released", "minesweeper", _ZERO),
    **_for(
        "hencler-released",
        "tolokers",
        "One start of KMeans per epoch, as newer versions of scikit-learn make by default, gives "
        "the labels more different splits to pick from; two runs of a dense version of the model "
        "with one start came nearer to the paper's figure.",
    ),
    **_for("hencler-released", "cora", _NOT_RELEASED + _TRIED_ON_CORA),
    **_for("hencler-released", "citeseer", _NOT_RELEASED),
    # HeNCler, paper
    **_for("hencler-paper", "texas cornell wisconsin", _OTHER_MODEL + _WEBKB_LEVEL),
    **_for("hencler-paper", "chameleon squirrel tolokers cora citeseer pubmed", _OTHER_MODEL),
    **_for(
        "hencler-paper",
        "minesweeper",
        _OTHER_MODEL + " NMI is zero in both; the F1 is that of a collapse.",
    ),
}
"""The likely reason for each (method, data set) where a figure of the paper is missed."""

_VARIANTS = ("paper-undirected", "paper-reconstruction", "paper-wksvd")
_ALL = "texas cornell wisconsin chameleon squirrel minesweeper tolokers"
for _name in _VARIANTS:
    REASONS |= _for(_name, _ALL, _ABLATION)
