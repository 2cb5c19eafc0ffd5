"""A process that writes to a server without pause and says on stdout what it sent, what was acknowledged, what broke.

It survives the server's deaths: after a broken connection it connects again. One JSON object per line; times are
CLOCK_MONOTONIC, which all processes of a machine share. Ends when stdin does.
"""

from __future__ import annotations

import http.client
import itertools
import json
import sys
import threading
import time
from typing import Any

_THREADS = 4
_RECONNECT_S = 0.002


class Writer:
    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._ids = itertools.count(1)
        self._printing = threading.Lock()
        self._acknowledged: list[str] = []
        self.stopping = threading.Event()

    def create_versions(self, toolbox: str) -> None:
        for number in self._until_stopped():
            mark = f"{toolbox} {number}"
            entry = {"type": "mcp", "server_label": "a", "server_url": "http://a.example/mcp", "headers": {"k": mark}}
            body = {"tools": [entry], "description": mark, "metadata": {"filler": mark * 50}}
            answer = self._send("POST", f"/toolboxes/{toolbox}/versions", body, number, toolbox=toolbox, mark=mark)
            if answer and toolbox == "box-0":
                self._acknowledged.append(answer["version"])

    def promote(self) -> None:
        for number in self._until_stopped():
            if not self._acknowledged:
                self.stopping.wait(_RECONNECT_S)
                continue
            to = self._acknowledged[number % len(self._acknowledged)]
            self._send("PATCH", "/toolboxes/box-0", {"default_version": to}, number, toolbox="box-0", to=to)

    def _until_stopped(self) -> Any:
        return itertools.takewhile(lambda _: not self.stopping.is_set(), self._ids)

    def _send(self, method: str, path: str, body: Any, number: int, **about: str) -> dict[str, Any] | None:
        connection = self._connection()
        if connection is None:
            return None
        self._say(event="sent", id=number, at=time.monotonic(), **about)
        try:
            url = f"/api/projects/default{path}?api-version=v1"
            connection.request(method, url, json.dumps(body), self._headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError):
            connection.close()
            self._local.connection = None
            self._say(event="broken", id=number, at=time.monotonic())
            return None
        if response.status != 200:
            self._say(event="refused", id=number, status=response.status, answer=answer)
            return None
        self._say(event="acknowledged", id=number, answer=answer, **about)
        return answer

    _local = threading.local()

    def _connection(self) -> http.client.HTTPConnection | None:
        known: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if known is not None:
            return known
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.connect()
        except OSError:
            self.stopping.wait(_RECONNECT_S)
            return None
        self._local.connection = connection
        return connection

    def _say(self, **event: Any) -> None:
        with self._printing:
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()


def main() -> None:
    writer = Writer(int(sys.argv[1]), sys.argv[2])
    work = [threading.Thread(target=writer.create_versions, args=(f"box-{i}",)) for i in range(_THREADS - 1)]
    work.append(threading.Thread(target=writer.promote))
    for thread in work:
        thread.start()
    sys.stdin.read()
    writer.stopping.set()
    for thread in work:
        thread.join()


if __name__ == "__main__":
    main()
