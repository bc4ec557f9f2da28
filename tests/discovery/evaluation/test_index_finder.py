from discovery.evaluation.doubles import SHOP, TOOLS

from toolcrib.discovery import Index
from toolcrib.discovery.evaluation import evaluate, finder_of, missing_auc, off_topic_auc
from toolcrib.model import LocalBackend


def filled() -> Index:
    index = Index()
    index.register_many((tool, None) for tool in TOOLS)
    return index


def test_an_index_is_measured_as_it_is() -> None:
    report = evaluate(finder_of(filled()), SHOP)
    assert (report.hit1, report.recall) == (1, 1)
    assert off_topic_auc(finder_of(filled()), SHOP).auc > 0.5


def test_a_hit_is_a_result_of_the_index() -> None:
    index = filled()
    (hit,) = finder_of(index).search("boil water", limit=1)
    (result,) = index.search("boil water", limit=1)
    assert (hit.id, hit.score, hit.confidence) == ("kettle", result.score, result.confidence)


def test_tools_that_are_taken_out_are_not_found_until_they_are_back() -> None:
    index = filled()
    index.register(TOOLS[2], LocalBackend(name="stove"))
    finder = finder_of(index)
    with finder.without(["kettle", "unknown"]):
        assert "kettle" not in index
        assert "kettle" not in [hit.id for hit in finder.search("boil water", limit=10)]
    assert index.get("kettle") == TOOLS[2]
    assert index.backends("kettle") == (LocalBackend(name="stove"),)
    assert finder.search("boil water", limit=1)[0].id == "kettle"


def test_an_index_is_the_same_after_its_right_tools_were_missed() -> None:
    index = filled()
    before = [tool.id for tool in index.tools()]
    assert missing_auc(finder_of(index), SHOP).answerable == 4
    assert [tool.id for tool in index.tools()] == before
