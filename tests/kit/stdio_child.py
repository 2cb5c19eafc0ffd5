"""The child process of `stdio_twin`: the script spoken over stdin and stdout. Run as a file, without site packages."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import Any

from script import MODERN, Behaviour, Call, Fault, Script


class Twin:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.declared: dict[str, Any] = {}
        self.asks: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.handlers: dict[Any, asyncio.Task[None]] = {}

    async def run(self) -> None:
        behaviour = self.script.behaviour
        self.script.changed.append(self.announce)
        reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            if behaviour.noise:
                print("this is not the protocol", flush=True)
            self.take(json.loads(line))
        if behaviour.ignore_sigterm:
            await asyncio.Event().wait()

    def announce(self, notification: dict[str, Any]) -> None:
        write(notification)

    def take(self, message: dict[str, Any]) -> None:
        number, method = message.get("id"), message.get("method")
        if method is None:
            future = self.asks.pop(str(number), None)
            if future is not None:
                future.set_result(message.get("result") or {"refused": message["error"]["code"]})
        elif method == "notifications/cancelled":
            self.script.cancelled.append(message["params"]["requestId"])
            task = self.handlers.get(message["params"]["requestId"])
            if task is not None:
                task.cancel()
        elif number is not None:
            self.handlers[number] = task = asyncio.ensure_future(self.handle(message))
            task.add_done_callback(lambda _: self.handlers.pop(number, None))

    async def handle(self, message: dict[str, Any]) -> None:
        number, meta = message["id"], (message.get("params") or {}).get("_meta") or {}
        era = "modern" if "io.modelcontextprotocol/protocolVersion" in meta else "legacy"
        if era == "modern" and self.script.behaviour.dies_when_probed:
            os._exit(5)
        if era not in self.script.behaviour.eras:
            code, data = (-32601, {}) if era == "modern" else (-32022, {"supported": [MODERN]})
            return write({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": "no", "data": data}})
        if message["method"] == "subscriptions/listen":
            ack = {"notifications": message["params"]["notifications"]}
            return write({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": ack})
        if message["method"] == "initialize":
            self.declared = message["params"]["capabilities"]
        call = Call(era, message, {}, self.say, self.ask if era == "legacy" else None, self.declared)
        try:
            return write(await self.script.answer(call))
        except Fault as fault:
            return misbehave(fault)

    async def say(self, message: dict[str, Any]) -> None:
        write(message)

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        name = f"ask-{len(self.asks)}-{os.urandom(4).hex()}"
        self.asks[name] = future = asyncio.get_running_loop().create_future()
        write({"jsonrpc": "2.0", "id": name, "method": method, "params": params})
        return await future


def write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def misbehave(fault: Fault) -> None:
    if fault.kind == "garbage":
        sys.stdout.write("{nonsense\n")
    elif fault.kind == "wrong_id":
        write({"jsonrpc": "2.0", "id": 987654, "result": {"content": []}})
    else:
        sys.stdout.write('{"jsonrpc": "2.0", "id": 1, "result"'[: int(fault.amount)])
        sys.stdout.flush()
        os._exit(3)
    sys.stdout.flush()


def prepare(behaviour: Behaviour) -> None:
    if behaviour.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pids = [os.getpid()]
    if behaviour.fork:
        command = ["sleep", "600"]
        pids.append(subprocess.Popen(command, start_new_session=behaviour.fork == "session").pid)
    if behaviour.pid_file:
        with open(behaviour.pid_file, "a") as file:
            file.write("".join(f"{pid}\n" for pid in pids))
    if behaviour.crash_at_start:
        os._exit(4)
    for _ in range(behaviour.stderr_bytes // 65536):
        sys.stderr.write("e" * 65535 + "\n")


if __name__ == "__main__":
    told = Behaviour.from_json(sys.argv[1])
    prepare(told.behaviour)
    asyncio.run(Twin(told).run())
