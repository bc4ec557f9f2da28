"""Search by words."""

from itertools import pairwise
from math import log
from threading import Thread

import pytest
from discovery.search.text.support import Analysis, analyse, seconds
from discovery.support import DictCache, Entry, make
from hypothesis import given
from hypothesis import strategies as st
from laws import law

from toolcrib.discovery import Bm25Searcher
from toolcrib.discovery.search.text import clauses, question_terms, words

WORDS = [
    "create",
    "issues",
    "weather",
    "forecasting",
    "the",
    "available",
    "天气",
    "userIDs",
    "größe",
    "photo",
    "image",
]

sentences = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
entries = st.builds(
    make,
    st.sampled_from([f"tool_{letter}" for letter in "abcdefgh"]),
    sentences,
    title=sentences,
    input_schema=st.dictionaries(
        st.sampled_from(WORDS), sentences.map(lambda text: {"description": text})
    ).map(lambda properties: {"properties": properties}),
    examples=st.lists(sentences, max_size=2),
)
catalogues = st.lists(entries, max_size=8, unique_by=lambda entry: entry.id)


def filled(*catalogue: Entry) -> Bm25Searcher:
    searcher = Bm25Searcher()
    searcher.update(catalogue)
    return searcher


def found(searcher: Bm25Searcher, query: str, limit: int = 5) -> list[str]:
    return [hit.id for hit in searcher.search(query, limit=limit)]


# The scores, worked out tool by tool as textbooks do


def question_weights(text: str) -> dict[str, float]:
    """Return the weighted terms of a correctly spelt question."""
    terms: dict[str, float] = {}
    for word in words(text):
        for term, weight in question_terms(word):
            terms[term] = max(weight, terms.get(term, 0))
    return terms


def score(documents: list[Analysis], document: Analysis, terms: dict[str, float]) -> float:
    total = 0.0
    for term, weight in terms.items():
        having = sum(term in other.terms for other in documents)
        rarity = log(1 + (max(len(documents), 300) - having + 0.5) / (having + 0.5))
        count = document.terms.get(term, 0.0)
        norm = 1.2 * (0.5 + 0.5 * document.length / 15)
        total += weight * rarity * count * 2.2 / (count + norm)
    return total


def textbook(catalogue: list[Entry], question: str) -> dict[str, float]:
    """Return the score of each tool: half by the whole question, half by its best clause, if it has several."""
    documents = [analyse(entry.tool, entry.examples) for entry in catalogue]
    parts = [question_weights(part) for part in clauses(question)]
    whole = {term: max(part.get(term, 0) for part in parts) for part in parts for term in part}
    known = {term for document in documents for term in document.terms}
    telling = [part for part in parts if sum(term in known and term[0] not in "~=" for term in part) >= 2]
    scores = {}
    for entry, document in zip(catalogue, documents, strict=True):
        scores[entry.id] = score(documents, document, whole)
        if len(telling) > 1:
            best = max(score(documents, document, part) for part in telling)
            scores[entry.id] = (scores[entry.id] + best) / 2
    return {tool_id: value for tool_id, value in scores.items() if value > 0}


@law(12)
@given(catalogues, st.lists(sentences, min_size=1, max_size=3).map(", ".join))
def test_the_scores_are_those_of_the_textbook(catalogue: list[Entry], question: str) -> None:
    expected = textbook(catalogue, question)
    hits = filled(*catalogue).search(question, limit=20)
    assert {hit.id: hit.score for hit in hits} == pytest.approx(expected, rel=1e-4)
    assert hits.total == len(expected)
    for better, worse in pairwise(hits):
        assert expected[better.id] >= expected[worse.id] * (1 - 1e-4)


def test_a_large_catalogue_makes_common_words_tell_less() -> None:
    many = [make(f"tool_{number}", "weather") for number in range(400)]
    [rare, *_] = filled(*many, make("rain", "rain")).search("rain", limit=1)
    [common, *_] = filled(*many, make("rain", "rain")).search("weather", limit=1)
    assert rare.score > 10 * common.score
    assert rare.confidence > common.confidence


# What is found


SHOP = [
    make("create_issue", "Open a ticket in a repository.", namespace="github"),
    make("listUserIDs", "Everybody who may log in."),
    make(
        "fetchURL", "Read a page.", input_schema={"properties": {"timeout_ms": {"description": "Patience"}}}
    ),
    make(
        "convert", "Change units.", input_schema={"properties": {"unit": {"enum": ["celsius", "furlongs"]}}}
    ),
    make("lunch", "Order.", examples=["I am starving", "where can I eat tonight?"]),
    make("cafe", "Où boire un café crème à Orléans"),
    make("tagged", "Something.", tags=["geology"], meta={"category": "minerals", "aliases": ["rock_hound"]}),
    make("titled", "Something.", title="Aquarium keeper"),
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("create issue", "github:create_issue"),
        ("createIssue", "github:create_issue"),
        ("create_issue", "github:create_issue"),
        ("createissue", "github:create_issue"),
        ("CREATE-ISSUE", "github:create_issue"),
        ("creating issues", "github:create_issue"),
        ("github", "github:create_issue"),
        ("tickets in repositories", "github:create_issue"),
        ("user ids", "listUserIDs"),
        ("userids of each user", "listUserIDs"),
        ("urls", "fetchURL"),
        ("timeout", "fetchURL"),
        ("timeoutMs", "fetchURL"),
        ("patience", "fetchURL"),
        ("furlong", "convert"),
        ("i'm starving!", "lunch"),
        ("eat", "lunch"),
        ("cafe creme", "cafe"),
        ("CAFÉ CRÈME", "cafe"),
        ("cafe\u0301 a Orleans", "cafe"),
        ("geological", "tagged"),
        ("mineral", "tagged"),
        ("rock hound", "tagged"),
        ("rockhound", "tagged"),
        ("aquariums", "titled"),
    ],
)
def test_every_field_is_searched(query: str, expected: str) -> None:
    assert found(filled(*SHOP), query)[:1] == [expected]


LANGUAGES = [
    make("zh_weather", "查询天气预报和气温"),
    make("zh_mail", "发送电子邮件给联系人"),
    make("ja_train", "電車の時刻表を調べます。コーヒーも注文できます。"),
    make("ko_flight", "항공편을 예약합니다"),
    make("th_gold", "ตรวจสอบราคาทองคำวันนี้"),
    make("hi_weather", "आज का मौसम बताता है।"),
    make("ar_news", "يعرض آخِر الأخبار العالميّة"),
    make("he_map", "מציג מפה של העיר"),
    make("ru_translate", "Переводит тексты на другие языки"),
    make("el_music", "Βρίσκει μουσική και τραγούδια"),
    make("vi_food", "Đặt món ăn từ nhà hàng"),
    make("de_street", "Sucht eine Straße nach ihrer Größe"),
    make("pl_city", "Pogoda w Łodzi"),
    make("bn_sport", "খেলার ফলাফল দেখায়।"),
    make("ta_time", "நேரம் காட்டும்"),
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("明天天气怎么样？", "zh_weather"),
        ("帮我发一封邮件", "zh_mail"),
        ("電車は何時ですか", "ja_train"),
        ("ｺｰﾋｰ", "ja_train"),
        ("항공편 예약해 줘", "ko_flight"),
        ("ราคาทอง", "th_gold"),
        ("मौसम कैसा है", "hi_weather"),
        ("मौसम बताता है", "hi_weather"),
        ("اخر الاخبار", "ar_news"),
        ("الأخبار", "ar_news"),
        ("מַפָּה", "he_map"),
        ("тексты и ЯЗЫКИ", "ru_translate"),
        ("ΜΟΥΣΙΚΉ", "el_music"),
        ("dat mon an", "vi_food"),
        ("strasse", "de_street"),
        ("GRÖSSE", "de_street"),
        ("pogoda lodzi", "pl_city"),
        ("খেলার", "bn_sport"),
        ("நேரம்", "ta_time"),
    ],
)
def test_every_language_is_searched(query: str, expected: str) -> None:
    assert found(filled(*LANGUAGES), query)[:1] == [expected]


def test_a_word_of_the_same_meaning_finds_a_tool() -> None:
    searcher = filled(make("picture_maker", "Draws a picture."), make("mailer", "Sends letters."))
    assert found(searcher, "generate photos")[:1] == ["picture_maker"]


def test_exact_word_ranks_before_a_synonym() -> None:
    searcher = filled(make("a", "Shows a picture."), make("b", "Shows a photo."))
    assert found(searcher, "photo") == ["b", "a"]


def test_a_name_counts_more_than_a_mention() -> None:
    searcher = filled(make("a", "A weather forecast."), make("weather", "A forecast."))
    assert found(searcher, "weather")[0] == "weather"


def test_the_errands_of_a_question_are_each_served() -> None:
    searcher = filled(
        make("book_flight", "Book a flight."),
        make("send_mail", "Send a mail to somebody."),
        make("get_weather", "Tell the weather in a city."),
        *(make(f"tool_{number}", "Something about a city, a flight and somebody.") for number in range(20)),
    )
    wanted = {"book_flight", "send_mail", "get_weather"}
    question = "Book me a flight to Oslo, then send a mail to Ann, and tell me the weather there."
    assert set(found(searcher, question, 3)) == wanted


# Slips


@pytest.mark.parametrize(
    "query", ["wether", "weahter", "weathr", "weatherr", "wxather", "forcast", "forecats"]
)
def test_a_word_with_one_slip_finds_the_tool(query: str) -> None:
    searcher = filled(make("get_weather", "Tell the forecast."), make("send_mail", "Send a message."))
    assert found(searcher, query) == ["get_weather"]


def test_a_word_that_some_tool_says_is_not_read_as_another() -> None:
    searcher = filled(make("get_weather"), make("wether", "A castrated ram."))
    assert found(searcher, "wether") == ["wether"]


def test_a_name_in_a_sentence_is_not_read_as_a_word() -> None:
    searcher = filled(make("renew", "Renew a passport."), make("photo", "Find a photo."))
    assert found(searcher, "the photo of Renee") == ["photo"]
    assert found(searcher, "renee a passport")[0] == "renew"


def test_a_slip_is_trusted_less_than_the_word() -> None:
    searcher = filled(make("get_weather", "Tell the forecast."))
    [right], [wrong] = searcher.search("weather", limit=1), searcher.search("wether", limit=1)
    assert wrong.score < right.score
    assert wrong.confidence < right.confidence


def test_a_tool_that_came_later_is_found_by_a_slip_and_one_that_went_is_not() -> None:
    searcher = filled(make("get_weather"))
    assert found(searcher, "calender") == []
    searcher.update([make("calendar")], [])
    assert found(searcher, "calender") == ["calendar"]
    searcher.update([], ["calendar"])
    assert found(searcher, "calender") == []
    searcher.update([make("calendar", "Another one.")], [])
    assert found(searcher, "calender") == ["calendar"]


def test_a_word_that_came_and_went_many_times_stands_in_nobodys_way() -> None:
    searcher = filled(make("calendar"))
    for _ in range(60):
        searcher.update([make("other", "callendar")])
        searcher.update([], ["other"])
    assert found(searcher, "callendr") == found(filled(make("calendar")), "callendr") == ["calendar"]


# What is selected


def test_a_selection_changes_neither_scores_nor_confidence() -> None:
    searcher = filled(*SHOP)
    question = "change units, read a page, open a ticket"
    everything = searcher.search(question, limit=20)
    assert len(everything) > 2
    for hit in everything:
        assert searcher.search(question, limit=1, among={hit.id}) == [hit]
    rest = searcher.search(question, limit=20, exclude={everything[0].id, "unknown"})
    assert rest == everything[1:]
    assert rest.total == everything.total - 1


def test_a_tool_that_is_told_twice_in_one_update_is_the_later() -> None:
    searcher = filled(make("a", "weather"), make("a", "mail"))
    assert found(searcher, "weather") == []
    assert found(searcher, "mail") == ["a"]


def test_a_tool_without_a_word_is_there_and_can_go() -> None:
    searcher = filled(make("the"), make("weather"))
    assert found(searcher, "the weather") == ["weather"]
    searcher.update([], ["the"])
    searcher.update([make("the", "weather")])
    assert sorted(found(searcher, "weather")) == ["the", "weather"]


def test_two_searchers_share_a_cache() -> None:
    cache = DictCache()
    one, other = Bm25Searcher(cache=cache), Bm25Searcher(cache=cache)
    one.update(SHOP)
    other.update(SHOP)
    assert other.search("open a ticket", limit=5) == one.search("open a ticket", limit=5)


def test_updates_from_many_threads_all_arrive() -> None:
    searcher = Bm25Searcher()

    def work(start: int) -> None:
        for number in range(start, start + 20):
            searcher.update([make(f"tool_{number}", "weather forecast")])
            searcher.search("wether", limit=3)

    threads = [Thread(target=work, args=(start,)) for start in range(0, 80, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert searcher.search("forecast", limit=100).total == 80


@pytest.mark.proof
@pytest.mark.attack
def test_a_catalogue_of_equals_is_ranked_in_a_moment() -> None:
    searcher = filled(*(make(f"tool_{number}", "weather forecast") for number in range(10_000)))
    assert seconds(lambda: searcher.search("weather forecast", limit=10)) < 0.5
    assert found(searcher, "weather forecast", 2) == ["tool_0", "tool_1"]
