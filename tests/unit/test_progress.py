"""Saying what goes on, to someone who does not listen."""

from __future__ import annotations

import pytest

from toolkit.progress import Progress, Silent


def test_silence_takes_every_report_and_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    listener: Progress = Silent()
    listener.begin("reading", 2)
    listener.note("gpu01", "dkms")
    listener.done("gpu01")
    listener.done("gpu02", "gone")
    listener.finish()
    assert capfd.readouterr() == ("", "")
