"""The page of a report in a real browser: drawn, silent, alone; and harmless whatever jobs are called."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from chasqui.spark.reports import ReportQuery
from chasqui_cli.commands.pipeline._page import render_page
from tests.spark import plain_reports
from tests.support.seeds.event_history import made_up_events

HOSTILE = "<script>alert(1)</script>\"'><img src=https://evil.example/x> \x1b[31m\u202e"


def records() -> dict[str, list[dict[str, Any]]]:
    events, queue = made_up_events(500), f"emails {HOSTILE}"
    job_id = next(one.event.job_id or "" for one in events if one.event.kind == "dlq")
    found = {
        "throughput": plain_reports.throughput(events, queue, 60_000),
        "latency": plain_reports.latency(events, queue),
        "retries": plain_reports.retries(events, queue),
        "failures": plain_reports.failures(events, queue, 20),
        "sla": plain_reports.sla(events, queue, 20_000),
        "slowest": plain_reports.slowest(events, queue, 20),
        "timeline": plain_reports.timeline(events, queue, job_id),
        "heatmap": plain_reports.heatmap(events, queue),
        "diff": plain_reports.diff(events, queue, events[200].ms, 86_400_000),
        "gaps": [],
    }
    for row in (*found["failures"], *found["latency"], *found["sla"]):
        row["name"] = HOSTILE
    return found


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("page") / "report.html"
    place.write_text(render_page(records(), ReportQuery(), f"/data/{HOSTILE}"), "utf-8")
    return place


def test_nothing_of_a_job_breaks_out_of_its_place(written: Path) -> None:
    text = written.read_text("utf-8")
    assert "<script" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert set(re.findall(r"(?:src|href)=\"([^\"]*)\"", text)) == {"data:,"}


def test_an_empty_archive_is_a_page_too() -> None:
    empty = render_page({name: [] for name in records()}, ReportQuery(), "/data")
    assert empty.count("Nothing.") == len(records())


def test_it_names_its_queues_and_its_time_range() -> None:
    steps = [{"queue": "emails", "at_ms": 60_000 * n, "completed": n, "failed": 0, "retried": 0, "dead": 0} for n in (1, 2)]  # fmt: skip
    found: dict[str, list[dict[str, Any]]] = {"throughput": steps}
    whole = render_page(found, ReportQuery(), "/data")
    assert "<p>emails, from 1970-01-01T00:01:00.000Z to 1970-01-01T00:03:00.000Z<br>" in whole, "the last step, too"
    asked = render_page(found, ReportQuery(queues=("a", "b"), since_ms=1000, until_ms=2000), "/data")
    assert "<p>a, b, from 1970-01-01T00:00:01.000Z to 1970-01-01T00:00:02.000Z<br>" in asked
    assert "<p>no queue, all that is archived<br>" in render_page({"gaps": []}, ReportQuery(), "/data")


def opened(chromium: str, page: Path, profile: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--no-first-run", f"--user-data-dir={profile}",
            "--enable-logging=stderr", *more, "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("size", ["1100,1400", "390,800"])
def test_a_browser_draws_it_without_a_word_and_without_the_network(
    chromium: str, written: Path, tmp_path: Path, size: str
) -> None:
    log = tmp_path / "net.json"
    done = opened(chromium, written, tmp_path / "profile", f"--log-net-log={log}", f"--window-size={size}")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("<svg") >= 5
    assert done.stdout.count("<polyline") == 2
    assert "CONSOLE" not in done.stderr
    text = log.read_text(errors="replace")
    asked = json.loads(text if text.rstrip().endswith("}") else text.rstrip().rstrip(",") + "]}")["events"]
    urls = {event["params"]["url"] for event in asked if "url" in event.get("params", {})}
    assert not [url for url in urls if "evil.example" in url]
    assert not [url for url in urls if url.startswith("http") and "google" not in url]


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """A web server on loopback, and what it was asked for."""
    paths: list[str] = []

    class Noting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Noting) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", paths
        server.shutdown()
        thread.join()


def test_even_what_had_broken_out_could_fetch_and_run_nothing(
    chromium: str, written: Path, tmp_path: Path, asked: tuple[str, list[str]]
) -> None:
    site, paths = asked
    evil = (
        f'<img src="{site}/image"><link rel="stylesheet" href="{site}/style"><script src="{site}/script"></script>'
        '<script>document.body.dataset.ran = "yes"</script><style>body{background:url(' + site + "/ground)}</style>"
    )
    guarded, bare = tmp_path / "guarded.html", tmp_path / "bare.html"
    guarded.write_text(written.read_text("utf-8").replace("</main>", f"{evil}</main>"), "utf-8")
    bare.write_text(guarded.read_text("utf-8").replace("Content-Security-Policy", "x"), "utf-8")
    done = opened(chromium, guarded, tmp_path / "profile")
    assert done.returncode == 0, done.stderr[-2000:]
    assert paths == []
    assert 'data-ran="yes"' not in done.stdout
    assert "<svg" in done.stdout
    done = opened(chromium, bare, tmp_path / "profile")
    assert sorted(set(paths)) == ["/ground", "/image", "/script", "/style"], "else this test would prove nothing"
    assert 'data-ran="yes"' in done.stdout
