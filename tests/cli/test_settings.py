"""Where configuration and data are looked for, also by users who have no home to keep them in."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from chasqui.errors import ConfigError
from chasqui_cli.context.settings import ConnectionOptions, config_file, data_directory, resolve_settings


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a user number without a name."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "CHASQUI_REDIS_URL", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)

    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home_can_reach_a_server_all_the_same() -> None:
    assert config_file() is None
    assert resolve_settings(ConnectionOptions(redis_url="redis://here")).url == "redis://here"
    assert resolve_settings(ConnectionOptions(redis_url="rediss://here", tls_ca=Path("~/ca"))).tls_ca == Path("~/ca")


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home_is_shown_how_to_store_data(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no home") as failure:
        data_directory()
    assert "XDG_DATA_HOME" in (failure.value.hint or "")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert data_directory() == Path("/data/chasqui/embedded")


def test_a_home_that_is_no_directory_holds_no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    assert resolve_settings(ConnectionOptions(redis_url="redis://here")).context is None


def test_a_relative_place_is_ignored_as_the_xdg_rules_want(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    assert data_directory() == tmp_path / ".local/share/chasqui/embedded"
    assert config_file() == tmp_path / ".config/chasqui/config.toml"
