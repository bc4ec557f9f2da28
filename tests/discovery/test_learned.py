"""Questions learned from use: storage, the effect on ranking, and its limits."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from laws import law

from toolcrib.discovery import Bm25Searcher, Index, MemoryStore, SqliteStore, load_embedder
from toolcrib.discovery.learned import (
    MAX_LENGTH,
    MAX_OF_OWNER,
    MAX_QUESTIONS,
    MAX_TOTAL,
    UNNAMED,
    LearnedQuestion,
    LearnedQuestions,
    learnable,
    may_destroy,
    strip_values,
)
from toolcrib.model import Tool

DAY = 86_400
RAIN = "shall I take my umbrella along"


def learned_question(
    tool_id: str, question: str = RAIN, owner: str = "ann", uses: int = 1, misses: int = 0
) -> LearnedQuestion:
    return LearnedQuestion(tool_id=tool_id, question=question, owner=owner, uses=uses, misses=misses)


def learned_questions(*questions: LearnedQuestion, **options: Any) -> LearnedQuestions:
    made = LearnedQuestions(encode=load_embedder().encode, **options)
    made.learn(questions)
    return made


def word_of(number: int) -> str:
    """Return a word of letters alone for a number."""
    return "".join("bdfglmnprs"[int(digit)] + "a" for digit in str(number))


def catalogue(
    *tools: tuple[str, str], hints: dict[str, dict[str, bool]] | None = None, words: bool = False
) -> Index:
    index = Index(Bm25Searcher()) if words else Index()
    for tool_id, description in tools:
        namespace, name = tool_id.split(":")
        annotations = (hints or {}).get(tool_id)
        index.register(
            Tool(
                name=name,
                namespace=namespace,
                description=description,
                input_schema={"type": "object"},
                annotations=annotations,
            )
        )
    return index


TOOLS = (
    ("files:delete_everything", "Erase all that there is on the disk."),
    ("files:read_file", "Read the text of a file."),
    ("mail:send_message", "Send an e-mail to somebody."),
    ("music:play_track", "Play a song on a speaker."),
    ("notes:write_note", "Write a note into the notebook."),
    ("weather:get_forecast", "Tell the weather of a city for the next days."),
    ("sponsor:offers", "Show special offers."),
)
QUESTIONS = (
    "read the report for me",
    "send the report to Bob",
    "play some music while I write",
    "will it rain tomorrow",
    "write down what I have to buy",
    "free up some space on my disk",
    "clean my notebook",
    "what can you do about the weather",
)


class TestStripping:
    @pytest.mark.parametrize(
        ("question", "kept"),
        [
            ("send 250 euros to DE89370400440532013000", "send euros to"),
            ('find the file "salaries 2026.xlsx" for me', "find the file for me"),
            ("open https://intranet.example/x?id=7 and read it", "open and read it"),
            ("mail ann@example.org the minutes", "mail the minutes"),
            ("use token=4f8a91c2d7e6 to log in to the shop", "use token= to log in to the shop"),
            ("log in with ghp_abcdefghijklmnopqrstuvwxyz0123 please", "log in with please"),
            ("show the tree below /home/anna/secret plans", "show the tree below plans"),
            ("call 555 0199 about invoice A-77", "call about invoice"),
            ("ask Maria Lopez about the budget", "ask about the budget"),
            ("book a table for 4 on 24 December", "book a table for on"),
            ("rename report.docx to minutes", "rename to minutes"),
            ("use key sk-abcdefghijklmnopqrst to list files", "use key to list files"),
            (
                "log in with password correct-horse-battery and open mail",
                "log in with password and open mail",
            ),
            ("my token is abcdefghijkl use it", "my token use it"),
            ("change the password of the user", "change the password of the user"),
            ("tell Ørsted and Łukasz about the meeting", "tell and about the meeting"),
            ("weather of the trip (Anna Schmidt) tomorrow", "weather of the trip ( ) tomorrow"),
            ("find mails of \u201eanna schmidt\u201c today", "find mails of today"),
            ("find mails of \u2018anna schmidt\u2019 today", "find mails of today"),
            ("find mails of \u00abanna schmidt\u00bb today", "find mails of today"),
            ("the user\u2019s mail and the boss\u2019 mail", "the user\u2019s mail and the boss\u2019 mail"),
            ("search files in home/ann/private/diary folder", "search files in folder"),
            ("list the input/output ports", "list the input/output ports"),
            ("open \\\\server\\share\\ann folder listing", "open folder listing"),
            ("mail ann at example dot org the minutes", "mail the minutes"),
        ],
    )
    def test_question_is_kept_without_what_looks_like_data_or_secrets(self, question: str, kept: str) -> None:
        assert strip_values(question) == kept

    def test_names_that_the_tool_says_are_kept(self) -> None:
        assert strip_values("open an issue on GitHub for Ann", ["github"]) == "open an issue on GitHub for"

    @pytest.mark.parametrize("question", ["", "17", "read it", "show me", "x " * MAX_LENGTH])
    def test_question_with_little_to_tell_is_not_learned(self, question: str) -> None:
        assert learnable(question) is None

    @pytest.mark.parametrize(
        "question",
        [
            "Wie ist das Wetter in der Stadt?",
            "wie wird das wetter bei max mustermann",
            "\u041f\u0438\u0441\u044c\u043c\u043e \u0418\u0432\u0430\u043d\u0443 \u043e \u0434\u0438\u0430\u0433\u043d\u043e\u0437\u0435",
            "\u5e2e\u6211\u7ed9\u5f20\u4f1f\u53d1\u90ae\u4ef6",
        ],
        ids=["German", "names in lower case", "Russian", "Chinese"],
    )
    def test_question_in_another_language_is_not_learned(self, question: str) -> None:
        assert learnable(question) is None

    @given(some.text(max_size=80), some.from_regex(r"\A[0-9]{3,12}\Z|\A[a-f0-9]{20,40}\Z|\A\w+@\w+\.org\Z"))
    @law(40)
    def test_no_value_is_left_whatever_stands_around_it(self, text: str, value: str) -> None:
        assert value not in strip_values(f"{text} {value} {text}").split()


class TestLifting:
    def test_similar_question_raises_the_tool_that_was_used(self) -> None:
        questions = learned_questions(learned_question("weather:get_forecast"))
        (lift,) = questions.lifts("do I take an umbrella along?", "ann").values()
        assert 0.3 < lift.strength <= 0.7
        assert [similar.question for similar in lift.questions] == [RAIN]
        assert lift.strength == pytest.approx(sum(similar.lift for similar in lift.questions))

    def test_question_about_something_else_raises_nothing(self) -> None:
        assert (
            learned_questions(learned_question("weather:get_forecast")).lifts("merge the pull request", "ann")
            == {}
        )

    def test_questions_of_a_principal_do_not_raise_tools_for_another(self) -> None:
        questions = learned_questions(learned_question("weather:get_forecast", owner="ann"))
        assert questions.lifts(RAIN, "bob") == {}

    def test_tool_is_found_by_a_question_that_shares_no_word_with_it(self) -> None:
        question, tool_id = RAIN, "sponsor:offers"
        for index in (catalogue(*TOOLS), catalogue(*TOOLS, words=True)):
            lifts = learned_questions(learned_question(tool_id, question)).lifts(question, "ann")
            before = [result.id for result in index.search(question)]
            found = index.search(question, lifts=lifts)
            assert before[:1] != [tool_id]
            assert found[0].id == tool_id
            assert [one.confidence for one in found] == sorted(
                (one.confidence for one in found), reverse=True
            )

    def test_versions_of_a_tool_share_what_was_learned(self) -> None:
        index = catalogue()
        for version in ("1.0.0", "2.0.0"):
            index.register(Tool(name="get", namespace="w", description="", version=version, input_schema={}))
        found = index.search(RAIN, lifts=learned_questions(learned_question("w:get")).lifts(RAIN, "ann"))
        assert {result.id for result in found} == {"w:get:1.0.0", "w:get:2.0.0"}

    def test_tool_that_is_gone_or_filtered_out_is_not_found(self) -> None:
        index, lifts = (
            catalogue(*TOOLS),
            learned_questions(learned_question("sponsor:offers"), learned_question("gone:tool")).lifts(
                RAIN, "ann"
            ),
        )
        assert "gone:tool" not in {result.id for result in index.search(RAIN, lifts=lifts)}
        assert "sponsor:offers" not in {
            result.id for result in index.search(RAIN, lifts=lifts, namespace="weather")
        }

    def test_cursor_is_refused_once_something_else_was_learned(self) -> None:
        from toolcrib.errors import InvalidCursorError  # noqa: PLC0415 - here alone

        index, questions = catalogue(*TOOLS), learned_questions(learned_question("mail:send_message"))
        page = index.search(RAIN, limit=1, lifts=questions.lifts(RAIN, "ann"))
        assert page.next_cursor
        questions.learn([learned_question("sponsor:offers")])
        with pytest.raises(InvalidCursorError):
            index.search(RAIN, limit=1, cursor=page.next_cursor, lifts=questions.lifts(RAIN, "ann"))

    def test_misses_take_the_evidence_of_a_question_away(self) -> None:
        questions = learned_questions(learned_question("mail:send_message", uses=1))
        strong = questions.lifts(RAIN, "ann")["mail:send_message"].strength
        questions.learn([learned_question("mail:send_message", uses=2, misses=1)])
        assert 0 < questions.lifts(RAIN, "ann")["mail:send_message"].strength < strong
        questions.learn([learned_question("mail:send_message", uses=0, misses=2)])
        assert questions.lifts(RAIN, "ann") == {}

    def test_old_questions_count_less_and_are_forgotten(self) -> None:
        now = [1000.0 * DAY]
        questions = learned_questions(learned_question("mail:send_message"), clock=lambda: now[0])
        fresh = questions.lifts(RAIN, "ann")["mail:send_message"].strength
        now[0] += 90 * DAY
        questions.learn([learned_question("notes:write_note", "write it down for me please")])
        assert questions.lifts(RAIN, "ann")["mail:send_message"].strength == pytest.approx(
            fresh / 2, rel=1e-3
        )
        now[0] += 200 * DAY
        questions.learn([learned_question("notes:write_note", "write it down for me please")])
        assert [row.tool_id for row in questions.listed()] == ["notes:write_note"]


class TestBounds:
    def test_same_question_in_another_spelling_is_one_row(self) -> None:
        questions = learned_questions(
            learned_question("w:a", "Open an issue!"), learned_question("w:a", "open an  issue")
        )
        (row,) = questions.listed()
        assert row.uses == 2

    def test_tool_and_owner_have_limits(self) -> None:
        words = [f"{a}{b}{c}" for a in "bdfglmnprst" for b in "aeiou" for c in "bdfglmnprst"]
        questions = learned_questions(
            *(learned_question("w:a", f"please {word} the garden") for word in words)
        )
        assert len(questions.listed()) == MAX_QUESTIONS
        many = (
            learned_question(f"w:{tool}", f"please {word} the garden") for tool in "abcd" for word in words
        )
        questions = learned_questions(
            *(learned_question(f"{each.tool_id}{at}", each.question) for at, each in enumerate(many))
        )
        assert len(questions.listed(owner="ann")) == MAX_OF_OWNER

    def test_one_owner_with_many_rows_does_not_drop_those_of_another(self) -> None:
        questions = learned_questions(learned_question("w:a", owner="ann"))
        questions.learn(learned_question(f"w:t{at}", owner="eve") for at in range(MAX_OF_OWNER + 50))
        assert len(questions.listed(owner="ann")) == 1

    def test_clients_without_a_login_count_as_one(self) -> None:
        questions = learned_questions(
            *(learned_question(f"w:t{at}", owner="ann", uses=5) for at in range(900))
        )
        questions.learn(
            learned_question(f"w:t{at % 500}", f"umbrella {word_of(at)}", f"{UNNAMED}{at % 1000}")
            for at in range(5000)
        )
        assert len(questions.listed(owner="ann")) == 900
        assert questions.count == 900 + MAX_OF_OWNER

    def test_owners_above_the_total_share_it_evenly(self) -> None:
        few = [learned_question(f"w:t{at}", owner="few") for at in range(100)]
        many = [
            learned_question(f"w:t{at}", owner=f"owner {name}")
            for name in range(6)
            for at in range(MAX_OF_OWNER)
        ]
        questions = learned_questions(*few, *many)
        counts = Counter(row.owner for row in questions.listed())
        assert questions.count == MAX_TOTAL
        assert counts.pop("few") == 100
        assert sorted(counts.values()) == [816, 816, 817, 817, 817, 817]


class TestPoison:
    """A stream of calls that tries to promote a tool over others, if learned questions are shared."""

    @staticmethod
    def stream(tool_id: str, owners: list[str]) -> LearnedQuestions:
        """Return the questions learned from calls that answer each question with one tool, over and over."""
        return learned_questions(
            *(
                learned_question(tool_id, question, owner, uses=1000)
                for owner in owners
                for question in QUESTIONS
            )
        )

    @pytest.mark.parametrize(
        "owners", [["eve"], [f"{UNNAMED}{number}" for number in range(50)]], ids=["named", "many names"]
    )
    def test_one_principal_moves_only_a_bounded_share(self, owners: list[str]) -> None:
        index, questions = catalogue(*TOOLS), self.stream("sponsor:offers", owners)
        for question in QUESTIONS:
            lifts = questions.lifts(question, None)
            assert lifts["sponsor:offers"].strength <= 0.5
            before = {one.id: one.score for one in index.search(question, limit=50)}
            after = {one.id: one.score for one in index.search(question, limit=50, lifts=lifts)}
            # In standard deviations: half of what learning can move at most, and a part for its confidence.
            others = before.keys() - {"sponsor:offers"}
            assert [one for one in after if one in others] == [one for one in before if one in others]

    @pytest.mark.parametrize("attacked", ["a:bad", "z:good"])
    def test_variants_of_one_owner_do_not_displace_what_others_taught(self, attacked: str) -> None:
        fill = (
            "",
            "please ",
            "the ",
            "can you ",
            "a ",
            "could you ",
            "hey ",
            "now ",
            "so ",
            "and ",
            "or ",
            "hello ",
        )
        questions = learned_questions(
            *(learned_question("z:good", owner=f"honest {number}") for number in range(5))
        )
        before = questions.lifts(RAIN, None)["z:good"].strength
        questions.learn(learned_question(attacked, each + RAIN, "eve") for each in fill)
        lifts = questions.lifts(RAIN, None)
        assert lifts["z:good"].strength >= before
        if attacked != "z:good":
            assert lifts[attacked].strength <= 0.5

    def test_one_owner_raises_few_tools_by_one_question(self) -> None:
        questions = learned_questions(
            *(learned_question(f"a:bad{number}", owner="eve") for number in range(50))
        )
        assert len(questions.lifts(RAIN, None)) == 10

    def test_evidence_for_other_tools_restores_their_rank(self) -> None:
        question, index = "will it rain tomorrow", catalogue(*TOOLS)
        questions = self.stream("sponsor:offers", ["eve"])
        questions.learn(learned_question("weather:get_forecast", question, owner) for owner in ("ann", "bob"))
        assert index.search(question, lifts=questions.lifts(question, None))[0].id == "weather:get_forecast"

    @pytest.mark.parametrize("owners", [["eve"], ["eve", "mallory", "trudy"]], ids=["one", "several"])
    @pytest.mark.parametrize("words", [False, True], ids=["hybrid", "words"])
    def test_destructive_tool_never_rises_above_a_match_of_words(
        self, owners: list[str], words: bool
    ) -> None:
        evil, index = "files:delete_everything", catalogue(*TOOLS, words=words)
        matches = catalogue(*TOOLS, words=True)
        questions, seen = self.stream(evil, owners), 0
        for question in QUESTIONS:
            lexical = {one.id for one in matches.search(question, limit=50)} - {evil}
            before = [one.id for one in index.search(question, limit=50)]
            after = [
                one.id for one in index.search(question, limit=50, lifts=questions.lifts(question, None))
            ]
            above = set(before[: before.index(evil)] if evil in before else before) & lexical
            seen += len(above)
            assert above <= set(after[: after.index(evil)] if evil in after else after), question
        assert seen > 3

    def test_hints_decide_before_the_name(self) -> None:
        assert may_destroy("a:delete", ())
        assert may_destroy("deleteAll", ())
        assert may_destroy("a:read", ["destructiveHint=True"])
        assert not may_destroy("a:delete", ["readOnlyHint=True"])
        assert not may_destroy("a:undeletable_items", ())


ROWS = some.builds(
    learned_question,
    some.sampled_from(["w:a", "w:b", "w:c"]),
    some.sampled_from([*QUESTIONS, RAIN]),
    some.sampled_from(["ann", "bob", f"{UNNAMED}x"]),
    some.integers(0, 3),
    some.integers(0, 2),
)
STEPS = some.lists(
    some.one_of(
        some.lists(ROWS, max_size=4).map(lambda rows: ("learn", rows)),
        some.sampled_from(["w:a", "w:b", None]).map(lambda tool: ("forget", tool)),
        some.sampled_from(["w:a", "w:b", "w:c"]).map(lambda tool: ("add", tool)),
        some.sampled_from(["w:a", "w:b", "w:c"]).map(lambda tool: ("remove", tool)),
        some.integers(1, 200).map(lambda days: ("wait", days)),
        some.sampled_from(QUESTIONS).map(lambda question: ("search", question)),
    ),
    max_size=12,
)


@given(STEPS)
@law(60)
def test_after_any_sequence_an_index_equals_one_built_anew(steps: list[tuple[str, Any]]) -> None:
    now, store = [1000.0 * DAY], MemoryStore()
    encode = load_embedder().encode
    index, questions = Index(store=store), LearnedQuestions(store, encode=encode, clock=lambda: now[0])
    for step, value in steps:
        if step == "learn":
            questions.learn(value)
        elif step == "forget":
            questions.forget(value)
        elif step == "add":
            number = value[-1]
            description = dict(
                zip("abc", ("Tell the weather.", "Send a mail.", "Erase a disk."), strict=True)
            )
            index.register(Tool(name=number, namespace="w", description=description[number], input_schema={}))
        elif step == "remove" and value in index:
            index.unregister(value)
        elif step == "wait":
            now[0] += value * DAY
        elif step == "search":
            index.search(value, lifts=questions.lifts(value, None))
    fresh = LearnedQuestions(store, encode=encode, clock=lambda: now[0])
    again = LearnedQuestions(store, encode=encode, clock=lambda: now[0])
    assert questions.listed() == fresh.listed()
    rebuilt = Index(store=store)
    for question in QUESTIONS:
        for owner in (None, "ann", "bob"):
            mine, theirs = questions.lifts(question, owner), again.lifts(question, owner)
            assert mine == theirs
            found = [(one.id, one.score, one.confidence) for one in index.search(question, lifts=mine)]
            anew = [(one.id, one.score, one.confidence) for one in rebuilt.search(question, lifts=theirs)]
            assert found == anew


class TestStrangeRows:
    """Rows in the storage that this program would not write."""

    def test_row_that_cannot_be_read_is_left_out_until_it_is_forgotten(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with SqliteStore(tmp_path / "catalogue.db") as store:
            learned_questions(learned_question("w:a"), learned_question("w:b"), texts=store)
            store.write_texts("learned", {"w:a x ann": "[]", "w:b x bob": "{broken"})
            questions = LearnedQuestions(store)
            assert [row.tool_id for row in questions.listed()] == ["w:a", "w:b"]
            assert "'w:a x ann' cannot be read" in caplog.text
            questions.learn([learned_question("w:c")])
            assert questions.forget("w:b") == 2
            assert questions.forget("w:a", owner="bob") == 0
            assert questions.forget() == 3
            assert [*store.texts("learned")] == []

    def test_row_under_another_key_is_found_and_written_anew(self) -> None:
        store, row = MemoryStore(), learned_question("w:a", uses=3)
        store.write_texts("learned", {"w:a other ann": json.dumps(row.replace(day=1000).to_json())})
        questions = learned_questions(texts=store, clock=lambda: 1000.0 * DAY)
        assert [*questions.lifts(RAIN, None)] == ["w:a"]
        questions.learn([learned_question("w:a")])
        ((key, _),) = store.texts("learned")
        assert key == row.key
        assert LearnedQuestions(store).listed()[0].uses == 4

    def test_more_rows_than_the_limit_are_left_out(self) -> None:
        rows = [
            learned_question(f"w:t{at % 300}", f"umbrella {word_of(at)}", f"owner {at % 9}").replace(day=1000)
            for at in range(MAX_TOTAL * 2)
        ]
        store = MemoryStore()
        store.write_texts("learned", {row.key: json.dumps(row.to_json()) for row in rows})
        questions = LearnedQuestions(store, clock=lambda: 1000.0 * DAY)
        assert questions.count == MAX_TOTAL
        assert questions.lifts("umbrella", None)
        questions.learn([learned_question("w:t1", "umbrella")])
        assert len([*store.texts("learned")]) == MAX_TOTAL


LEARN_FOR_EVER = """if True:
    import sys
    from toolcrib.discovery.learned import LearnedQuestion, LearnedQuestions
    from toolcrib.discovery.store import SqliteStore
    questions = LearnedQuestions(SqliteStore(sys.argv[1]))
    number = 0
    while True:
        number += 1
        row = dict(tool_id=f"w:t{number % 40}", question="take the umbrella along", owner=f"o{number % 7}", uses=1)
        questions.learn([LearnedQuestion(**row), LearnedQuestion(**row | {"tool_id": "w:all"})])
        print(number, flush=True)
"""


def test_kill_at_any_moment_loses_only_what_was_not_acknowledged(tmp_path: Path) -> None:
    path, total = tmp_path / "catalogue.db", 0
    for lines in (1, 7, 40, 3, 90):
        command = [sys.executable, "-c", LEARN_FOR_EVER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(lines):
                process.stdout.readline()
            process.kill()
            told = lines + len(process.stdout.read().split())
        with SqliteStore(path) as store:
            rows = LearnedQuestions(store).listed()
        single = sum(row.uses for row in rows if row.tool_id != "w:all")
        assert single == sum(row.uses for row in rows if row.tool_id == "w:all")  # no half of a batch
        assert total + told <= single <= total + told + 1
        total = single
