"""Children that crash, flood, fork or will not leave."""

from __future__ import annotations

import asyncio

import psutil
import pytest
from tests.contract.upstreams.conftest import Asking, open_site, principal, text_of, until
from tests.kit import Tool

from toolcrib import errors
from toolcrib.upstreams.pool import UpstreamPool
from toolcrib.upstreams.stdio import STDERR_BYTES, Child
from toolcrib.upstreams.upstream import Background, StdioCommand, UpstreamSpec

pytestmark = pytest.mark.anyio

NOBODY = Background(principal())
STDIO = "stdio-legacy"


def living(pid_file) -> list[int]:
    pids = [int(line) for line in pid_file.read_text().split()] if pid_file.exists() else []
    return [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("fork", ["", "group", "session"])
@pytest.mark.parametrize("stubborn", [False, True])
async def test_nothing_a_child_started_outlives_it(tmp_path, fork: str, stubborn: bool) -> None:
    pids = tmp_path / "pids"
    async with open_site(STDIO, [Tool("echo")], fork=fork, ignore_sigterm=stubborn, pid_file=str(pids)) as site:
        await site.call("echo")
        assert len(living(pids)) == (2 if fork else 1)
    await until(lambda: not living(pids))


async def test_grandchildren_go_even_when_the_child_crashed_first(tmp_path) -> None:
    pids = tmp_path / "pids"
    async with open_site(STDIO, [Tool("boom", does="die")], fork="session", pid_file=str(pids)) as site:
        with pytest.raises(errors.Unreachable):
            await site.call("boom")
    await until(lambda: not living(pids))


async def test_a_child_that_crashed_is_started_again(tmp_path) -> None:
    pids = tmp_path / "pids"
    async with open_site(STDIO, [Tool("boom", does="die"), Tool("echo")], pid_file=str(pids)) as site:
        with pytest.raises(errors.Unreachable):
            await site.call("boom")
        assert text_of(await site.call("echo", arguments={"text": "again"})) == "again"
        assert len(pids.read_text().split()) == 2


async def test_a_child_that_keeps_crashing_is_started_ever_more_rarely(tmp_path) -> None:
    pids = tmp_path / "pids"
    async with open_site(STDIO, [Tool("echo")], crash_at_start=True, pid_file=str(pids)) as site:
        for _ in range(20):
            with pytest.raises((errors.Unreachable, errors.CircuitOpen)):
                await site.call("echo")
        assert len(pids.read_text().split()) <= 8


async def test_a_child_that_dies_of_an_unknown_question_is_greeted_in_the_old_way() -> None:
    async with open_site(STDIO, [Tool("echo")], dies_when_probed=True) as site:
        assert (await site.upstream.fetch(NOBODY)).era == "legacy"


async def test_noise_on_stdout_and_a_flood_on_stderr_do_no_harm() -> None:
    async with open_site(STDIO, [Tool("echo")], noise=True, stderr_bytes=20_000_000) as site:
        assert text_of(await site.call("echo", arguments={"text": "clear"})) == "clear"


async def test_only_the_tail_of_stderr_is_kept() -> None:
    script = "import sys\nfor n in range(2000): sys.stderr.write('e' * 1000 + chr(10))\nsys.stderr.write('the end')"
    child = await Child.start("noisy", StdioCommand(("python3", "-S", "-E", "-c", script)), 1000)
    await until(lambda: child.stderr_tail.endswith("the end"))
    assert len(child.stderr_tail) <= STDERR_BYTES + 65536
    await child.aclose()


async def test_a_child_sees_only_the_declared_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_SEAL_KEY", "never for children")
    show = "import os, time; print('\\n'.join(sorted(os.environ)), flush=True); time.sleep(60)"
    child = await Child.start("env", StdioCommand(("python3", "-S", "-E", "-c", show), env={"DECLARED": "1"}), 1000)
    seen: list[str] = []
    async with asyncio.timeout(5):
        async for line in child.listen():
            seen.append(bytes(line).decode())  # type: ignore[arg-type]
            if line == b"TOOLCRIB_STDIO_CHILD":
                break
    assert "DECLARED" in seen
    assert "TOOLCRIB_SEAL_KEY" not in seen
    await child.aclose()


async def test_a_command_that_does_not_exist_is_named() -> None:
    pool = UpstreamPool(commands={"x": StdioCommand(("/nonexistent/command",))})
    with pytest.raises(errors.Unreachable) as refused:
        await pool.upstream(UpstreamSpec("tools", "stdio://x")).fetch(NOBODY)
    assert "/nonexistent/command" in (refused.value.hint or "")
    await pool.aclose()


async def test_a_child_without_modern_manners_is_greeted_in_the_old_way_and_only_asked_once(tmp_path) -> None:
    pids = tmp_path / "pids"
    async with open_site(STDIO, [Tool("boom", does="die"), Tool("echo")], pid_file=str(pids)) as site:
        await site.call("echo", Asking(capabilities={"elicitation": {}}))
        assert (await site.upstream.fetch(NOBODY)).era == "legacy"
        assert len(pids.read_text().split()) == 2
