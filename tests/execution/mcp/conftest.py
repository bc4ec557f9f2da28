import shutil
import subprocess
from pathlib import Path

import pytest
from needs import lack


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a self-signed certificate."""
    if shutil.which("openssl") is None:
        lack("openssl")
    folder = tmp_path_factory.mktemp("tls")
    files = ["-keyout", folder / "key.pem", "-out", folder / "cert.pem"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        *files,
        *name,
    ]
    subprocess.run(command, check=True, capture_output=True)
    return folder
