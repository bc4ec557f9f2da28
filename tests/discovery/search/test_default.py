"""Search of an index without settings: lexical, and by the built-in table."""

import subprocess
import sys
from importlib.resources import files
from random import Random

import pytest

from toolcrib.discovery import Bm25Searcher, Index
from toolcrib.discovery.search.hybrid import HybridSearcher
from toolcrib.discovery.search.semantic import EmbeddingSearcher, StaticEmbedder
from toolcrib.model import Tool

TOOLS = {
    "send_message": "Post a message to a channel.",
    "create_issue": "Open an issue in a repository.",
    "get_weather": "Tell the weather forecast of a city. 天气预报 погода الطقس मौसम καιρός מזג האוויר อากาศ",
    "book_flight": "Reserve a seat on a plane. 预订机票 билет на самолёт حجز رحلة उड़ान πτήση טיסה เที่ยวบิน",
    "find_hotel": "Look for a room for the night. ホテルを探す гостиница فندق होटल ξενοδοχείο מלון โรงแรม",
    "convert_currency": "Exchange an amount of money from one currency to another.",
    "list_invoices": "List the unpaid bills of a customer.",
    "play_song": "Play a track by its title.",
    "translate_text": "Translate a text into another language.",
    "create_event": "Add an appointment to a calendar.",
    "resize_image": "Make a picture smaller or larger.",
    "track_parcel": "Say where a package is.",
}
FOREIGN = {
    "Chinese": "今天的天气预报怎么样",
    "Japanese": "ホテルを探す",
    "Korean": "내일 날씨 어때요",
    "Russian": "какая завтра погода в Москве",
    "Arabic": "ما هو الطقس غدا في القاهرة",
    "Hindi": "कल दिल्ली में मौसम कैसा होगा",
    "Greek": "τι καιρός θα κάνει αύριο",
    "Hebrew": "מה מזג האוויר מחר",
    "Thai": "จองเที่ยวบิน อากาศ โรงแรม",
    "Chinese with a name": "帮我预订机票 Oslo 明天",
    "Russian with a tool": "погода и билет на самолёт: weather",
}
ERRANDS = [
    (
        "fly me to Rome on Friday, find somewhere to sleep there, and message the others about it",
        {"book_flight", "find_hotel", "send_message"},
    ),
    (
        "how warm will it be tomorrow, play something by Abba, and find out where my parcel is",
        {"get_weather", "play_song", "track_parcel"},
    ),
    (
        "find out where my parcel is, put the delivery in my diary, and write to the team about it",
        {"track_parcel", "create_event", "send_message"},
    ),
]

WATCHING = """
import sys
from random import Random
opened = []
sys.addaudithook(lambda event, args: event == "open" and opened.append(str(args[0])))
from toolcrib.discovery import Index
from toolcrib.model import Tool
index = Index()
index.register(Tool(name="send_mail", description="Send a message.", input_schema={}))
index.tools(), index.search("", limit=5), index.resolve("send_mail")
print([name for name in opened if "static_model" in name])
index.search("tell somebody about it")
print(sorted({name.rpartition("static_model")[2][1:] for name in opened if "static_model" in name}))
"""


def filled(index: Index) -> Index:
    index.register_many(
        (Tool(name=name, description=said, input_schema={}), None) for name, said in TOOLS.items()
    )
    return index


@pytest.fixture(scope="module")
def index() -> Index:
    return filled(Index())


@pytest.fixture(scope="module")
def by_words() -> Index:
    return filled(Index(Bm25Searcher()))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("somewhere to sleep in lisbon", "find_hotel"),
        ("what do they still owe us", "list_invoices"),
        ("cash i still owe the landlord", "list_invoices"),
        ("remind me about the dentist on friday", "create_event"),
        ("say it in french", "translate_text"),
    ],
)
def test_meaning_finds_first_what_words_do_not(
    index: Index, by_words: Index, question: str, expected: str
) -> None:
    assert [result.summary.id for result in by_words.search(question, limit=1)] != [expected]
    assert index.search(question, limit=1).items[0].summary.id == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("send a message", "send_message"),
        ("open an issue", "create_issue"),
        ("weather forecast", "get_weather"),
        ("list unpaid bills", "list_invoices"),
        ("translate_text", "translate_text"),
    ],
)
def test_words_find_what_they_say(index: Index, question: str, expected: str) -> None:
    result = index.search(question, limit=1).items[0]
    assert (result.summary.id, result.score_type) == (expected, "hybrid")


@pytest.mark.parametrize(("question", "expected"), ERRANDS)
def test_a_question_of_three_errands_finds_all_three_tools_first(
    index: Index, by_words: Index, question: str, expected: set[str]
) -> None:
    assert {result.summary.id for result in index.search(question, limit=3)} == expected
    assert {result.summary.id for result in by_words.search(question, limit=3)} != expected


@pytest.fixture(scope="module")
def english_alone(tmp_path_factory: pytest.TempPathFactory) -> Index:
    """An index whose model knows no other languages, as without the extra `languages`."""
    folder = tmp_path_factory.mktemp("model")
    model = files("toolcrib.discovery.search.semantic") / "static_model"
    for file in ("vocab.txt", "table.npy", "scales.npy", "judge.npz"):
        (folder / file).write_bytes((model / file).read_bytes())
    return filled(Index(HybridSearcher(Bm25Searcher(), EmbeddingSearcher(StaticEmbedder(folder)))))


@pytest.mark.parametrize("question", FOREIGN.values(), ids=FOREIGN)
def test_unreadable_script_is_answered_exactly_as_by_words(
    english_alone: Index, by_words: Index, question: str
) -> None:
    for limit in (3, 20):
        found, expected = english_alone.search(question, limit=limit), by_words.search(question, limit=limit)
        assert found.total == expected.total
        assert [(one.summary.id, one.score, one.confidence) for one in found] == [
            (one.summary.id, one.score, one.confidence) for one in expected
        ]


@pytest.mark.parametrize("question", ["ホテルを探す", "预订机票", "天气预报", "τι καιρός"])
def test_tools_in_the_language_of_the_question_are_found_by_words(
    index: Index, by_words: Index, question: str
) -> None:
    found, expected = index.search(question, limit=5), by_words.search(question, limit=5)
    assert [one.summary.id for one in found] == [one.summary.id for one in expected] != []


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Wo ist mein Paket?", "track_parcel"),
        ("traduis ce texte en anglais, s'il te plaît", "translate_text"),
        ("¿cuántos euros son cien dólares?", "convert_currency"),
        ("缩小这张照片", "resize_image"),
        ("曲をかけて", "play_song"),
        ("покажи неоплаченные счета клиента", "list_invoices"),
    ],
)
def test_questions_in_other_languages_find_english_tools(index: Index, question: str, expected: str) -> None:
    assert index.search(question, limit=1).items[0].summary.id == expected


def test_most_of_these_questions_are_answered(by_words: Index) -> None:
    answered = [name for name, question in FOREIGN.items() if by_words.search(question).items]
    assert set(FOREIGN) - set(answered) <= {"Korean"}


def test_results_that_are_sure_enough_are_those_of_the_whole_answer(index: Index) -> None:
    whole = index.search("tell the team about the weather", limit=50)
    for least in (0.001, 0.01, 0.1, 0.9):
        page = index.search("tell the team about the weather", limit=50, min_confidence=least)
        assert list(page.items) == [result for result in whole.items if result.confidence >= least]
        assert page.total == len(page)


@pytest.mark.proof
def test_no_model_is_opened_before_the_first_search_that_needs_it() -> None:
    said = subprocess.check_output([sys.executable, "-c", WATCHING], text=True).splitlines()
    assert said == ["[]", "['judge.npz', 'scales.npy', 'table.npy', 'vocab.txt']"]


@pytest.fixture(scope="module")
def large() -> Index:
    """Return an index of more tools than are all looked at closely."""
    chance = Random(5)  # noqa: S311 - the same each time
    words = ["send", "mail", "list", "order", "file", "issue", "weather", "city", "flight", "song", "invoice"]
    index = Index()
    for number in range(1100):
        said = " ".join(chance.choices(words, k=chance.randint(0, 12)))
        name = f"{chance.choice(words)}_{number}"
        index.register(Tool(name=name, description=said, input_schema={"type": "object"}))
    return index


@pytest.mark.parametrize(
    "question",
    [
        "the",
        *(
            pytest.param(said, marks=pytest.mark.proof)
            for said in ("xqzv", "tell me a joke about quantum physics")
        ),
    ],
)
def test_pages_of_any_size_tell_every_tool_of_a_large_catalogue_once(large: Index, question: str) -> None:
    told = {}
    for size in (20, 64, 65, 100):
        told[size], cursor, totals = [], None, set()
        while len(told[size]) <= 1100:
            page = large.search(question, limit=size, cursor=cursor)
            told[size] += [result.summary.id for result in page]
            totals.add(page.total)
            if (cursor := page.next_cursor) is None:
                break
        assert totals == {len(told[size])} == {len(set(told[size]))}
    assert told[20] == told[64] == told[65] == told[100]
