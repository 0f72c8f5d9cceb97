"""A headless Chromium for tests of pages."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

__all__ = ["browser"]

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


@contextmanager
def browser() -> Iterator[object]:
    """A driver of the system's Chromium; without one the test is skipped, or fails where one is required.

    Set CINDY_REQUIRE_BROWSER to require one.
    """
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not program or not driver:
        reason = "no chromium and chromedriver on this machine: the page was not looked at in a browser"
        if os.environ.get("CINDY_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        made = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        try:
            yield made
        finally:
            made.quit()
