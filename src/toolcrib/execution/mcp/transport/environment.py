"""The variables that a server inherits from our environment, and those it may have missed.

A server gets what says where and how it runs (home, path, language, proxies, certificates), and no secrets
of others: tokens reach a server by its own `env`, or by `inherit`, which names variables of ours.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePath

from toolcrib.execution.mcp.config import ServerConfig

_IS_POSIX = os.name == "posix"
_SYSTEM = (
    ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
    if _IS_POSIX
    else (
        *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
        *("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE"),
    )
)
_LOCALE = ("LANG", "LANGUAGE", "LC_*", "TZ")
_PROXIES = (
    *(f"{kind}_proxy" for kind in ("http", "https", "all", "no", "ftp")),
    *(f"{kind}_PROXY" for kind in ("HTTP", "HTTPS", "ALL", "NO", "FTP")),
    *("NODE_USE_ENV_PROXY", "PIP_PROXY"),
    *("npm_config_proxy", "npm_config_https_proxy", "npm_config_noproxy"),
)
_CERTIFICATES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "PIP_CERT"),
    *("NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "npm_config_cafile", "NPM_CONFIG_CAFILE"),
    *(
        "DENO_CERT",
        "DENO_TLS_CA_STORE",
        "GIT_SSL_CAINFO",
        "GIT_SSL_CAPATH",
        "UV_NATIVE_TLS",
        "UV_SYSTEM_CERTS",
    ),
)
_INHERITED = (*_SYSTEM, *_LOCALE, "XDG_*", *_PROXIES, *_CERTIFICATES)
"""Variables that every server inherits, as patterns of names."""
_NPM = ("npm_config_*", "NPM_CONFIG_*", "NPM_TOKEN")
_NODE = ("NODE_*",)
_UV = ("UV_*",)
_FAMILIES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("npm", "npx", "pnpm", "yarn"), (*_NPM, *_NODE)),
    **dict.fromkeys(("bun", "bunx"), ("BUN_*", *_NPM)),
    "node": _NODE,
    "deno": ("DENO_*",),
    **dict.fromkeys(("uv", "uvx"), _UV),
    **dict.fromkeys(("pip", "pipx"), ("PIP_*", "PIPX_*")),
    **dict.fromkeys(("python", "python3"), ("PYTHONPATH",)),
    **dict.fromkeys(("docker", "podman"), ("DOCKER_*", "CONTAINER_HOST")),
    **dict.fromkeys(("aws", "awslabs", "bedrock", "s3"), ("AWS_*",)),
    **dict.fromkeys(("kubectl", "kubernetes", "k8s", "helm"), ("KUBECONFIG",)),
    **dict.fromkeys(("azure", "az"), ("AZURE_*", "ARM_*")),
    **dict.fromkeys(("gcloud", "gcp", "google"), ("GOOGLE_*", "CLOUDSDK_*", "GCLOUD_*")),
    **dict.fromkeys(("gh", "github"), ("GITHUB_*", "GH_*")),
    "gitlab": ("GITLAB_*",),
    "terraform": ("TF_*",),
}
"""Variables that a program reads, by a word of the command that starts it."""
_OF_A_SHELL = "VIRTUAL_ENV"
"""Set by an activated environment. A Python finds its environment without it, so no server misses it."""
_WORDS = re.compile(r"[A-Za-z0-9]+")
_SHORTEST = 3
"""Names that are shorter are too likely to be ordinary words."""
_SHOWN = 6


def server_environment(
    environ: Mapping[str, str],
    configured: Mapping[str, str],
    inherit: Iterable[str] = (),
    *,
    is_posix: bool = _IS_POSIX,
) -> dict[str, str]:
    """Return the environment of a server: basic variables, inherited ones, and its own.

    >>> server_environment({"PATH": "/bin", "LC_ALL": "C", "AWS_PROFILE": "a"}, {"TOKEN": "t"})
    {'PATH': '/bin', 'LC_ALL': 'C', 'TOKEN': 't'}
    >>> server_environment({"PATH": "/bin", "AWS_PROFILE": "a"}, {}, ["AWS_*"])
    {'PATH': '/bin', 'AWS_PROFILE': 'a'}
    """
    patterns = (*_INHERITED, *inherit)
    inherited = {
        name: value
        for name, value in environ.items()
        if _matches(name, patterns, is_posix=is_posix)
        and not value.startswith("()")  # functions of old shells, unsafe
    }
    if not is_posix:  # there a name has no case, and must not stand twice
        own = {name.upper() for name in configured}
        inherited = {name: value for name, value in inherited.items() if name.upper() not in own}
    return inherited | dict(configured)


def walled_environment(
    environ: Mapping[str, str],
    configured: Mapping[str, str],
    inherit: Iterable[str] = (),
    *,
    home: str,
    network: bool,
) -> dict[str, str]:
    """Return the environment of a server behind a wall: less, with a home and a `/tmp` of its own.

    Folders of the user are not there, and proxies only where it shares the `network` of this machine.

    >>> walled_environment({"PATH": "/bin", "HOME": "/root"}, {"TOKEN": "t"}, home="/h", network=False)
    {'PATH': '/bin', 'HOME': '/h', 'TMPDIR': '/tmp', 'TOKEN': 't'}
    """
    patterns = ("LOGNAME", "PATH", "TERM", "USER", *_LOCALE, *_CERTIFICATES, *(_PROXIES if network else ()))
    inherited = {
        name: value
        for name, value in environ.items()
        if _matches(name, (*patterns, *inherit), is_posix=True) and not value.startswith("()")
    }
    own = {"HOME": home, "TMPDIR": "/tmp"}  # noqa: S108 - its own
    return {"PATH": os.defpath} | inherited | own | dict(configured)


def certificate_files(environment: Mapping[str, str]) -> list[str]:
    """Return the files and folders of certificates that an environment names."""
    return [
        value
        for name, value in environment.items()
        if name in _CERTIFICATES and os.path.isabs(value)  # noqa: PTH117 - others are switches
    ]


def _matches(name: str, patterns: Iterable[str], *, is_posix: bool) -> bool:
    if is_posix:
        return any(fnmatchcase(name, pattern) for pattern in patterns)
    return any(fnmatchcase(name.upper(), pattern.upper()) for pattern in patterns)


def describe_withheld(
    environ: Mapping[str, str], config: ServerConfig, stderr: str, *, is_posix: bool = _IS_POSIX
) -> str:
    """Return which variables a server that died may have missed, and how to give them; never a value.

    These are set here and were not given to it, and its standard error names them, or a program like it
    reads them. It is empty where there are none.

    >>> describe_withheld({"KUBECONFIG": "k", "PAGER": "p"}, ServerConfig(command="kubectl"), "")
    'it may need KUBECONFIG, which is set here but not passed on; add inherit = ["KUBECONFIG"]'
    """
    given = server_environment(environ, config.env, config.inherit, is_posix=is_posix)
    withheld = sorted(environ.keys() - given.keys() - {_OF_A_SHELL})
    mentioned = set(re.findall(r"\w+", stderr))
    named = [name for name in withheld if len(name) >= _SHORTEST and name in mentioned]
    families = _families(config)
    kin = {
        name: pattern
        for name in withheld
        for pattern in families
        if name not in named and _matches(name, (pattern,), is_posix=is_posix)
    }
    found = [*named, *kin]
    if not found:
        return ""
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    verb = "is" if len(found) == 1 else "are"
    wanted = json.dumps(list(dict.fromkeys((*named, *kin.values()))))
    shown = f"{', '.join(found[:_SHOWN])}{more}"
    return f"it may need {shown}, which {verb} set here but not passed on; add inherit = {wanted}"


def _families(config: ServerConfig) -> tuple[str, ...]:
    """Return the patterns of the variables that the programs in a command read."""
    words = {
        word.lower()
        for text in (PurePath(config.command or "").name, *config.args)
        for word in _WORDS.findall(text)
    }
    return tuple(dict.fromkeys(each for word in sorted(words & _FAMILIES.keys()) for each in _FAMILIES[word]))
