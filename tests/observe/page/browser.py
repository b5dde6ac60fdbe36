"""browser.py - a headless Chromium, driven through its DevTools protocol.

The protocol goes over two pipes (--remote-debugging-pipe): messages are JSON, each ended by a NUL.
So nothing is needed but Python itself.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


class Browser:
    """with Browser(width, height) as page: page.open(url); page.run("javascript")"""

    def __init__(self, width=1440, height=900, dark=False):
        self.width, self.height, self.dark = width, height, dark
        self.last = 0
        self.rest = b""
        self.problems = []  # errors on the console and uncaught exceptions
        self.requests = []  # addresses of all that was loaded
        self.loaded = False

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="pto-page-")
        to_read, self.to = os.pipe()
        self.come, from_write = os.pipe()

        def wire():
            # The ends of the pipes become 3 and 4, wherever they are now.
            a, b = os.dup(to_read), os.dup(from_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        # Without a sandbox: it cannot be had as root, and the page is our own.
        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--remote-debugging-pipe", "--no-sandbox",
             "--disable-gpu", "--no-first-run", "--disable-extensions", "--hide-scrollbars",
             "--force-color-profile=srgb", "--disable-background-networking",
             "--user-data-dir=" + self.folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=wire, close_fds=False)
        os.close(to_read)
        os.close(from_write)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target,
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.size(self.width, self.height)
        self.scheme(self.dark)
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.call("Browser.close", wait=5)
            self.process.wait(5)
        except Exception:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.come)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- the protocol -----------------------------------------------------------------------

    def message(self, wait):
        """The next message, or None when there is none for so many seconds."""
        end = time.monotonic() + wait
        while b"\0" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.come], [], [], left)[0]:
                return None
            more = os.read(self.come, 1 << 20)
            if not more:
                raise RuntimeError("Chromium is gone")
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def note(self, message):
        what, params = message.get("method"), message.get("params", {})
        if what == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description")
                                 or details["text"])
        elif what == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning",
                                                                       "assert"):
            self.problems.append("console: " + " ".join(
                str(a.get("value", a.get("description"))) for a in params["args"]))
        elif what == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append("log: " + params["entry"]["text"])
        elif what == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif what == "Page.loadEventFired":
            self.loaded = True

    def call(self, method, wait=120, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + wait
        while True:
            answer = self.message(end - time.monotonic())
            if answer is None:
                raise RuntimeError(f"{method}: no answer in {wait} s")
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.note(answer)

    # ---- what a person does -----------------------------------------------------------------

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def scheme(self, dark):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path, wait=120):
        self.problems.clear()
        self.requests.clear()
        self.loaded = False
        self.call("Page.navigate", url="file://" + os.path.abspath(path), wait=wait)
        end = time.monotonic() + wait
        while not self.loaded:
            message = self.message(end - time.monotonic())
            if message is None:
                raise RuntimeError(f"{path} did not load in {wait} s")
            self.note(message)

    def run(self, script, wait=120):
        """The value of a JavaScript expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", wait=wait, expression=script, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def until(self, script, wait=20):
        """Waits until the expression is true, and gives its value."""
        end = time.monotonic() + wait
        while True:
            value = self.run(script)
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not so within {wait} s: {script}")
            time.sleep(0.05)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def drag(self, x, y, to_x, to_y):
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for i in range(1, 9):
            self.mouse("mouseMoved", x + (to_x - x) * i / 8, y + (to_y - y) * i / 8,
                       button="left", buttons=1)
        self.mouse("mouseReleased", to_x, to_y, button="left", clickCount=1)

    def wheel(self, x, y, dx, dy):
        self.mouse("mouseWheel", x, y, deltaX=dx, deltaY=dy)

    def click_on(self, selector):
        where = self.run(f"""(() => {{
            const e = document.querySelector({json.dumps(selector)});
            if (!e) return null;
            e.scrollIntoView({{block: "nearest"}});
            const r = e.getBoundingClientRect();
            return r.width && r.height ? [r.x + r.width / 2, r.y + r.height / 2] : null;
        }})()""")
        if where is None:
            raise AssertionError(f"{selector} is not to be seen")
        self.click(*where)

    def key(self, name, text=None):
        names = {"Left": "ArrowLeft", "Right": "ArrowRight", "Up": "ArrowUp", "Down": "ArrowDown"}
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "Home": 36}
        key = names.get(name, name)
        more = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        if text is None and len(key) == 1:
            text = key
        if key == "Enter":
            text = "\r"
        if text:
            more["text"] = text
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text):
        for letter in text:
            self.key(letter)

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
