"""The verbs about named tokens, and the doors that the tokens open."""

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

from toolcrib.crib import load
from toolcrib.gateway.identity.identities import Identities


def test_a_token_is_shown_once_and_kept_as_a_digest(toolcrib: Any) -> None:
    made = toolcrib("token", "add", "ann", "--group", "staff", "--days", "90", "--json")
    assert made.exit_code == 0, made.stderr
    secret = json.loads(made.stdout)["token"]
    text = Path("toolcrib.toml").read_text()
    kept = tomllib.loads(text)["gateway"]["tokens"]["ann"]
    assert secret not in text
    assert kept["hash"] == f"sha256:{hashlib.sha256(secret.encode()).hexdigest()}"
    assert kept["groups"] == ["staff"]
    (listed,) = json.loads(toolcrib("token", "list", "--json").stdout)["tokens"]
    assert (listed["name"], listed["groups"], "hash" in listed) == ("ann", ["staff"], False)


def test_other_settings_in_the_file_are_unchanged(toolcrib: Any) -> None:
    Path("toolcrib.toml").write_text("# mine\ntimeout = 5\n\n[gateway]\nport = 9000  # high\n")
    assert toolcrib("token", "add", "ann").exit_code == 0
    text = Path("toolcrib.toml").read_text()
    assert "# mine" in text
    assert "port = 9000  # high" in text
    assert toolcrib("token", "revoke", "ann").exit_code == 0
    assert "ann" not in Path("toolcrib.toml").read_text()


def test_revoking_the_last_token_lets_nobody_in(toolcrib: Any) -> None:
    toolcrib("token", "add", "ann")
    assert toolcrib("token", "revoke", "ann").exit_code == 0
    settings = load(Path("toolcrib.toml")).gateway
    assert settings.tokens == {}
    assert Identities.of(settings, None) is not None
    assert Identities.of(load({}).gateway, None) is None
    toolcrib("token", "add", "bob")
    assert list(load(Path("toolcrib.toml")).gateway.tokens or {}) == ["bob"]


def test_revoking_the_last_token_says_that_nobody_can_call_and_how_to_change_it(toolcrib: Any) -> None:
    closed = "nobody can call a gateway of this file over HTTP: a token is required, but none is left"
    remedy = "make one with 'toolcrib token add NAME', or remove [gateway.tokens] to require none"
    for name in ("ann", "bob", "cy"):
        toolcrib("token", "add", name)
    assert "nobody" not in toolcrib("token", "revoke", "ann").stderr
    told = toolcrib("token", "revoke", "bob", "--json")
    assert "closed" not in json.loads(told.stdout)
    last = toolcrib("token", "revoke", "cy")
    assert closed in last.stderr
    assert remedy in last.stderr
    listed = toolcrib("token", "list")
    assert closed in listed.stderr
    assert "the last one was revoked" in json.loads(toolcrib("token", "list", "--json").stdout)["closed"]
    toolcrib("token", "add", "dee")
    assert "nobody" not in toolcrib("token", "list").stderr
    assert (
        "the last one was revoked"
        in json.loads(toolcrib("token", "revoke", "dee", "--json").stdout)["closed"]
    )


def test_a_list_of_expired_tokens_says_that_nobody_can_call(toolcrib: Any) -> None:
    old = 'expires = "2020-01-01T00:00:00Z"\n'
    Path("toolcrib.toml").write_text(f'[gateway.tokens.ann]\nhash = "sha256:{"0" * 64}"\n{old}')
    assert "all of them have expired" in toolcrib("token", "list").stderr
    toolcrib("token", "add", "bob")
    assert "nobody" not in toolcrib("token", "list").stderr
    assert "all of them have expired" in toolcrib("token", "revoke", "bob").stderr


def test_revoking_the_last_token_says_nothing_where_others_can_call(toolcrib: Any) -> None:
    Path("toolcrib.toml").write_text('[gateway]\nhost = "0.0.0.0"\ntoken = "${T}"\n')
    toolcrib("token", "add", "ann")
    assert "nobody" not in toolcrib("token", "revoke", "ann").stderr
    text = Path("toolcrib.toml").read_text()
    Path("toolcrib.toml").write_text(text.replace('token = "${T}"\n', ""))
    told = toolcrib("token", "list").stderr
    assert "make one with 'toolcrib token add NAME'\n" in told  # without a table it would not start there


def test_a_list_without_tokens_says_how_to_make_one(toolcrib: Any) -> None:
    assert "toolcrib token add NAME" in toolcrib("token", "list").stderr


def test_a_name_is_given_once_unless_it_is_forced(toolcrib: Any) -> None:
    first = toolcrib("token", "add", "ann").stdout
    made = toolcrib("token", "add", "ann")
    assert (made.exit_code, "--force replaces it" in made.stderr) == (2, True)
    assert toolcrib("token", "add", "ann", "--force").stdout != first


def test_a_token_that_is_not_there_cannot_be_taken_back(toolcrib: Any) -> None:
    toolcrib("token", "add", "ann")
    made = toolcrib("token", "revoke", "anne")
    assert (made.exit_code, "did you mean 'ann'?" in made.stderr) == (3, True)


def test_a_file_for_servers_alone_has_no_tokens(toolcrib: Any, config: Any) -> None:
    made = toolcrib("token", "add", "ann", "--config", config())
    assert (made.exit_code, "toolcrib.toml" in made.stderr) == (2, True)
