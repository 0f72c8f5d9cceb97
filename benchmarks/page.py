"""The report of the demonstration: its size, and how long a browser takes to open it."""

import tempfile
import time
from pathlib import Path

from tests.browser import browser

import cindy
from benchmarks.table import write
from cindy.systems.catalogue import KINETICS

__all__ = ["run"]

_LOADS = 3


def run() -> None:
    """Write the page, open it afresh in headless Chromium a few times, and keep the fastest."""
    data = cindy.read(KINETICS, by="run")
    laws = [cindy.conserve({"E": 1, "ES": 1}), cindy.conserve({"S": 1, "ES": 1, "P": 1})]
    model = cindy.identify(data, cindy.Polynomial(2), constraints=laws)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.html")
        begin = time.perf_counter()
        cindy.report.write(model, data, path)
        row = {"write_s": time.perf_counter() - begin, "size_mb": path.stat().st_size / 1e6}
        opened = [_opened(path) for _ in range(_LOADS)]
    best = {key: min(one[key] for one in opened) for key in opened[0]}
    write(
        "page",
        "The report of the demonstration",
        [{**row, **best}],
        "Headless Chromium, a new one each time, the best of three: wall time from the request to the load "
        "event and until every figure is drawn, and processor time of the page's own thread in all.",
    )


def _opened(path: Path) -> dict[str, float]:
    from selenium.webdriver.support.ui import WebDriverWait

    with browser() as driver:
        driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        driver.get(path.as_uri())
        done = "return Number(document.documentElement.dataset.drawnAfter)"
        drawn = WebDriverWait(driver, 60, 0.02).until(lambda d: d.execute_script(done))
        loaded = driver.execute_script("return performance.getEntriesByType('navigation')[0].loadEventEnd")
        metrics = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    busy = next(one["value"] for one in metrics if one["name"] == "TaskDuration")
    return {"load_s": loaded / 1000, "drawn_s": drawn / 1000, "thread_s": busy}
