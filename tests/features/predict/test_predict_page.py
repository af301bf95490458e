"""The page of a prediction: both ways stage by stage, alike nodes together, nothing made up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.evidence.build import PROPRIETARY, node
from tests.invoked import gdr
from toolkit.compat.throughput import Range, constants
from toolkit.errors import ExitCode
from toolkit.evidence import Evidence
from toolkit.facts.node.node import Node
from toolkit.facts.pci.topology import Distance
from toolkit.features.predict.page import Asked, Forecast, _titles, page
from toolkit.features.predict.plan.stages import Stages, stages
from toolkit.features.predict.plan.totals import (
    Return,
    TrainingJob,
    gain,
    predict_inputs,
    read_node,
)
from toolkit.throughput.inputs import NOT_TOLD, Load, PairInputs
from toolkit.throughput.pair import predict_pair

C = constants()
MIB = 1 << 20


def forecast(name: str, evidence: Evidence | None = None) -> Forecast:
    told = read_node(Node(evidence or node()), C)
    return Forecast(name, told, predict_inputs(told, Load(), C))


def written(*nodes: Forecast, worth: Return | None = None, failures: tuple[str, ...] = ()) -> str:
    asked = Asked(Load(), "./invokew predict --hosts demo", "", worth, failures)
    return "".join(page(nodes, asked, C))


def pair() -> PairInputs:
    return next(each for each in forecast("a").told.pairs if each.best)


def staged(told: PairInputs) -> Stages | None:
    return stages(told, predict_pair(told, Load(), C), MIB, C)


def test_the_slowest_stage_sets_the_time_of_the_direct_way_and_copies_add_up() -> None:
    found = staged(pair())
    assert found is not None
    assert found.by_direct == pytest.approx(max(each.took for each in found.direct), rel=0.01)
    assert found.one_by_one == pytest.approx(sum(each.took for each in found.copied))
    assert found.by_direct < found.in_pieces < found.one_by_one
    out, over, into = found.copied
    assert [out.rate, over.rate] == pytest.approx([50.3, 48.1], abs=0.1)
    # Two launches of a copy, 19.3 us together, and the bytes.
    assert out.took + into.took == pytest.approx(19.3 + 2 * MIB / out.rate / 1e3)


@pytest.mark.parametrize(
    ("blocked", "assumed", "now"),
    [("", "", (True, False)), ("", NOT_TOLD, (False, False)), ("x", "", (False, True))],
    ids=["goes", "not-told", "blocked"],
)
def test_the_way_that_a_node_goes_now_is_said_where_it_is_known(
    blocked: str, assumed: str, now: tuple[bool, bool]
) -> None:
    made = staged(pair())
    assert made is not None
    found = predict_pair(pair(), Load(), C)
    sure = replace(found.with_gdr, assumptions=(assumed,) if assumed else ())
    told = replace(found, blocked=blocked, with_gdr=sure)
    assert tuple("this node goes now" in each for each in _titles(made, told)) == now


def test_a_gpu_that_shares_its_memory_is_not_copied_from() -> None:
    found = staged(replace(pair(), distance=Distance.C2C))
    assert found is not None
    assert [each.name for each in found.copied] == ["HCA to HCA"]


def test_a_rate_that_nobody_told_is_not_drawn() -> None:
    told = pair()
    wire = replace(told.wire, gbits=Range(200, 25, 800), guessed=True)
    assert staged(replace(told, wire=wire)) is None
    inputs = forecast("a").told
    blind = replace(inputs, pairs=tuple(replace(each, wire=wire) for each in inputs.pairs))
    text = written(Forecast("a", blind, predict_inputs(blind, Load(), C)))
    assert "Nothing is drawn" in text
    assert "<figure" not in text


def test_nodes_of_which_the_same_is_told_share_a_section() -> None:
    dark = node({"module-state": "", "nvidia-version": PROPRIETARY})
    text = written(forecast("gpu01"), forecast("gpu02"), forecast("gpu03"), forecast("gpu04", dark))
    assert text.count("<section id=") == 2
    assert text.count("<figure") == 2
    assert "gpu01 and 2 more" in text
    assert "once it works" in text
    assert "4 nodes: GPUDirect beside two copies" in text


def test_a_job_has_its_times_and_what_a_node_says_is_escaped() -> None:
    one = forecast("<b>gpu01")
    worth = gain((("gpu01", one.found.total),), TrainingJob(16, 70e9, 10), C)
    text = written(one, worth=worth, failures=("gpu09: refused",))
    assert "<b>gpu01" not in text
    assert "&lt;b&gt;gpu01" in text
    assert "all-reduce of 70B parameters over 16 nodes, 10 steps" in text
    assert text.count('<th scope="row">saved at most</th>') == 1
    assert "gpu09: refused" in text


def test_the_verb_writes_it_beside_what_it_says(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    line = ("predict", "--hosts", "demo-healthy", "--what-if", "rate=200", "--html", str(file))
    run = gdr(*line, state=tmp_path)
    assert run.returncode == ExitCode.OK, run.stderr
    text = file.read_text()
    assert "What is shown of paths is what if rate=200." in text
    assert "wire (200G InfiniBand)" in text
    assert "demo-healthy" in run.stdout


def test_without_a_what_if_the_totals_are_of_the_node_as_it_stands() -> None:
    whole = written(forecast("a"))
    assert "as it stands" in whole
    assert "what if" not in whole


def test_every_bar_has_a_rule_of_the_style() -> None:
    style = (Path(__file__).parents[3] / "toolkit/report/pages/picture.css").read_text()
    looks = set(re.findall(r'class="(bar-\w+)', written(forecast("a"))))
    assert looks == {"bar-gpu", "bar-wire", "bar-copy", "bar-pieces"}
    assert looks <= set(re.findall(r"\.(bar-\w+)", style))
