"""How a bare machine learns where this machine's pip finds packages."""

from __future__ import annotations

from pathlib import Path

from tests.support.fresh_machine import PipSettings


def test_pip_settings_are_taken_over_and_the_environment_wins(tmp_path: Path) -> None:
    index = tmp_path / "simple"
    index.mkdir()
    listed = (
        ":env:.timeout='180'\n"
        f"global.extra-index-url='file://{index} https://index.example/simple'\n"
        "global.timeout='5'\n"
        f"install.find-links='{tmp_path}/missing'\n"
    )
    settings = PipSettings.parse(listed)
    assert settings.local_paths() == [tmp_path], "an index lies next to its files; what is missing is left out"
    settings.write(tmp_path / "pip.conf")
    assert (tmp_path / "pip.conf").read_text() == (
        f"[global]\nextra-index-url = file://{index} https://index.example/simple\ntimeout = 180\n\n"
        f"[install]\nfind-links = {tmp_path}/missing\n\n"
    )


def test_no_pip_means_no_settings() -> None:
    assert PipSettings.parse("") == PipSettings({})
