"""The load: keep-alive HTTP/1.1 on plain sockets, or from wrk, and what a server's process tree burnt meanwhile.

CPU per request (user + system of the whole tree) is the stable figure on a busy machine. Cases are interleaved, and a
ratio is the median of each round's own, so that whatever else the machine does falls on both sides of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

START_S = 60.0


@dataclass(frozen=True)
class Case:
    """One request, sent over and over to one server."""

    name: str
    process: subprocess.Popen[bytes]
    port: int
    request: bytes


@dataclass
class Figure:
    """What was seen of one case, round by round."""

    cpu_us: list[float] = field(default_factory=list[float])
    per_s: list[float] = field(default_factory=list[float])
    p50_ms: list[float] = field(default_factory=list[float])

    @property
    def cpu(self) -> float:
        return statistics.median(self.cpu_us)

    @property
    def rate(self) -> float:
        return statistics.median(self.per_s)

    @property
    def p50(self) -> float:
        return statistics.median(self.p50_ms)

    def cost_of(self, base: Figure) -> float:
        """How many times the CPU of the base."""
        return statistics.median(ours / theirs for ours, theirs in zip(self.cpu_us, base.cpu_us, strict=True))

    def share_of(self, base: Figure) -> float:
        """How much of the base's throughput."""
        return statistics.median(ours / theirs for ours, theirs in zip(self.per_s, base.per_s, strict=True))

    def added_ms(self, base: Figure) -> float:
        """How much longer half of the requests take."""
        return statistics.median(ours - theirs for ours, theirs in zip(self.p50_ms, base.p50_ms, strict=True))


class _Connection(asyncio.Protocol):
    """One keep-alive connection, one request in flight, answers told by their content-length."""

    def __init__(self, request: bytes, count: int, latencies: list[float], done: asyncio.Future[bytes]) -> None:
        self._request, self._left, self._latencies, self._done = request, count, latencies, done
        self._buffer = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._left -= 1
        self._sent = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found or len(body) < _content_length(head):
            return
        self._latencies.append(time.perf_counter() - self._sent)
        answer, self._buffer = self._buffer, b""
        if self._left > 0:
            self._send()
        else:
            self._transport.close()
            self._done.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server closed the connection"))


def _content_length(head: bytes) -> int:
    at = head.lower().index(b"content-length:") + 15
    return int(head[at : head.find(b"\r\n", at) if b"\r\n" in head[at:] else None])


async def _drive(port: int, request: bytes, connections: int, requests: int) -> tuple[list[float], bytes]:
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    futures = []
    for _ in range(connections):
        done: asyncio.Future[bytes] = loop.create_future()
        futures.append(done)
        await loop.create_connection(
            lambda d=done: _Connection(request, max(1, requests // connections), latencies, d), "127.0.0.1", port
        )
    answers = await asyncio.gather(*futures)
    return latencies, answers[0]


def send(case: Case, connections: int, requests: int) -> tuple[float, float, float, bytes]:
    """(CPU µs per request, requests per second, p50 ms, one answer) of one burst."""
    before, began = cpu_s(case.process), time.perf_counter()
    latencies, answer = asyncio.run(_drive(case.port, case.request, connections, requests))
    took = time.perf_counter() - began
    burnt = cpu_s(case.process) - before
    return burnt / len(latencies) * 1e6, len(latencies) / took, statistics.median(latencies) * 1e3, answer


Measure = Callable[[Case], tuple[float, float, float]]
"""(CPU µs per request, requests per second, p50 ms) of one burst."""


def interleave(
    cases: list[Case],
    *,
    rounds: int = 9,
    connections: int = 32,
    requests: int = 4000,
    warm_up: int = 200,
    measure: Measure | None = None,
) -> dict[str, Figure]:
    """Every case in every round; a case whose answer is not a success stops the benchmark."""
    figures = {case.name: Figure() for case in cases}
    for case in cases:
        answer = send(case, connections, warm_up)[3]
        if b" 200 " not in answer[:20] or b'"error":{' in answer:
            raise SystemExit(f"{case.name}: {answer[:400]!r}")
    for _ in range(rounds):
        for case in cases:
            cpu, rate, p50 = measure(case) if measure is not None else send(case, connections, requests)[:3]
            figures[case.name].cpu_us.append(cpu)
            figures[case.name].per_s.append(rate)
            figures[case.name].p50_ms.append(p50)
    return figures


def has_wrk() -> bool:
    """Whether the load can come from `wrk`, which leaves more of the machine to those that are measured."""
    return shutil.which("wrk") is not None


def send_with_wrk(case: Case, connections: int = 32, seconds: int = 2) -> tuple[float, float, float]:
    """One burst of the same request from wrk; an answer that is not a 2xx, or none, stops the benchmark."""
    head, _, body = case.request.decode().partition("\r\n\r\n")
    start, *headers = head.split("\r\n")
    lines = [f'wrk.method = "POST"\nwrk.body = [==[{body}]==]']
    sent = dict(header.split(": ", 1) for header in headers if not header.startswith("content-length"))
    sent["Host"] = sent.pop("host")  # wrk has one of its own otherwise
    lines += [f'wrk.headers["{name}"] = "{value}"' for name, value in sent.items()]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write("\n".join([*lines, _WRK_DONE]))
        script.flush()
        target = f"http://127.0.0.1:{case.port}{start.split()[1]}"
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script.name, target]
        before = cpu_s(case.process)
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        burnt = cpu_s(case.process) - before
    count, took_us, p50_us, failed = map(float, said.rpartition("RESULT ")[2].split())
    if failed or not count:
        raise SystemExit(f"{case.name}: {failed:.0f} of {count:.0f} requests failed\n{said}")
    return burnt / count * 1e6, count / took_us * 1e6, p50_us / 1e3


_WRK_DONE = """
done = function(summary, latency)
  local e = summary.errors
  local failed = e.connect + e.read + e.write + e.status + e.timeout
  print(string.format("RESULT %d %d %d %d", summary.requests, summary.duration, latency:percentile(50), failed))
end
"""


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    root = psutil.Process(process.pid)
    return sum(_cpu_s(p) for p in [root, *root.children(recursive=True)])


def _cpu_s(process: psutil.Process) -> float:
    """The scheduler's own count, to the nanosecond, where there is one; else in ticks of ten milliseconds."""
    try:
        threads = Path(f"/proc/{process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    except OSError:
        return sum(process.cpu_times()[:2])


def rss_mib(process: subprocess.Popen[bytes]) -> float:
    return psutil.Process(process.pid).memory_info().rss / 2**20


def http(method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    sent = {
        "host": "127.0.0.1:8000",  # the SDK wants a port, whichever
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "content-length": str(len(body)),
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def started(
    *command: str, port: int, env: Mapping[str, str] | None = None, within_s: float = START_S
) -> Iterator[subprocess.Popen[bytes]]:
    """A child process that listens on a port, until the block ends."""
    process = subprocess.Popen(
        [sys.executable, *command], env={**os.environ, **(env or {})}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        _await_port(process, port, within_s)
        yield process
    finally:
        process.terminate()
        process.wait(30)


def uvicorn(target: str, port: int) -> tuple[str, ...]:
    """The command for a raw ASGI app, served as quickly as uvicorn can."""
    return (
        *("-m", "uvicorn", target, "--port", str(port), "--log-level", "error", "--no-access-log"),
        *("--no-proxy-headers", "--loop", "uvloop", "--http", "httptools"),
    )


def _await_port(process: subprocess.Popen[bytes], port: int, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit((process.stderr.read() if process.stderr else b"").decode()[-2000:])
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port} after {within_s:.0f} s")


def call(port: int, path: str, body: dict[str, Any], headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One request of the set-up, with its JSON answer."""
    request = http("POST", path, json.dumps(body).encode(), headers)
    _, answer = asyncio.run(_drive(port, request, 1, 1))
    head, _, payload = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head[:20]:
        raise SystemExit(f"{path}: {answer[:400]!r}")
    return json.loads(payload)
