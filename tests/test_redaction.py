"""Redacted errors: no paths on this machine but those that the caller named, and no secrets."""

import base64
import html
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import Problem, ValidationError
from toolcrib.redaction import KnownSecrets, error_text, hide_secrets, scrub


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot open /home/anna/notes.txt", "cannot open <path>"),
        ("'/etc/ssl/key.pem': denied", "'<path>': denied"),
        ("in ~/notes/x.py.", "in <path>"),
        ("in ~anna/x", "in <path>"),
        (r"at C:\Users\anna\x.txt now", "at <path> now"),
        (r"on \\server\share\x", "on <path>"),
        (r"on \\?\C:\Users\anna\x", "on <path>"),
        ("at C:/Users/anna/key", "at <path>"),
        ("error:/home/anna/.ssh/id", "error:<path>"),
        ("path:/etc/passwd", "path:<path>"),
        ("file:///home/anna/x", "file:<path>"),
        ("file://host/share/x", "file:<path>"),
        ("sqlite:////home/anna/x.db", "sqlite:<path>"),
        ("PYTHONPATH=/usr/lib:/home/anna/p", "PYTHONPATH=<path>:<path>"),
        ("in /root", "in <path>"),
        ("in /root.", "in <path>"),
        ("/home//anna/secret", "<path>"),
        ("//home/anna/x", "<path>"),
        ("-/home/anna/x", "-<path>"),
        ("gcc -I/home/anna/include", "gcc -I<path>"),
        ("../../home/anna/x", "..<path>"),
        (r"b'failed\n/home/anna/x'", r"b'failed\n<path>'"),
        ("/home/anna/[x]/secret.txt", "<path>"),
        ("/home/anna/*/secret.txt", "<path>"),
        ("[/home/anna/x] (see /home/anna/y).", "[<path>] (see <path>)."),
        ("'/home/anna/My Notes/the plan.txt' is gone", "'<path>' is gone"),
        ('boom\n  File "/srv/app/x.py", line 3, in run', "boom"),
    ],
)
def test_paths_are_left_out(text: str, shown: str) -> None:
    assert scrub(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "see https://example.org/a/b/c, http://x.org/home/anna or HTTP://x.org/etc/passwd",
        "wss://example.org/a/b ftp://example.org/pub/x s3://bucket/a/b",
        "1/2 and a/b/c and n/a and +/-",
        "~1/2 a cup at 5 km/h",
        "/metrics is not found, nor is /users",
        "text/html; 3/4/2026",
        "application/vnd.api+json, 10 m/s/s",
        "<b>bold</b>",
        "./src/a/b.py, **/*.py/x and src/home/index.html",
        r"bad escape \\d at position 3",
        "nothing",
        "",
    ],
)
def test_text_that_is_no_path_is_unchanged(text: str) -> None:
    assert scrub(text) == text


def test_a_path_that_the_caller_named_stays_and_so_do_those_above_and_below_it() -> None:
    args = {"path": "/data/shop/x.csv", "deep": [{"root": "/srv/files"}]}
    assert scrub("no /data/shop/x.csv in /data/shop, nor /srv/files/a/b, but /home/anna/key", args) == (
        "no /data/shop/x.csv in /data/shop, nor /srv/files/a/b, but <path>"
    )


@pytest.mark.parametrize(
    "named",
    ["/h", "/", "/home", "/home/an", "home/anna", "/home/anna/.ssh/id", "ssh/id_rsa", "\\", "x" * 9],
)
def test_an_argument_lets_through_only_what_it_names_in_whole_segments(named: str) -> None:
    assert scrub("no /home/anna/.ssh/id_rsa", {"path": named}) == "no <path>"


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("/data/shop/x.csv", "read /data/shop/x.csv, please"),
        ("/data/shop/x.csv", "file:///data/shop/x.csv"),
        ("'/data/my shop/x.csv'", "/data/my shop/x.csv"),
        ("/data//shop/", "/data/shop"),
        (r"C:\data\x.csv", r"C:\data"),
        ("C:/data/x.csv", r"C:\data"),
        ("~/notes/x", "~/notes/x"),
    ],
)
def test_however_an_argument_names_a_path_it_may_be_told(said: str, named: str) -> None:
    assert scrub(f"no {said}", [named]) == f"no {said}"


def test_a_path_that_leads_out_of_what_was_named_is_left_out() -> None:
    assert scrub("no /srv/files/../../home/anna/key", ["/srv/files"]) == "no <path>"


def test_many_arguments_are_not_all_looked_at() -> None:
    args = {"paths": [f"/data/{number}" for number in range(100_000)]}
    text = " ".join(f"/home/u{number}" for number in range(400))
    assert set(scrub(text, args).rstrip("…").split()[:-1]) == {"<path>"}


def test_the_places_that_our_own_errors_tell_of_stay() -> None:
    error = ValidationError((Problem("/prices/0", "type", "must be a number, not in /home/anna/x"),))
    assert error_text(error) == "ValidationError: /prices/0: must be a number, not in <path>"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key sk-proj-abc123DEF456ghi789 is no good", "key [secret] is no good"),
        ("ghp_" + "a1B2" * 9, "[secret]"),
        ("github_pat_" + "a1B2" * 9, "[secret]"),
        ("glpat-" + "a1B2" * 5, "[secret]"),
        ("xoxb-123456789012-abcdef", "[secret]"),
        ("AKIAIOSFODNN7EXAMPLE", "[secret]"),
        ("AIza" + "a1B2" * 9, "[secret]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "[secret]"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [secret]"),
        ("{'authorization': 'Basic YW5uYTpzZXNhbQ=='}", "{'authorization': 'Basic [secret]'}"),
        ("sent bearer 0123456789abcdef", "sent bearer [secret]"),
        ("password=hunter2&user=anna", "password=[secret]&user=anna"),
        ('password="it\'s \\"me\\"" set', 'password="[secret]" set'),
        ("DB_PASSWORD='open sesame' set", "DB_PASSWORD='[secret]' set"),
        ('{"api_key": "abc", "n": 1}', '{"api_key": "[secret]", "n": 1}'),
        (r"{\"token\": \"abc def\"}", r"{\"token\": \"[secret]\"}"),
        ("x-api-key: 0123456789abcdef", "x-api-key: [secret]"),
        ("?access_token=abcdef#x&y", "?access_token=[secret]&y"),
        ("AWS_SECRET_ACCESS_KEY=ab/cd+ef/gh", "AWS_SECRET_ACCESS_KEY=[secret]"),
        ("postgres://anna:sesame@db/shop", "postgres://[secret]@db/shop"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY----- end", "[secret] end"),
    ],
)
def test_secrets_are_left_out(text: str, shown: str) -> None:
    assert hide_secrets(text) == shown
    assert scrub(text) == shown
    assert hide_secrets(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "token=${GITHUB_TOKEN}, api_key=${env:KEY} and password=${input:pw}",
        '{"token": "${GITHUB_TOKEN}", "secret": "{env:SECRET}", "auth_key": "Bearer ${KEY}"}',
        "Authorization: Bearer ${TOKEN}",
        "https://${USER}:${PASSWORD}@example.org and https://${env:USER}:${env:PW}@example.org",
        "export GITHUB_TOKEN=..., or GITHUB_TOKEN=<your token> in the environment",
        "no value for the secret: GITHUB_TOKEN; api_key=OPENAI_API_KEY names a variable",
        "unknown key 'token': did you mean 'tokens'?",
        "'api_key': must be a string",
        "the variable 'TOKEN' is not set; set it, or write ${TOKEN:-default}",
        "DEBUG_TOKEN=debug, secret=off, token=localhost:8080, auth_key=http://127.0.0.1:3000/",
        '{"password": true, "token": "localhost", "secret": "info"}',
    ],
)
def test_advice_stays_readable(text: str) -> None:
    assert hide_secrets(text) == text
    assert scrub(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("token=${TOKEN:-s3cr3t99}", "s3cr3t99"),
        ("write ${TOKEN:-s3cr3t99} there", "s3cr3t99"),
        ("password=${X}hunter2", "hunter2"),
        ('"token": "${X} hunter2"', "hunter2"),
        ("https://${USER}:hunter2@example.org", "hunter2"),
        ("https://ann:${PW}x7@example.org", "x7"),
        ("password=debug1", "debug1"),
        ("password=Localhost9", "Localhost9"),
        ("token=localhost.evil.org/s3cret", "s3cret"),
        ("password=sesame opens it", "sesame"),
        ("'password': sesame", "sesame"),
        ("'password': \"sesame\" is wrong", "sesame"),
        ("secret: A_B_C9_X7", "A_B_C9_X7"),
        ("Authorization: Bearer ${X}abc.def-123", "abc.def-123"),
        ("password=<hunter2", "hunter2"),
    ],
)
def test_what_looks_like_advice_hides_no_secret(text: str, secret: str) -> None:
    shown = hide_secrets(text)
    assert secret not in shown
    assert hide_secrets(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "unexpected token 'x', token: expected a name",
        "password: must be at least 8 characters",
        "password=None, token=null, max_token=4096, secret=True",
        "authorization: required, Authorization=None",
        "use Bearer authentication, or a bearer token",
        'WWW-Authenticate: Bearer realm="shop", error="invalid_token"',
        "sk-learn-contrib is not installed, nor is task-0123456789abcdef",
        "the tokens=3 and the secretary=anna",
        "https://example.org:8080/a@b",
        "commit 0123456789abcdef0123456789abcdef01234567",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert hide_secrets(text) == text


@pytest.mark.attack
@pytest.mark.parametrize(
    "piece",
    [
        "/", "/a", " ", "\\", "~", "'/a/b", "'/", 'File "', "://", "a://", "C:/", "((", "))", "a.b+",
        "eyJ", "eyJaaaaaaaa.", "sk-", "password", "password=", "password='", 'token="\\', "Bearer ", "bearer",
        "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "AKIA", "authorization", "authorization: ", "_", "-",
        "x:y@", "://a:", "\n", "token=${", "token=$", "${", "token=<", "token=${a}", "<a",
    ],
)  # fmt: skip
def test_hostile_texts_are_done_with_soon(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    assert len(scrub(text, {"path": text})) <= 2001
    hide_secrets(text)  # where this were not linear, it would take minutes


@given(st.text(alphabet="/\\~ab.:'\"[]( \n=-"))
def test_what_was_scrubbed_once_is_scrubbed(text: str) -> None:
    once = scrub(text)
    assert scrub(once) == once


def test_what_is_long_is_cut() -> None:
    assert len(scrub("x" * 100_000)) == 2001


def test_an_exception_without_words_is_named() -> None:
    assert error_text(ValueError()) == "ValueError"


def test_an_exception_that_cannot_say_what_it_is_is_named() -> None:
    class Mute(Exception):  # noqa: N818 - somebody else's
        def __str__(self) -> str:
            raise KeyError

    assert error_text(Mute()) == "Mute"


@pytest.mark.parametrize(
    "value",
    ["debug", "true", "short", "8080", "${TOKEN}", "password", "Default", "application/json"],
)
def test_known_secrets_leave_trivial_values_alone(value: str) -> None:
    assert not KnownSecrets([value]).has_any


def test_known_secrets_without_values_return_the_same_object() -> None:
    value = {"a": ["b"]}
    assert KnownSecrets().hide_in(value) is value
    assert KnownSecrets(["s3cr3t-word"]).hide_in(value) is value


@given(
    st.text(min_size=6, max_size=40).filter(lambda text: len(text.strip()) >= 6),
    st.binary(max_size=7),
    st.binary(max_size=7),
)
def test_known_secret_is_found_in_each_encoding(secret: str, before: bytes, after: bytes) -> None:
    secrets = KnownSecrets([secret])
    if not secrets:
        return
    secret = secret.strip()
    data = before + secret.encode() + after
    encoded = [base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()]
    encoded += [data.hex(), json.dumps({"a": secret}), json.dumps(json.dumps({"a": secret}))]
    encoded += [json.dumps({"a": secret}, ensure_ascii=False), quote(secret), quote(secret, safe=""), secret]
    for text in encoded:
        assert "[secret]" in secrets.hide(f"{text} and {text}")
        assert "[secret]" in repr(secrets.hide_in({"x": [{"y": text}]}))


def test_known_secrets_are_found_in_keys_numbers_and_parts_of_settings() -> None:
    login = base64.b64encode(b"me:open-sesame9").decode()
    secrets = KnownSecrets(
        [
            "90210777",
            f"Basic {login}",
            "postgres://me:hunter22@db/x?sslkey=Qq-55aa77",
            "sid=c00kie-value; theme=dark",
        ]
    )
    given = {"open-sesame9": [90210777, 1], "b": ["hunter22", "Qq-55aa77", "c00kie-value", "dark", "db"]}
    assert secrets.hide_in(given) == {
        "[secret]": ["[secret]", 1],
        "b": ["[secret]", "[secret]", "[secret]", "dark", "db"],
    }


def test_known_secrets_hide_each_line_of_a_key() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END PRIVATE KEY-----"
    shown = KnownSecrets([key]).hide("at AQEFAASCBKcwggSjAgEAAoIB of -----END PRIVATE KEY-----")
    assert shown == "at [secret] of -----END PRIVATE KEY-----"


def test_known_secrets_forget_old_access_tokens() -> None:
    secrets = KnownSecrets(["s3cr3t-word"])
    for number in range(100):
        secrets.add_token(f"token-{number:04}-x")
    assert secrets.hide("token-0099-x token-0000-x s3cr3t-word") == "[secret] token-0000-x [secret]"


KNOWN = "zK7/p+q9'W=tr-55\"x"

NESTED = {
    "base64 of base64": base64.b64encode(base64.b64encode(KNOWN.encode())).decode(),
    "base64 of JSON": base64.b64encode(json.dumps({"a": KNOWN}).encode()).decode(),
    "base64 of a query": base64.b64encode(quote(KNOWN, safe="").encode()).decode(),
    "base64 of hexadecimal": base64.b64encode(KNOWN.encode().hex().encode()).decode(),
    "base64 of UTF-16": base64.b64encode(KNOWN.encode("utf-16-le")).decode(),
    "base32": base64.b32encode(KNOWN.encode()).decode(),
    "hexadecimal of base64": base64.b64encode(KNOWN.encode()).hex(),
    "hexadecimal of JSON": json.dumps(KNOWN).encode().hex(),
    "hexadecimal with colons": KNOWN.encode().hex(":"),
    "hexadecimal with spaces": KNOWN.encode().hex(" ").upper(),
    "a dump": ", ".join(f"0x{each:02x}" for each in KNOWN.encode()),
    "escapes of bytes": "".join(f"\\x{each:02x}" for each in KNOWN.encode()),
    "escapes of characters": "".join(f"\\u{ord(each):04x}" for each in KNOWN),
    "numbers": str(list(KNOWN.encode())),
    "entities": "".join(f"&#{ord(each)};" for each in KNOWN),
    "hexadecimal entities": "".join(f"&#x{ord(each):x};" for each in KNOWN),
    "a query twice": quote(quote(KNOWN, safe=""), safe=""),
    "a query of JSON": quote(json.dumps({"a": KNOWN}), safe=""),
    "HTML of JSON": html.escape(json.dumps({"a": KNOWN})),
    "JSON three times": json.dumps(json.dumps(json.dumps(KNOWN))),
    "CSV": KNOWN.replace('"', '""'),
}
"""Encodings in encodings, and those of dumps and logs."""


@pytest.mark.parametrize("how", NESTED)
def test_known_secret_is_found_in_encodings_of_encodings(how: str) -> None:
    hidden = KnownSecrets([KNOWN]).hide(f"<{NESTED[how]}>")
    assert "[secret]" in hidden
    assert len(hidden) < len(NESTED[how]) / 2 + 20


def test_texts_of_a_document_that_is_a_secret_are_secrets() -> None:
    document = {
        "type": "service_account",
        "private_key": "abcdefgh12345678",
        "auth": [{"token": "qwertzuiop"}],
    }
    secrets = KnownSecrets([json.dumps(document)])
    assert secrets.hide("abcdefgh12345678 qwertzuiop service_account") == "[secret] [secret] service_account"
