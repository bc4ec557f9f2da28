"""The HTTP embedder, against a real server in all its moods."""

import gzip
import json
import pickle
import subprocess
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from contracts.embedder import TEXTS, EmbedderContract, embed
from discovery.search.semantic.server import (
    WIDTH,
    Book,
    drips,
    echoes,
    gives,
    hangs,
    hangs_up,
    says,
    serving,
    vector,
    vectors,
)
from servers.launch import closed_port

from toolcrib.discovery import HttpEmbedder, LocalEmbedder
from toolcrib.errors import EmbeddingError

KEY = "sk-very-secret"


@pytest.fixture(scope="module")
def _server() -> Iterator[Book]:
    with serving() as book:
        yield book


@pytest.fixture
def server(_server: Book) -> Book:
    _server.script.clear()
    _server.requests.clear()
    return _server


def make(server: Book, **options: Any) -> HttpEmbedder:
    return HttpEmbedder(server.url, **{"model": "letters", "backoff": 0.001, "timeout": 10.0, **options})


def unit(text: str) -> Any:
    row = np.array(vector(text))
    return row / np.linalg.norm(row)


class TestContract(EmbedderContract):
    @pytest.fixture
    def embedder(self, server: Book) -> HttpEmbedder:
        return make(server, batch=2)


def test_request_has_the_form_of_openai(server: Book) -> None:
    embed(make(server, api_key=KEY, dimensions=3), ["abc", "cab"])
    [(path, headers, request)] = server.requests
    assert path == "/v1/embeddings"
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert headers["Content-Type"] == "application/json"
    assert request == {"model": "letters", "input": ["abc", "cab"], "dimensions": 3}


def test_without_a_key_or_dimensions_neither_is_sent(server: Book) -> None:
    embed(make(server), ["abc"])
    [(_, headers, request)] = server.requests
    assert "Authorization" not in headers
    assert request == {"model": "letters", "input": ["abc"]}


@pytest.mark.parametrize(("suffix", "path"), [("/", "/v1/embeddings"), ("?v=2", "/v1/embeddings?v=2")])
def test_the_path_is_added_to_any_form_of_address(server: Book, suffix: str, path: str) -> None:
    embed(HttpEmbedder(server.url + suffix, model="m"), ["abc"])
    assert server.requests[0][0] == path


def test_rows_are_ordered_by_their_index(server: Book) -> None:
    np.testing.assert_allclose(embed(make(server), TEXTS), [unit(text) for text in TEXTS], atol=1e-6)


def test_rows_without_an_index_are_taken_in_order(server: Book) -> None:
    data = json.dumps({"data": [{"embedding": [1, 0]}, {"embedding": [0, 2]}]})
    server.will(says(200, data))
    np.testing.assert_allclose(embed(make(server), ["a", "b"]), [[1, 0], [0, 1]])


def test_many_texts_go_in_batches_and_blank_ones_stay_here(server: Book) -> None:
    texts = ["a", "", "b", "c", "  ", "d", "e"]
    rows = embed(make(server, batch=2), texts)
    assert [request["input"] for _, _, request in server.requests] == [["a", "b"], ["c", "d"], ["e"]]
    expected = [unit(text) if text.strip() else np.zeros(WIDTH) for text in texts]
    np.testing.assert_allclose(rows, expected, atol=1e-6)


def test_long_texts_are_cut(server: Book) -> None:
    embed(make(server, max_characters=5), ["abcdefgh"])
    assert server.requests[0][2]["input"] == ["abcde"]


def test_the_dimensions_are_known_once_they_were_said_or_seen(server: Book) -> None:
    assert make(server, dimensions=3).dimensions == 3
    embedder = make(server)
    assert embedder.dimensions is None
    assert embed(embedder, []).shape == (0, 0)
    assert server.requests == []
    assert embed(embedder, ["", " "]).shape == (2, WIDTH)
    assert embedder.dimensions == WIDTH


def test_http_embedder_is_not_a_local_embedder(server: Book) -> None:
    assert not isinstance(make(server), LocalEmbedder)


@pytest.mark.parametrize(
    "setback",
    [
        says(500, "oops"),
        says(503),
        says(429, "slow down", Retry_After="0"),
        says(429, "slow down", Retry_After="0.01"),
        says(429, "slow down", Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"),
        says(429, "slow down", Retry_After="Wed, 21 Oct 2015 07:28:00"),
        says(429, "slow down", Retry_After="-5"),
        says(429, "slow down", Retry_After="nan"),
        says(429, "slow down", Retry_After="soon"),
        says(408),
        hangs_up,
    ],
    ids=["500", "503", "0 s", "10 ms", "past", "no zone", "negative", "nan", "soon", "408", "hangs up"],
)
def test_temporary_failure_is_retried(server: Book, setback: Any) -> None:
    server.will(setback, setback)
    np.testing.assert_allclose(embed(make(server), ["abc"]), [unit("abc")], atol=1e-6)
    assert len(server.requests) == 3


def test_the_pause_is_as_long_as_the_server_asks(server: Book) -> None:
    server.will(says(429, Retry_After="0.2"))

    async def main() -> float:
        start = anyio.current_time()
        await make(server, backoff=0).embed(["abc"])
        return anyio.current_time() - start

    assert anyio.run(main) >= 0.2


def test_retries_are_limited(server: Book) -> None:
    server.will(*[says(500, "oops")] * 3)
    with pytest.raises(EmbeddingError, match="HTTP 500: oops") as caught:
        embed(make(server, retries=2), ["abc"])
    assert caught.value.status == 500
    assert len(server.requests) == 3
    server.will(says(502))
    with pytest.raises(EmbeddingError, match="HTTP 502: no reason given"):
        embed(make(server, retries=0), ["abc"])
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "wait",
    ["3600", format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)],
    ids=["seconds", "date"],
)
def test_retry_after_beyond_the_deadline_is_not_waited_for(server: Book, wait: str) -> None:
    server.will(says(429, "come back later", Retry_After=wait))
    with pytest.raises(EmbeddingError, match="HTTP 429: come back later") as caught:
        embed(make(server), ["abc"])
    assert caught.value.status == 429
    assert len(server.requests) == 1


@pytest.mark.parametrize("mood", [hangs, drips])
def test_a_server_that_does_not_finish_is_left(server: Book, mood: Any) -> None:
    server.will(mood)
    with pytest.raises(EmbeddingError, match=r"it did not answer within 0\.2 s"):
        embed(make(server, timeout=0.2), ["abc"])


def test_the_deadline_is_for_all_attempts_together(server: Book) -> None:
    server.will(*[says(500)] * 50)
    with pytest.raises(EmbeddingError, match="HTTP 500"):
        embed(make(server, retries=50, backoff=0.05, timeout=0.5), ["abc"])
    assert 1 < len(server.requests) < 10


def test_a_caller_may_give_up_first(server: Book) -> None:
    server.will(hangs)

    async def main() -> bool:
        with anyio.move_on_after(0.1) as scope:
            await make(server).embed(["abc"])
        return scope.cancelled_caught

    assert anyio.run(main)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (gives([1.0]), "it gave 1 vectors for 2 texts"),
        (gives([1.0], [2.0], [3.0]), "it gave 3 vectors for 2 texts"),
        (gives([1.0], [2.0, 3.0]), "its vectors are not rows of numbers of one length, each with an index"),
        (gives([[1.0]], [[2.0]]), r"it gave an array of shape \(2, 1, 1\) for 2 texts"),
        (gives(1.0, 2.0), r"it gave an array of shape \(2,\) for 2 texts"),
        (gives([], []), r"it gave an array of shape \(2, 0\) for 2 texts"),
        (gives("AACAPw==", "AACAPw=="), "its vectors are not rows of numbers"),
        (gives(None, None), "not rows of numbers|not finite|shape"),
        (gives({"a": 1}, [1.0]), "its vectors are not rows of numbers"),
        (gives([1.0], [10**400]), "its vectors are not rows of numbers"),
        (gives([1.0], [float("nan")]), "its vectors have numbers that are not finite"),
        (gives([1.0], [float("inf")]), "its vectors have numbers that are not finite"),
        (gives([1.0], [2.0], index=0), "its vectors are not numbered from 0 to 1"),
        (gives([1.0], [2.0], index=None), "its vectors are not rows of numbers"),
        (says(200, '{"data": [1, 2]}'), "its vectors are not rows of numbers"),
        (says(200, '{"data": [{}, {}]}'), "its vectors are not rows of numbers"),
        (says(200, '{"data": 5}'), "its answer has no list 'data'"),
        (says(200, '{"embeddings": []}'), "its answer has no list 'data'"),
        (says(200, "[]"), "its answer has no list 'data'"),
        (says(200, "<html>"), "it did not answer with JSON; is the url"),
        (says(200, ""), "it did not answer with JSON"),
        (says(200, b"\xff\xfe\xff"), "it did not answer with JSON"),
        (says(200, "[" * 200_000), "it did not answer with JSON"),
        (says(200, b"no gzip", Content_Encoding="gzip"), "it cannot be asked"),
        (
            says(200, gzip.compress(bytes(70 * 2**20), 1), Content_Encoding="gzip"),
            "its answer is longer than",
        ),
        (says(404, '{"error": {"message": "no model m"}}'), "HTTP 404: no model m"),
        (says(404, '{"error": "no model m"}'), "HTTP 404: no model m"),
        (says(422, '{"detail": [{"msg": "too long"}]}'), "HTTP 422: .*too long"),
        (says(400, "x" * 5_000), f"HTTP 400: {'x' * 300}…$"),
        (says(403), "HTTP 403: no reason given; check the API key"),
        (says(302, Location="http://127.0.0.1:1/"), "HTTP 302"),
    ],
)
def test_malformed_answer_is_an_error_without_retry(server: Book, answer: Any, text: str) -> None:
    server.will(answer)
    with pytest.raises(EmbeddingError, match=text) as caught:
        embed(make(server), ["a", "b"])
    assert caught.value.model == f"'letters' at {server.url}"
    assert len(server.requests) == 1


def test_vectors_of_another_length_than_before_are_refused(server: Book) -> None:
    embedder = make(server)
    server.will(gives([1.0, 2.0]), gives([1.0, 2.0, 3.0]))
    embed(embedder, ["a"])
    with pytest.raises(EmbeddingError, match="it gave vectors of 3 dimensions, not 2"):
        embed(embedder, ["a"])
    server.will(gives([1.0, 2.0]))
    with pytest.raises(EmbeddingError, match="it gave vectors of 2 dimensions, not 5"):
        embed(make(server, dimensions=5), ["a"])


def test_a_server_that_is_not_there_is_told() -> None:
    with closed_port() as port, pytest.raises(EmbeddingError, match="it cannot be reached: ") as caught:
        embed(HttpEmbedder(f"http://127.0.0.1:{port}/v1", model="m", backoff=0), ["a"])
    assert caught.value.__cause__ is not None
    assert caught.value.status is None


def test_an_address_that_httpx_does_not_read_is_told() -> None:
    with pytest.raises(EmbeddingError, match="it cannot be asked: "):
        embed(HttpEmbedder("http://exa mple\x01.com", model="m"), ["a"])


def test_the_key_is_never_shown(server: Book) -> None:
    embedder = make(server, api_key=KEY)
    server.will(echoes)
    with pytest.raises(
        EmbeddingError, match=r"HTTP 401: bad header Bearer \*\*\*; check the API key"
    ) as caught:
        embed(embedder, ["a"])
    told = "".join(traceback.format_exception(caught.value))
    shown = f"{told}{caught.value!r}{vars(caught.value)}{embedder!r}{embedder.key}"
    assert KEY not in shown
    assert KEY.encode() not in pickle.dumps(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        says(200, f"<html>{KEY}</html>"),
        says(400, "x" * 295 + KEY),
        says(400, json.dumps({"error": "x" * 290 + KEY})),
        says(302, KEY, Location=f"http://{KEY}/"),
        gives(KEY),
    ],
    ids=["page", "at the cut", "at the cut of JSON", "redirection", "vector"],
)
def test_the_key_is_not_shown_even_in_part_where_the_server_repeats_it(server: Book, answer: Any) -> None:
    server.will(answer)
    with pytest.raises(EmbeddingError) as caught:
        embed(make(server, api_key=KEY), ["a"])
    error: BaseException | None = caught.value
    assert "sk-" not in str(error)
    while error is not None:
        assert KEY not in f"{error}{error!r}"
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("key", ["a\nb", "schlüssel", " ", "", "a\x00"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(key: str) -> None:
    with pytest.raises(EmbeddingError, match="the API key must be printable ASCII") as caught:
        HttpEmbedder("http://localhost", model="m", api_key=key)
    assert not key.strip() or key not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:80",
        "ftp://localhost",
        "http://",
        "http://[",
        "http://a:99999",
        "http://a:x",
        "http:///v1",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(EmbeddingError, match="its url must be one of http or https"):
        HttpEmbedder(url, model="m")


def test_a_password_in_the_address_is_refused_unseen() -> None:
    with pytest.raises(EmbeddingError, match="give the key as api_key instead") as caught:
        HttpEmbedder("https://me:secret@localhost/v1", model="m")
    assert "secret" not in repr(caught.value)


def test_query_of_the_url_is_sent_and_not_shown(server: Book) -> None:
    embedder = HttpEmbedder(f"{server.url}?token=secret", model="m")
    server.will(says(400, "no"))
    with pytest.raises(EmbeddingError) as caught:
        embed(embedder, ["a"])
    assert server.requests[0][0].endswith("?token=secret")
    assert "secret" not in f"{caught.value!r}{caught.value}{embedder!r}"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch": 0}, "batch must be at least 1, not 0"),
        ({"dimensions": 0}, "dimensions must be at least 1, not 0"),
        ({"max_characters": 0}, "max_characters must be at least 1"),
        ({"retries": -1}, "retries must be at least 0, not -1"),
        ({"timeout": 0}, "timeout and backoff must be seconds"),
        ({"timeout": float("nan")}, "timeout and backoff must be seconds"),
        ({"backoff": -1}, "timeout and backoff must be seconds"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(options: Any, text: str) -> None:
    with pytest.raises(EmbeddingError, match=text):
        HttpEmbedder("http://localhost", model="m", **options)


def test_the_cache_key_names_address_model_and_settings() -> None:
    def key(url: str = "http://localhost/v1", model: str = "m", **options: Any) -> str:
        return HttpEmbedder(url, model=model, **options).key

    assert key() == key("http://localhost/v1/") == key(batch=3, timeout=1, retries=0, api_key=KEY)
    assert len({key(), key("http://other/v1"), key(model="n"), key(dimensions=3), key(max_characters=9)}) == 5
    assert key().startswith("http-")


def test_repr_has_model_and_address() -> None:
    embedder = HttpEmbedder("http://localhost/v1", model="m", api_key=KEY)
    assert repr(embedder) == "<HttpEmbedder 'm' at http://localhost/v1>"


def test_a_good_answer_after_all_is_the_same(server: Book) -> None:
    server.will(vectors)
    np.testing.assert_array_equal(embed(make(server), TEXTS), embed(make(server), TEXTS))


@pytest.mark.proof
def test_without_its_extra_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "from toolcrib.discovery.search.semantic import HttpEmbedder\n"
        "from toolcrib.errors import MissingExtraError\n"
        "try: HttpEmbedder('http://localhost', model='m')\n"
        "except MissingExtraError as error: print(error)"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True, cwd=tmp_path)
    assert said == "an embedding server needs the 'semantic' extra: pip install 'toolcrib[semantic]'\n"
