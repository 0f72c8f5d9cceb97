"""Findings: codes that programs may rely on, sentences for people."""

import ast
import json
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import cindy
from cindy.evidence import FaultKind
from cindy.findings import NOTES, Finding, has_finding, without_repeats

ROOT = Path(__file__).parent.parent


def codes_in_source() -> set[str]:
    """The first argument of every Finding(…) that the package makes."""
    # Faults of fields are findings of the same name.
    found = set(get_args(FaultKind))
    for path in (ROOT / "src" / "cindy").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
                code = node.args[0]
                if isinstance(code, ast.Constant):
                    found.add(code.value)
                else:  # read back from a file
                    assert path.name == "model_file.py" or ast.unparse(code) == "fault.kind", path
    return found


def test_the_page_of_findings_lists_every_code_and_no_other():
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \|", page, flags=re.M)
    assert len(listed) == len(set(listed))
    assert set(listed) == codes_in_source()


def test_the_page_marks_the_findings_that_are_notes():
    page = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \| \*Note\.\*", page, flags=re.M)) == NOTES
    assert Finding("hidden-state", "Found.").note
    assert not Finding("fronts", "Sharp.").note


def test_findings_are_equal_by_code_and_message():
    one, other = Finding("outliers", "Three.", {"count": 3}), Finding("outliers", "Three.")
    assert one == other
    assert without_repeats([one, Finding("fronts", "Three."), other]) == (one, Finding("fronts", "Three."))
    assert has_finding([one], "fronts", "outliers")
    assert not has_finding([one], "fronts")


@pytest.mark.parametrize("code", ["", "Outliers", "two words", "trailing-", 3])
def test_a_code_is_words_joined_by_hyphens(code):
    with pytest.raises(cindy.DataError, match="Finding: `code`"):
        Finding(code, "A sentence.")


def test_warnings_are_the_sentences_of_the_findings():
    model = cindy.Model([[0.0], [-1.0]], cindy.Polynomial(1), ("x",), findings=(Finding("fronts", "Sharp."),))
    assert model.warnings == ("Sharp.",)


def test_values_survive_a_file(tmp_path):
    finding = Finding("unsure-terms", "A sentence.", {"terms": [["x", "1"]], "inclusion": np.float64(0.5)})
    model = cindy.Model([[0.0], [-1.0]], cindy.Polynomial(1), ("x",), findings=(finding,))
    model.save(tmp_path / "model.json")
    [loaded] = cindy.load(tmp_path / "model.json").findings
    assert loaded == finding
    assert loaded.values == {"terms": [["x", "1"]], "inclusion": 0.5}


def test_a_file_of_an_earlier_version_still_loads(tmp_path):
    model = cindy.Model([[0.0], [-1.0]], cindy.Polynomial(1), ("x",))
    data = model.to_dict()
    del data["findings"], data["denoised"]
    data["warnings"] = ["An old sentence."]
    data["near"]["models"], data["near"]["scores"] = data["path"]["models"], data["path"]["scores"]
    (tmp_path / "old.json").write_text(json.dumps(data), encoding="utf-8")
    loaded = cindy.load(tmp_path / "old.json")
    assert loaded.findings == (Finding("uncoded", "An old sentence."),)
    assert not loaded.denoised


def test_a_model_says_whether_its_states_were_denoised():
    t = np.linspace(0, 10, 200)
    data = cindy.Trajectory(t, np.stack([np.cos(2 * t), -2 * np.sin(2 * t)], axis=1), ("x", "v"))
    assert cindy.identify(data, "poly:1").denoised
    assert not cindy.identify(data, "poly:1", passes=1).denoised


T = np.linspace(0, 20, 300)
SWING = np.column_stack([np.cos(2 * T), -2 * np.sin(2 * T)])
NOISE = 0.01 * SWING.std(axis=0) * np.random.default_rng(0).standard_normal(SWING.shape)
BENT = 0.3 * np.column_stack([np.sin(0.9 * T), 0.9 * np.cos(0.9 * T)])
DATA = {
    "a closed orbit": SWING + NOISE,
    "clipped values": np.minimum(SWING + NOISE, 0.8),
    "rounded values": np.round(20 * SWING) / 20,
    "values far from zero": SWING + NOISE + [60.0, 0.0],
    "a force that nobody measured": SWING + BENT + NOISE,
    "a state that is missing": (SWING + NOISE)[:, :1],
}
UNITS = {"large": ([1e4], 1e-3), "mixed": ([1e6, 1e-6], 1.0), "tiny": ([1e-12], 1e9)}
"""What each state and the times are multiplied by."""


@pytest.mark.parametrize("name", DATA)
def test_findings_do_not_depend_on_units(name):
    def codes(states, times, **how):
        x = DATA[name] * np.resize(states, DATA[name].shape[1])
        try:
            model = cindy.identify((times * T, x), cindy.Polynomial(2), **how)
        except cindy.NoModelError as error:
            return ["refused", "a state is missing" in str(error)]
        return sorted(finding.code for finding in model.findings)

    before = codes([1.0], 1.0, passes=1)
    assert {unit: codes(*change, passes=1) for unit, change in UNITS.items()} == dict.fromkeys(UNITS, before)
    rates = {"formulation": "differential"}
    assert codes(*UNITS["mixed"], **rates) == codes([1.0], 1.0, **rates)


def test_findings_with_denoised_states_do_not_depend_on_units():
    runs = [
        cindy.identify((1e-3 * k * T, k * DATA["clipped values"]), cindy.Polynomial(1)) for k in (1.0, 1e4)
    ]
    assert [[f.code for f in model.findings] for model in runs] == [[f.code for f in runs[0].findings]] * 2
