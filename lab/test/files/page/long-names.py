#!/usr/bin/env python3
"""lab/test/files/page/long-names.py serve|ask PORT: twelve operations with names that go on, over HTTP on 127.0.0.1, and how they are asked for.

Each path takes and gives another number of bytes, so that none looks like its neighbour.
"""

import http.client
import http.server
import sys

PATHS = [
    "/quarterly-accounts-of-all-branches-with-their-currencies-and-rates",
    "/customers-who-have-not-been-written-to-since-the-last-campaign",
    "/orders-that-are-open-by-warehouse-and-by-the-day-of-their-delivery",
    "/sessions-of-people-who-came-back-within-a-week-of-their-first-visit",
    "/articles-by-subject-author-and-language-without-their-translations",
    "/measurements-of-all-stations-in-the-north-since-the-last-calibration",
    "/invoices-with-a-reminder-or-more-and-the-letters-that-went-with-them",
    "/flights-by-carrier-with-their-delays-and-what-was-given-as-the-cause",
    "/photographs-that-have-a-place-a-date-and-a-person-who-is-named",
    "/translations-that-wait-for-a-second-reader-or-for-the-author",
    "/permissions-of-groups-inherited-or-given-and-who-has-given-them",
    "/backups-that-were-verified-by-reading-all-of-them-once-more",
]
ROUNDS = 60


class Answer(http.server.BaseHTTPRequestHandler):
    """Gives as many bytes as the place of the path says."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b"x" * (40 * (1 + PATHS.index(self.path)))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Says nothing."""


def ask(port):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for number in range(ROUNDS):
        for path in PATHS[: 12 - number % 3]:
            connection.request("GET", path)
            connection.getresponse().read()


def main():
    what, port = sys.argv[1], int(sys.argv[2])
    if what == "serve":
        http.server.HTTPServer(("127.0.0.1", port), Answer).serve_forever()
    ask(port)


if __name__ == "__main__":
    main()
