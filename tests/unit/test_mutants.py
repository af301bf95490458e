"""The mutants' pure parts: what is changed, what is left alone, who is chosen, what counts."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest

from tests.mutants.atlas import Reads, files_of_tests, readers
from tests.mutants.living import exchanged
from tests.mutants.nearest import Known, order, within
from tests.mutants.rooms import Ended, Fate, Mutant, choose, room, score, table
from tests.mutants.sites import Site, differs, mutated, sites


def texts(source: str) -> set[str]:
    """What stands after each change of a source that is one line, without brackets around it."""
    return {mutated(source, each).strip() for each in sites(source)}


@pytest.mark.parametrize(
    ("source", "after"),
    [
        pytest.param("x = a < b", {"x = (a <= b)"}, id="edge"),
        pytest.param("x = a in b", {"x = (a not in b)"}, id="in"),
        pytest.param("x = a is b", {"x = (a is not b)"}, id="is"),
        pytest.param("x = a and b", {"x = (a or b)", "x = (a)", "x = (b)"}, id="and"),
        pytest.param("x = not a", {"x = (a)"}, id="not"),
        pytest.param("x = a + b", {"x = (a - b)"}, id="plus"),
        pytest.param("x = a + 'two words'", {"x = (a)"}, id="joined"),
        pytest.param("x = 3", {"x = (4)"}, id="number"),
        pytest.param("x = True", {"x = (False)"}, id="truth"),
        pytest.param("x = '/sys/bus'", {"x = ('/sys/busx')"}, id="path"),
        pytest.param("x = ''", {"x = ('x')"}, id="empty"),
        pytest.param("x = a if b else c", {"x = (a if True else c)", "x = (a if False else c)"}),
        pytest.param("if a: b", {"if (True): b", "if (False): b"}, id="if"),
        pytest.param("while a: b", {"while (False): b"}, id="while"),
        pytest.param("x = [a for a in b if c]", {"x = ([a for a in b])"}, id="filter"),
        pytest.param("x = min(a)", {"x = (max(a))"}, id="min"),
        pytest.param("x = a.strip()", {"x = (a)"}, id="strip"),
        pytest.param("x = a[b:c]", {"x = (a[:c])", "x = (a[b:])"}, id="slice"),
        pytest.param("x = f(a, b=c)", {"x = (f(a))"}, id="argument"),
        pytest.param("f(a)", {"pass"}, id="call"),
        pytest.param("def f(): return a", {"def f(): return None"}, id="return"),
        pytest.param("raise A('no such thing')", {"pass"}, id="raise"),
        pytest.param("a.b = c", {"pass"}, id="kept"),
        pytest.param("a += b", {"pass"}, id="added"),
        pytest.param(
            "x = f'{a if b else c}'",
            {"x = (f'{(a if True else c)}')", "x = (f'{(a if False else c)}')"},
            id="f-string",
        ),
        pytest.param("é = a < b", {"é = (a <= b)"}, id="bytes-before-it"),
    ],
)
def test_a_change(source: str, after: set[str]) -> None:
    assert texts(source) == after


@pytest.mark.parametrize(
    "source",
    [
        pytest.param('"""Words."""', id="docstring"),
        pytest.param("def f(a: Literal['x'] = b) -> dict['x', 'y']: ...", id="annotation"),
        pytest.param("assert a < b", id="assert"),
        pytest.param("if TYPE_CHECKING: a = 1", id="types"),
        pytest.param("if __name__ == '__main__': f(1)", id="program"),
        pytest.param("x = 'two words'", id="sentence"),
        pytest.param("x = f(hint='word')", id="hint"),
        pytest.param("x = dataclass(frozen=True)", id="dataclass"),
        pytest.param("class X(Struct, frozen=True): ...", id="record"),
        pytest.param("LIMIT_S = 3", id="wait"),
        pytest.param("import a", id="import"),
        pytest.param("x = f'word {a}'", id="words-of-an-f-string"),
        pytest.param("x = f(check=b)", id="said-for-clarity"),
    ],
)
def test_what_is_left_alone(source: str) -> None:
    assert texts(source) == set()


def test_a_change_that_python_does_not_see_is_no_mutant() -> None:
    source = "x = (1\n)"
    same = Site(1, range(1, 2), False, "constant", "1", "1", 5, 6, "(1)")
    assert not differs(source, same)
    other = next(iter(sites(source)))
    assert differs(source, other)


def test_what_does_not_compile_is_no_mutant() -> None:
    assert not differs("x = 1", Site(1, range(1, 2), False, "", "", "", 4, 5, "("))


def test_a_site_tells_its_statement_and_whether_it_is_called() -> None:
    source = "A = 1\n\ndef f(a=2):\n    if (\n        a < 3\n    ):\n        return\n"
    found = {(each.line, each.after): each for each in sites(source)}
    assert not found[1, "2"].called
    assert not found[3, "3"].called  # a default is evaluated where the function is made
    assert found[5, "a <= 3"].called
    assert found[5, "a <= 3"].lines == range(4, 7)


SOURCES = {
    "toolkit/facts/a.py": "\n".join(f"x{n} = {n}" for n in range(90)),
    "toolkit/verbs/b.py": "\n".join(f"x{n} = {n}" for n in range(10)),
    "toolkit/want.py": "x = 1",
    "toolkit/suites/c.py": "x = 1",
    "toolkit/node/scripts/d.py": "x = 1",
}


def test_rooms_have_their_share_and_a_least_one() -> None:
    chosen = choose(SOURCES, 50, seed=1, least=2)
    rooms = [room(each.path) for each in chosen]
    assert {name: rooms.count(name) for name in rooms} == {"core": 1, "facts": 45, "verbs": 5}
    lines = {(each.path, each.site.line) for each in chosen}
    assert len(lines) == len(chosen)  # one of a line


def test_a_seed_chooses_the_same_again_and_another_seed_others() -> None:
    assert choose(SOURCES, 50, 1, 2) == choose(SOURCES, 50, 1, 2) != choose(SOURCES, 50, 2, 2)


def test_a_room_keeps_its_mutants_when_another_grows() -> None:
    grown = SOURCES | {"toolkit/want.py": "x = 1\ny = 2\n"}
    flow = [
        [each for each in choose(which, 50, 1, 5) if "verbs" in each.path]
        for which in (SOURCES, grown)
    ]
    assert flow[0] == flow[1] != []


def test_the_score_and_its_table() -> None:
    one, two, three = choose(SOURCES, 1, 1, 1)
    ended = [
        Ended(one, Fate.HUNG),
        Ended(two, Fate.SURVIVED, tests=4, left=2),
        Ended(three, Fate.UNSEEN),
        Ended(one, Fate.DOUBTED, by="t::falls"),  # neither killed nor survived
    ]
    assert sum(killed for killed, _ in score(ended).values()) == 1
    assert sum(count for _, count in score(ended).values()) == 3
    said = table(ended)
    assert f"{two}\n    survived: 4 tests ran; 2 more execute it" in said
    assert "no test executes it: 0 tests ran" in said
    assert f"{one}\n    its test falls without it, too" in said
    assert said.count("\n    ") == 3


def test_the_nearest_test_bears_the_name_then_executes_least() -> None:
    near = Known("tests/unit/test_facts_acs.py::test_a", 1.0, 900)
    small, large = (Known(f"tests/unit/test_b.py::test_{n}", 1.0, n) for n in (5, 80))
    assert order([large, small, near], "toolkit/facts/pci/acs.py") == [near, small, large]


def test_one_test_always_has_time() -> None:
    tests = [Known(f"t::{n}", seconds, 1) for n, seconds in enumerate((9.0, 3.0, 1.0))]
    assert within(tests, 5) == (tests[:1], tests[1:])
    assert within(tests[1:], 5) == (tests[1:], [])
    assert within(tests[1:], 3) == (tests[1:2], tests[2:])
    assert within([], 5) == ([], [])


def test_a_mutant_tells_where_and_what() -> None:
    [site] = sites("x = a < b")
    assert str(Mutant("toolkit/x.py", site)) == "toolkit/x.py:1 (comparison): a < b  ->  a <= b"


def test_the_map_is_of_the_unit_tests_and_of_the_simulated_bmcs() -> None:
    files = files_of_tests()
    assert {"tests/unit/test_mutants.py", "tests/bmc/test_bios_verb.py"} <= set(files)
    assert not [each for each in files if each.startswith("tests/suites/")]


def test_a_file_of_tests_says_which_sources_it_reads() -> None:
    one = 'x = 1\nREADS = "toolkit/a.py"\n'
    many = 'IMPORTS = (\n    "toolkit/cli/*.py",\n    "toolkit/b.py",\n)\nx = ("c",)\n'
    line = 'IMPORTS = ("toolkit/a.py", "toolkit/*/b.py")\n'
    other = 'x = READS = "toolkit/a.py"\n'
    rows = {"one": one, "many": many, "line": line, "other": other, "none": ""}
    assert readers(rows) == {
        "one": Reads(True, ("toolkit/a.py",)),
        "many": Reads(False, ("toolkit/cli/*.py", "toolkit/b.py")),
        "line": Reads(False, ("toolkit/a.py", "toolkit/*/b.py")),
    }


LIVE = """\
class A:
    def more(self, n):
        return (n
                + 1)
    def most(self): return [self.more(each) for each in (1, 2)]
LIMIT = A().more(1)
"""


@pytest.mark.parametrize(
    ("before", "after", "had", "most"),
    [
        pytest.param("n\n                + 1", "n - 1", True, [0, 1], id="of-fewer-lines"),
        pytest.param("(1, 2)", "(1, 3)", True, [2, 4], id="within-a-comprehension"),
        pytest.param("A().more(1)", "A().more(2)", False, [2, 3], id="at-import"),
        pytest.param("def most", "def least", False, [2, 3], id="of-another-name"),
    ],
)
def test_a_mutant_lives_in_functions_that_are_there_already(
    before: str, after: str, had: bool, most: list[int], tmp_path: Path
) -> None:
    file = tmp_path / "live.py"
    file.write_text(LIVE)
    room = run_path(str(file))
    assert exchanged(str(file), LIVE, LIVE.replace(before, after)) is had
    assert (room["A"]().most(), room["LIMIT"]) == (most, 2)
