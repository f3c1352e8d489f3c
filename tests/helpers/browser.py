"""A headless Chromium that is driven through pipes, without any library."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_chromium() -> str | None:
    """The program, such as Debian's package ``chromium`` has it."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


# Chromium reads commands from descriptor 3 and writes answers to 4.
_START = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
for number, pipe in zip((3, 4), pipes):
    os.dup2(pipe, number)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Page:
    """One tab; it remembers messages of the console, exceptions and requests.

    Attributes:
        complaints: console messages and exceptions.
        requests: addresses that were asked for, but for the page itself.
    """

    def __init__(self, program: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        read, self._to = os.pipe()
        self._from, write = os.pipe()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        options += [f"--user-data-dir={self._folder.name}", "--no-first-run", "about:blank"]
        command = [sys.executable, "-c", _START, str(read), str(write), program, *options]
        self._process = subprocess.Popen(command, pass_fds=(read, write), stderr=subprocess.DEVNULL)
        os.close(read)
        os.close(write)
        self._number, self._buffer, self._session = 0, b"", ""
        self._events: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        os.close(self._to)
        self._process.terminate()
        self._process.wait(timeout=30)
        os.close(self._from)
        self._folder.cleanup()

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = os.read(self._from, 2**20)
            assert more, "Chromium has ended"
            self._buffer += more
        text, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(text)
        self._remember(message)
        return message

    def _remember(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method", ""), message.get("params", {})
        if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            self.complaints.append(json.dumps(parameters)[:500])
        elif method == "Network.requestWillBeSent":
            address = parameters["request"]["url"]
            if not address.startswith(("data:", "about:")) and parameters.get("type") != "Document":
                self.requests.append(address)
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog {parameters['message']}")
        self._events.append(message)

    def open(self, path: Path, width: int, height: int = 900) -> None:
        """Show a file at a width of the window in pixels."""
        self.resize(width, height)
        self._events.clear()
        self.ask("Page.navigate", url=path.resolve().as_uri())
        while not any(one.get("method") == "Page.loadEventFired" for one in self._events):
            self._next()

    def resize(self, width: int, height: int = 900) -> None:
        """Change the size of the window."""
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **sizes)

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript is, by value."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Click in the middle of the first element of a CSS selector."""
        x, y = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            event = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
            self.ask("Input.dispatchMouseEvent", **event)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save the page as a PNG."""
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))
