"""Drawings: what is in the picture, whether it can be read, and what the points say."""

from __future__ import annotations

import dataclasses
import importlib
import math
import pkgutil
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from torch_vocmetrics import (
    ClassificationAP,
    DetectionAP,
    InputError,
    LayoutAP,
    LogAverageMissRate,
    MeanIoU,
    analysis,
)
from torch_vocmetrics.analysis.confusion import ConfusionMatrix
from torch_vocmetrics.analysis.lrp import OptimalLRP
from torch_vocmetrics.analysis.operating_point import ScoreCurves
from torch_vocmetrics.analysis.ranks import rank_correlation
from torch_vocmetrics.analysis.reliability import Calibration
from torch_vocmetrics.analysis.significance import friedman_test
from torch_vocmetrics.analysis.uncertainty import Bootstrap, PairedBootstrap, RankIntervals
from torch_vocmetrics.plots import PLOTTERS, bars, plot, style
from torch_vocmetrics.plots.miss_rate import compare_miss_rates
from torch_vocmetrics.plots.precision_recall import envelope
from torch_vocmetrics.results import PrecisionRecallCurve
from torch_vocmetrics.results.plotted import Plotted

matplotlib = pytest.importorskip("matplotlib", reason="drawings need the extra plots")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.colors import to_rgb  # noqa: E402

HOSTILE = "<b>$x^2$ \\frac"


@pytest.fixture(autouse=True)
def _no_figure_stays_open() -> Any:
    yield
    pyplot.close("all")


def detector(protocol: str, classes: int = 3, images: int = 12) -> Any:
    """A metric after random images in which most objects are found; scores tie."""
    generator = torch.Generator().manual_seed(classes)
    names = [HOSTILE, *(f"class {k}" for k in range(1, classes))]
    metric: Any = DetectionAP(protocol, class_names=names)
    for image in range(images):
        corner = torch.randint(0, 200, (10, 2), generator=generator)
        boxes = torch.cat([corner, corner + torch.randint(20, 90, (10, 2), generator=generator)], 1)
        labels = torch.randint(classes, (10,), generator=generator)
        moved = boxes[:8] + torch.randint(0, 12, (8, 1), generator=generator)
        scores = torch.randint(1, 20, (8,), generator=generator) / 20
        found = {"boxes": moved, "labels": labels[:8], "scores": scores}
        metric.update([found], [{"boxes": boxes, "labels": labels, "image_id": image}])
    return metric


def pedestrians(seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    metric: Any = LogAverageMissRate("caltech2012")
    for image in range(30):
        corner = torch.rand(4, 2, generator=generator) * 200
        height = 60 + torch.rand(4, 1, generator=generator) * 80
        boxes = torch.cat([corner, corner + torch.cat([height * 0.41, height], 1)], 1)
        scores = torch.rand(4, generator=generator)
        target = {"boxes": boxes[:3], "labels": [0] * 3, "image_id": image}
        metric.update([{"boxes": boxes[1:], "labels": [0] * 3, "scores": scores[1:]}], [target])
    return metric.compute()


def score_curves() -> ScoreCurves:
    """Detections right, wrong, right, wrong of four objects."""
    return ScoreCurves(
        names=("cat", "all"),
        iou_threshold=0.5,
        area="all",
        beta=1.0,
        starts=torch.tensor([0, 4, 8]),
        score=torch.tensor([0.9, 0.7, 0.5, 0.2]).repeat(2),
        true_positives=torch.tensor([1, 1, 2, 2]).repeat(2),
        false_positives=torch.tensor([0, 1, 1, 2]).repeat(2),
        num_positives=torch.tensor([4, 4]),
    )


def some(count: int) -> torch.Tensor:
    return torch.linspace(0.1, 0.9, count, dtype=torch.float64)


def more_examples() -> list[Any]:
    """Objects with the fields that their drawings read, whatever else the classes have."""
    names, few, many = ("a", "b", HOSTILE), some(3), some(30)
    boxes = torch.linspace(0.5, 1, 40)
    sized = {"value": (0.5, 0.75, 0.9), "property": "iou_threshold", "class_names": names}
    columns = {
        "class_name": names,
        "average_precision": few,
        "average_precision_50": few + 0.1,
        "average_precision_75": few - 0.1,
        "average_recall": torch.full((3,), math.nan),
    }
    return [
        made("Sweep", mean=few, average_precision=few.repeat(3, 1).T * few, **sized),
        made("Sweep", mean=few, average_precision=few[:, None], **sized | {"value": names}),
        made("YearTable", year=("2010", "2011", "2012"), mean_best=few, mean_median=few * 0.8),
        made(
            "AnnotatorAgreement",
            num_workers=torch.arange(1, 4),
            precision=torch.tensor([0.9, 0.8, 0.7]),
            recall=few,
            expert_precision=torch.tensor([0.9]),
            expert_recall=torch.tensor([0.8]),
        ),
        made("MaskQualityResult", box_iou=boxes, mask_iou=boxes * 0.9),
        made("ImageScores", f_score=many),
        made(
            "DatasetStatistics",
            objects_per_image=torch.tensor([1, 1, 3, 7]),
            classes_per_image=torch.tensor([1, 1, 2, 2]),
        ),
        made("ClassTable", **columns),
        made("ClassNumbers", **columns),
        made("SupercategoryMeans", supercategory=names, **columns),
        made("NormalizedAP", normalized=few * 0.9, chance=few * 0.1, **columns),
        made("CombinedClassifiers", class_name=names, best=few, mean=few, learned=few),
        made("SubsetTable", name=names, log_average_miss_rate=few),
        made("OperatingPoints", name=names, f_score=few, precision=few, recall=few),
        made("MethodTable", method=names, class_name=("x", "y"), value=few.repeat(2, 1).T),
        made("CrossDatasetTable", detector=names, data_set=("x", "y"), mean=few.repeat(2, 1).T),
    ]


def made(kind: str, /, **fields: Any) -> Any:
    """An object of a class of this name."""
    return type(kind, (Plotted, SimpleNamespace), {})(**fields)


def examples() -> dict[str, Any]:
    """An object of every class that has a drawing."""
    generator = torch.Generator().manual_seed(5)
    names = tuple(f"class {k}" for k in range(30))
    person = {"part_boxes": [[1, 1, 9, 9]], "part_labels": [0], "part_counts": [1]}
    person |= {"object_index": [1]}
    layout = LayoutAP("voc2012").update([person | {"scores": [0.5]}], [person]).compute()
    scores = torch.rand(60, 2, generator=generator)
    classified: Any = ClassificationAP("voc2007", class_names=["cat", HOSTILE])
    classified = classified.update(scores, (scores + 0.3 > 0.7).long() * 2 - 1).compute()
    pixels = torch.randint(4, (2, 9, 9), generator=generator)
    segmented: Any = MeanIoU("voc2012_present_classes", class_names=["a", "b", HOSTILE, "d"])
    segmented = segmented.update(pixels, pixels.roll(1, 1)).compute()
    shared = {"level": 0.95, "num_resamples": 10, "seed": 0}
    e, values = some(30), torch.rand(7, 20, generator=generator)
    methods = [f"method {k}" for k in range(7)]
    values += torch.arange(7).unsqueeze(1) * 0.15
    counts = torch.randint(9, (21, 21), generator=generator)
    few = some(3)
    found = [
        detector("voc2007").compute(),
        detector("voc2012", classes=20, images=40).compute(),
        detector("coco2017").compute(),
        layout,
        classified,
        segmented,
        pedestrians(0),
        detector("voc2007").compute().curves[0][1],
        classified.roc_curves[1],
        pedestrians(1).curves[0],
        score_curves(),
        ConfusionMatrix(names=names[:21], counts=counts, score=0.2, iou_threshold=0.5, rule=""),
        ConfusionMatrix(names=names[:3], counts=counts[:3, :3], score=0, iou_threshold=1, rule=""),
        Calibration(
            names=("cat", "all"),
            edges=torch.linspace(0, 1, 5, dtype=torch.float64),
            count=torch.tensor([[1, 0, 2, 4]] * 2),
            mean_score=torch.tensor([[0.1, math.nan, 0.6, 0.9]] * 2),
            precision=torch.tensor([[0.0, math.nan, 0.5, 1.0]] * 2),
            expected_error=some(2),
            largest_error=some(2),
            iou_threshold=0.5,
        ),
        OptimalLRP(names, e, e * 0.3, e * 0.5, torch.full((30,), math.nan), e, 0.5),
        Bootstrap(
            name=names,
            estimate=e,
            lower=e - 0.05,
            upper=e + 0.02,
            standard_error=e,
            num_undefined=torch.zeros(30),
            method="bca",
            samples=e,
            **shared,
        ),
        PairedBootstrap(
            name=("up", "same", "down"),
            first=few,
            second=few,
            difference=torch.tensor([0.2, 0.01, -0.3]),
            lower=torch.tensor([0.1, -0.1, -0.4]),
            upper=torch.tensor([0.3, 0.1, -0.2]),
            p_value=few,
            method="bca",
            **shared,
        ),
        RankIntervals(
            method=("a", "b", "c"),
            estimate=few,
            rank=torch.tensor([2.0, 1.0, 3.0]),
            lower=torch.tensor([1.0, 1.0, 3.0]),
            upper=torch.tensor([2.0, 2.0, 3.0]),
            best_share=few,
            number="mAP",
            **shared,
        ),
        friedman_test(values, methods),
        rank_correlation(values.mean(dim=1), values[:, 0], methods),
        *more_examples(),
    ]
    return {f"{type(one).__name__}-{number}": one for number, one in enumerate(found)}


EXAMPLES = examples()
each_example = pytest.mark.parametrize("name", EXAMPLES)


def rendered(ax: Any) -> np.ndarray[Any, Any]:
    """[H, W, 3] the picture as fractions."""
    ax.figure.canvas.draw()
    return np.asarray(ax.figure.canvas.buffer_rgba())[..., :3] / 255


def has_color_at(ax: Any, x: float, y: float, color: str, radius: int = 3) -> bool:
    """Whether the picture has a colour within some pixels of a point of the data."""
    picture = rendered(ax)
    column, row = ax.transData.transform((x, y))
    row = picture.shape[0] - round(row)
    top, left = max(row - radius, 0), max(round(column) - radius, 0)
    near = picture[top : row + radius + 1, left : round(column) + radius + 1]
    return bool((np.abs(near - to_rgb(color)).max(axis=2) < 0.06).any())


def texts_of(ax: Any) -> list[Any]:
    """All text that is drawn: ticks outside the limits are not."""
    hidden = set()
    for axes in ax.figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = axis.get_major_ticks() + axis.get_minor_ticks()
            out = [tick for tick in ticks if not low <= tick.get_loc() <= high]
            hidden |= {label for tick in out for label in (tick.label1, tick.label2)}
    every = ax.figure.findobj(matplotlib.text.Text)
    return [one for one in every if one not in hidden and one.get_visible() and one.get_text()]


@pytest.mark.slow
@each_example
def test_a_picture_can_be_read(name: str) -> None:
    """At 6 x 4 inches all text lies inside, is large enough, and no two names overlap."""
    ax = EXAMPLES[name].plot()
    width, height = ax.figure.get_size_inches()
    assert (width, height) == style.SIZE
    picture = rendered(ax)
    assert (picture < 0.5).any(axis=2).mean() > 0.002, "the picture is almost empty"
    renderer = ax.figure.canvas.get_renderer()
    names = []
    for text in texts_of(ax):
        box = text.get_window_extent(renderer)
        assert text.get_fontsize() >= 4.5
        if not ax.figure.bbox.padded(1).contains(*box.min):
            raise AssertionError(f"{text.get_text()!r} begins outside the picture")
        assert ax.figure.bbox.padded(1).contains(*box.max), f"{text.get_text()!r} is cut off"
        if text in ax.get_yticklabels() or text in ax.get_xticklabels():
            names.append((text, box))
    for place, (text, box) in enumerate(names):
        for other, behind in names[place + 1 :]:
            if text.axes is other.axes and (text in ax.get_yticklabels()) == (
                other in ax.get_yticklabels()
            ):
                assert not box.overlaps(behind), f"{text.get_text()} and {other.get_text()}"


@pytest.mark.slow
@each_example
def test_axes_are_returned(name: str) -> None:
    _, ax = pyplot.subplots(figsize=(6, 4))
    assert EXAMPLES[name].plot(ax) is ax
    assert ax.has_data()
    assert len(pyplot.get_fignums()) == 1, "no figure is made beside the one given"


def test_every_drawing_is_tried() -> None:
    kinds = {base.__name__ for one in EXAMPLES.values() for base in type(one).__mro__}
    assert set(PLOTTERS) - kinds == {"ErrorKinds"}  # tried below


def test_the_points_of_voc2007_are_its_average() -> None:
    """The mean of precision at the eleven levels is the average precision."""
    result = detector("voc2007").compute()
    for k, name in enumerate(result.class_names):
        ax = result.plot(class_name=name)
        points = next(line for line in ax.get_lines() if line.get_marker() == "o")
        assert points.get_xdata() == pytest.approx(np.arange(0, 1.1, 0.1))
        assert float(np.mean(points.get_ydata())) == pytest.approx(
            float(result.average_precision[k])
        )


def test_the_envelope_is_the_largest_precision_from_there_on() -> None:
    precision = np.array([0.5, 1.0, 0.2, np.nan, 0.4, 0.1])
    wanted = [max(v for v in precision[i:] if not math.isnan(v)) for i in range(6)]
    assert envelope(precision).tolist() == wanted
    curve = PrecisionRecallCurve(
        torch.tensor([0.25, 0.5, 0.75]), torch.tensor([0.5, 1.0, 0.6]), torch.ones(3)
    )
    ax = curve.plot()
    for x, y in ((0.1, 1.0), (0.49, 1.0), (0.6, 0.6), (0.75, 0.3)):
        assert has_color_at(ax, x, y, style.BLUE)
    assert not has_color_at(ax, 0.9, 0.5, style.BLUE)
    assert not has_color_at(ax, 0.9, 0.0, style.BLUE)
    read = curve.plot(recall_levels=(0.0, 0.5, 0.6, 0.8)).get_lines()[-1]
    assert read.get_ydata().tolist() == pytest.approx([1.0, 1.0, 0.6, 0.0]), "at 0.5 it is reached"


def test_many_classes_are_grey_but_the_best_and_the_worst() -> None:
    result = EXAMPLES["VocDetectionResult-1"]
    ax = result.plot()
    order = torch.argsort(-result.average_precision, stable=True).tolist()
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    expected = [result.class_names[k] for k in (*order[:3], *order[-3:])]
    assert [text.rsplit(" ", 1)[0] for text in shown] == [
        name.replace("$", r"\$") for name in expected
    ]
    assert ax.get_legend().get_title().get_text() == "14 others in grey"
    assert sum(line.get_color() == style.GREY for line in ax.get_lines()) == 14


def test_coco_lines_are_means_over_classes() -> None:
    result = detector("coco2017").compute()
    ax = result.plot()
    means = [float(np.mean(line.get_ydata())) for line in ax.get_lines()]
    for threshold, mean in zip(result.protocol.iou_thresholds, means, strict=True):
        assert mean == pytest.approx(result.mean_precision(iou_threshold=threshold))
    one = result.plot(class_name="class 1", area="medium")
    wanted = result.mean_precision(iou_threshold=0.5, area="medium", class_name="class 1")
    assert float(np.mean(one.get_lines()[0].get_ydata())) == pytest.approx(wanted)


def test_the_points_of_a_miss_rate_are_its_average() -> None:
    result = pedestrians(3)
    ax = result.plot()
    points = next(line for line in ax.get_lines() if line.get_marker() == "o")
    x, y = points.get_xdata(), points.get_ydata()
    assert x == pytest.approx(10 ** np.arange(-2, 0.01, 0.25))
    rate = math.exp(float(np.mean(np.log(y))))
    assert rate == pytest.approx(float(result.log_average_miss_rate[0]))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    for at, height in zip(x, y, strict=True):
        assert has_color_at(ax, at, height, style.BLUE)
    assert f"{100 * rate:.1f}% Reasonable" in ax.get_legend().get_texts()[0].get_text()


def test_detectors_stand_from_the_highest_rate_to_the_lowest() -> None:
    results = {f"detector {seed}": pedestrians(seed) for seed in range(4)}
    ax = compare_miss_rates(results, subset="All")
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    rates = [float(text.split("%")[0]) for text in shown]
    assert rates == sorted(rates, reverse=True)
    for text in shown:
        rate, name = text.split("% ")
        assert float(rate) == round(100 * results[name]["LAMR/All"], 1)
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.get_lines()}) == 4
    with pytest.raises(InputError, match="at least one result"):
        compare_miss_rates({})
    with pytest.raises(InputError, match="no subset 'x'; there are Reasonable"):
        compare_miss_rates(results, subset="x")


def test_the_best_score_is_marked() -> None:
    """F1 is 2/5, 2/6, 4/7, 4/8: the best is the third, at 0.5."""
    ax = score_curves().plot(name="cat")
    assert has_color_at(ax, 0.5, 4 / 7, style.VERMILION)
    assert "best: 0.571 at 0.5" in [text.get_text() for text in ax.get_legend().get_texts()]
    with pytest.raises(InputError, match="no group 'cow'; there are cat, all"):
        score_curves().plot(name="cow")


def test_a_heat_map_shows_shares_of_rows() -> None:
    counts = torch.tensor([[3, 1], [0, 0]])
    matrix = ConfusionMatrix(("cat", "background"), counts, 0.5, 0.5, "")
    ax = matrix.plot()
    assert [text.get_text() for text in ax.texts] == ["75", "25"]
    drawn = np.asarray(ax.get_images()[0].get_array())
    assert drawn[0].tolist() == [0.75, 0.25]
    assert np.isnan(drawn[1]).all()
    cividis = matplotlib.colormaps["cividis"]
    assert has_color_at(ax, -0.3, -0.3, matplotlib.colors.to_hex(cividis(0.75)))
    assert has_color_at(ax, 0.3, 1.0, "#FFFFFF")
    of_detections = matrix.plot(over="detections")
    assert np.asarray(of_detections.get_images()[0].get_array())[0].tolist() == [1.0, 1.0]


def test_differences_that_leave_out_zero_stand_out() -> None:
    paired = next(one for one in EXAMPLES.values() if isinstance(one, PairedBootstrap))
    ax = paired.plot()
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["up", "same", "down"]
    assert ax.get_xlabel().startswith("first minus second, 95%")
    assert paired.plot(names=("new", "old")).get_xlabel().startswith("new minus old, ")
    assert has_color_at(ax, 0.2, 0, style.VERMILION)
    assert has_color_at(ax, 0.01, 1, style.BLUE)
    assert has_color_at(ax, -0.3, 2, style.VERMILION)
    assert has_color_at(ax, 0, 1.5, style.BLACK)
    ranks = next(one for one in EXAMPLES.values() if isinstance(one, RankIntervals)).plot()
    assert [text.get_text() for text in ranks.get_yticklabels()] == ["b", "a", "c"]


def test_bars_of_error_kinds() -> None:
    kinds = ("classification", "localization", "both", "duplicate", "background", "missed")
    errors = SimpleNamespace(
        kind=kinds,
        count=torch.tensor([1, 2, 3, 4, 5, 6]),
        cost=torch.tensor([0.01, 0.2, 0.0, -0.01, 0.03, 0.1]),
        false_positives=15,
        false_negatives=6,
        false_positive_cost=0.25,
        false_negative_cost=0.12,
        average_precision=0.5,
    )
    ax = bars.plot_error_kinds(errors)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == pytest.approx([1, 20, 0, -1, 3, 10, 25, 12])
    assert ax.texts[1].get_text() == " 20.0  (2)"
    assert has_color_at(ax, 10, 1, style.BLUE)
    assert [text.get_text() for text in ax.get_yticklabels()][:6] == list(kinds)


def test_bars_join_methods_that_do_not_differ() -> None:
    test = friedman_test(torch.arange(4.0).repeat(20, 1).T, ["a", "b", "c", "d"])
    ax = test.plot()
    joined = [line for line in ax.get_lines() if line.get_color() == style.VERMILION]
    assert len(joined) == len(test.groups)
    for line, group in zip(joined, test.groups, strict=True):
        ranks = [float(test.mean_rank[test.method.index(name)]) for name in group]
        assert min(line.get_xdata()) < min(ranks) <= max(ranks) < max(line.get_xdata())
    scale = next(line for line in ax.get_lines() if line.get_linewidth() == 2)
    length = float(np.ptp(scale.get_xdata()))
    assert length == pytest.approx(test.critical_difference)


@pytest.mark.parametrize("name", ["VocDetectionResult-0", "SegmentationResult-5"])
def test_names_are_no_formulas(name: str) -> None:
    ax = EXAMPLES[name].plot()
    escaped = HOSTILE.replace("$", r"\$")
    assert any(escaped in text.get_text() for text in texts_of(ax))
    rendered(ax)


# Machado, Oliveira and Fernandes 2009, full deuteranomaly and protanomaly, of linear RGB.
BLINDNESS = {
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
}


@pytest.mark.parametrize("kind", BLINDNESS)
def test_colors_differ_for_colour_blind_people(kind: str) -> None:
    seen = []
    for color in style.COLORS:
        linear = np.array(to_rgb(color)) ** 2.2
        shown = np.clip(np.array(BLINDNESS[kind]) @ linear, 0, 1) ** (1 / 2.2)
        seen.append(shown)
    for first in range(len(seen)):
        for second in range(first):
            assert np.abs(seen[first] - seen[second]).max() > 0.08, (first, second)
    lines = [tuple(style.line_style(n).values()) for n in range(28)]
    assert len(set(lines)) == 28
    assert style.line_style(28) == style.line_style(0)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'torch_vocmetrics\[plots\]'"):
        EXAMPLES["RocCurve-8"].plot()


def test_what_has_no_drawing_says_so() -> None:
    with pytest.raises(InputError, match="no drawing of such an object, got int"):
        plot(3)
    with pytest.raises(InputError, match="got Drawing"):
        made("Drawing").plot()


def test_wrong_names_are_refused() -> None:
    result = EXAMPLES["VocDetectionResult-0"]
    with pytest.raises(InputError, match="there is no class 'cow'"):
        result.plot(class_name="cow")
    with pytest.raises(InputError, match=r"no IoU threshold 0.7; there are 0.5"):
        result.plot(iou_threshold=0.7)
    with pytest.raises(InputError, match="no area range 'tiny'; there are all, small"):
        EXAMPLES["CocoDetectionResult-2"].plot(area="tiny")
    with pytest.raises(InputError, match="has no IoU thresholds"):
        EXAMPLES["LayoutResult-3"].plot(iou_threshold=0.5)


def test_every_plotted_class_is_one_of_the_package() -> None:
    """Names in the table of drawings are classes that exist, and have the fields that are read."""
    for module in pkgutil.iter_modules(analysis.__path__):
        importlib.import_module(f"{analysis.__name__}.{module.name}")
    importlib.import_module("torch_vocmetrics.metrics.mask_quality")
    classes = {
        kind.__name__: kind for kind in _subclasses(Plotted) if "test" not in kind.__module__
    }
    assert set(PLOTTERS) <= set(classes)
    for one in more_examples():
        fields = set(vars(one))
        missing = fields - {field.name for field in dataclasses.fields(classes[type(one).__name__])}
        extra = {"average_precision_50", "average_precision_75", "average_recall", "class_name"}
        assert missing <= extra, type(one).__name__


def _subclasses(kind: type) -> list[type]:
    own = kind.__subclasses__()
    return [*own, *(deeper for one in own for deeper in _subclasses(one))]


def test_a_sweep_and_its_interval() -> None:
    sweep = more_examples()[0]
    ax = sweep.plot(lower=[0.0, 0.4, 0.8], upper=[0.2, 0.6, 0.95])
    for x, y in zip(sweep.value, sweep.mean.tolist(), strict=True):
        assert has_color_at(ax, x, y, style.BLUE)
    assert has_color_at(ax, 0.75, 0.42, style.BLACK)
    assert ax.get_xlabel() == "iou threshold"
    with pytest.raises(InputError, match="both ends are needed"):
        sweep.plot(lower=[0.0, 0.4, 0.8])
    with pytest.raises(InputError, match="both ends are needed"):
        sweep.plot(lower=[0.0], upper=[1.0])


def test_masks_lie_below_the_diagonal() -> None:
    boxes = torch.tensor([0.6, 0.8, 1.0])
    ax = made("MaskQualityResult", box_iou=boxes, mask_iou=boxes / 2).plot()
    assert "mean mask IoU 40.0%" in ax.get_legend().get_texts()[0].get_text()
    for x in boxes.tolist():
        assert (ax.transData.transform((x, x / 2))[1]) < ax.transData.transform((x, x))[1]


def test_points_stand_on_the_rows_of_their_bars() -> None:
    values = torch.tensor([0.2, 0.8, math.nan, 0.5])
    ax = made(
        "NormalizedAP",
        class_name=("a", "b", "c", "d"),
        average_precision=values,
        normalized=values / 2,
        chance=values / 4,
    ).plot()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["b", "d", "a"]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([0.8, 0.5, 0.2])
    assert list(ax.get_lines()[0].get_xdata()) == pytest.approx([0.4, 0.25, 0.1])
    assert list(ax.get_lines()[0].get_ydata()) == [0, 1, 2]
