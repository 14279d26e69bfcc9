"""A small service that fails and dawdles as it is asked, to try canaries on.

GET /health             answers 200 while the service takes requests
GET /error/PROBABILITY  answers 500 for PROBABILITY of 100 requests, else 200
GET /sleep/MS           answers 200 after MS milliseconds, at most a minute
GET /                   answers 200

Each answer names the version (the variable VERSION). It needs Python 3.9 and nothing else, and listens on PORT (8000).
"""

import os
import random
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERSION = os.environ.get("VERSION", "unknown")
LONGEST_SLEEP_MS = 60_000


def whole_number(text, most):
    """The number that the text is, from 0 to `most`; None for anything else."""
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        return None
    number = int(text)
    return number if number <= most else None


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A client that sends half a request, or none, holds a thread no longer than this.
    timeout = 10

    def do_GET(self):
        path = self.path.split("?", 1)[0]
        what, _, amount = path.strip("/").partition("/")
        if path in ("/", "/health"):
            self.answer(200, "up")
        elif what == "error" and (probability := whole_number(amount, 100)) is not None:
            # random() is below 1: 0 never fails, and 100 always does.
            failed = random.random() * 100 < probability
            self.answer(500 if failed else 200, "failed as asked" if failed else "did not fail")
        elif what == "sleep" and (milliseconds := whole_number(amount, LONGEST_SLEEP_MS)) is not None:
            time.sleep(milliseconds / 1000)
            self.answer(200, f"slept {milliseconds} ms")
        else:
            self.answer(404, "there are /health, /error/PROBABILITY (0 to 100) and /sleep/MS (0 to 60000)")

    def answer(self, status, text):
        body = f"{VERSION}: {text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        """A canary's traffic would fill the log."""


def main():
    server = ThreadingHTTPServer(("", int(os.environ.get("PORT", "8000"))), Service)
    # Requests under way are answered before the pod goes.
    server.daemon_threads = False
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"{VERSION} listens on port {server.server_port}", flush=True)
    server.serve_forever()
    server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
