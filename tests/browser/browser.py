"""A headless Chromium, driven over a pipe: no package beside Python's own is needed."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

NAMES = ["chromium", "chromium-browser", "google-chrome"]


def find():
    """The first browser that is installed; None without one."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page of one browser. What it says on its console and asks of a network is kept."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory()
        to_child, ours_out = os.pipe()
        ours_in, from_child = os.pipe()
        # The browser reads commands from descriptor 3 and answers on 4.
        words = [
            program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
            f"--user-data-dir={self.profile.name}", "--no-first-run", "--disable-background-networking",
            "--hide-scrollbars", "about:blank",
        ]
        shell = f'exec "$@" 3<&{to_child} 4>&{from_child}'
        self.log = open(os.path.join(self.profile.name, "log"), "w+b")
        self.child = subprocess.Popen(
            ["bash", "-c", shell, "bash", *words], pass_fds=[to_child, from_child],
            stdout=self.log, stderr=subprocess.STDOUT,
        )
        os.close(to_child)
        os.close(from_child)
        self.out, self.input = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self.number, self.session, self.buffer = 0, None, b""
        self.console, self.requests, self.events = [], [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")

    def read(self):
        while b"\0" not in self.buffer:
            more = os.read(self.input.fileno(), 1 << 20)
            if not more:
                self.log.seek(0)
                raise RuntimeError("the browser has gone: " + self.log.read().decode(errors="replace")[-2000:])
            self.buffer += more
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        self.note(message)
        return message

    def note(self, message):
        method, told = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.console.append([each.get("value", each.get("description")) for each in told["args"]])
        elif method == "Runtime.exceptionThrown":
            self.console.append(told["exceptionDetails"].get("exception", told["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.console.append(told["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        if method:
            self.events.append(method)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        self.out.write(json.dumps(message).encode() + b"\0")
        self.out.flush()
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, path, width, height, scheme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.console.clear()
        self.requests.clear()
        self.events.clear()
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        while "Page.loadEventFired" not in self.events:
            self.read()
        self.frame()

    def run(self, code):
        """The value of an expression, which may be a promise."""
        told = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            raise RuntimeError(f"{code}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def frame(self):
        """Waits until what was asked to be drawn is drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        for kind in ["mousePressed", "mouseReleased"]:
            self.mouse(kind, x, y, button="left", buttons=1, clickCount=1)
        self.frame()

    def key(self, key):
        text = key if len(key) == 1 else ""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.frame()

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self):
        self.out.close()
        self.child.wait()
        self.log.close()
        self.profile.cleanup()
