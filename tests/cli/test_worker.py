"""`toolcrib worker`: a process that does the durable runs of other processes."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

from servers.launch import command
from servers.temporal import TemporalServer
from waiting import PATIENCE

STEPS = [{"toolId": "good:shout", "args": {"text": "a"}}, {"toolId": "good:shout", "args": {"text": "b"}}]


def test_a_worker_does_the_runs_of_another_process_and_ends_when_asked(
    temporal: TemporalServer, tmp_path: Path, little: Any, home: Path
) -> None:
    del home  # the key and the runs are there
    file, server = tmp_path / "toolcrib.toml", little()
    file.write_text(
        f'runs = {{ store = "runs.db" }}\n'
        f'engine = {{ temporal = "{temporal.address}", queue = "cli", heartbeat = 60 }}\n'
        f"[servers.good]\ncommand = {json.dumps(server['command'])}\nargs = {json.dumps(server['args'])}\n",
        encoding="utf-8",
    )
    steps = tmp_path / "steps.json"
    steps.write_text(json.dumps(STEPS), encoding="utf-8")

    def run(*args: str) -> Any:
        asked = [*command(), *args, "--config", str(file), "--json"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    worker = subprocess.Popen(
        [*command(), "worker", "--config", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == f"worker for {temporal.address}, queue cli; Ctrl-C stops it\n"
        assert len(run("chain", str(steps), "--durable")["results"]) == 2
        [listed] = run("runs")["runs"]
        assert (listed["kind"], listed["state"], listed["step"]) == ("chain", "done", 2)
        worker.send_signal(signal.SIGTERM)
        _, errors = worker.communicate(timeout=PATIENCE)
    finally:
        worker.kill()
        worker.wait(PATIENCE)
    assert (worker.returncode, errors) == (0, "")


def test_a_worker_says_what_is_missing(toolcrib: Any, tmp_path: Path) -> None:
    file = tmp_path / "toolcrib.toml"
    file.write_text("timeout = 30\n", encoding="utf-8")
    told = toolcrib("worker", "--config", str(file))
    assert told.exit_code == 2
    assert "names no Temporal server" in told.output
    file.write_text('[engine]\ntemporal = "127.0.0.1:1"\n', encoding="utf-8")
    told = toolcrib("worker", "--config", str(file))
    assert told.exit_code == 4
    assert "Temporal at 127.0.0.1:1, is unavailable" in told.output
