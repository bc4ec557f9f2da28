"""Evaluation of search on labelled questions: ranking, cost, confidence and abstention.

>>> from toolcrib.discovery.evaluation import EvaluationCatalogue, LabelledQuery, LabelledSet, evaluate
>>> from toolcrib.discovery.protocols import Hit
>>> from toolcrib.model import Tool
>>> class AlwaysDrill:
...     def search(self, query, *, limit):
...         return [Hit("drill", 1.0, 0.9)]
>>> tools = EvaluationCatalogue.of([Tool(name="drill", input_schema={}), Tool(name="saw", input_schema={})])
>>> asked = (
...     LabelledQuery(query="make a hole", relevant=["drill"]),
...     LabelledQuery(query="cut", relevant=["saw"]),
... )
>>> evaluate(AlwaysDrill(), LabelledSet("shop", tools, asked)).hit1
0.5
"""

from toolcrib.discovery.evaluation.abstention import Separation, missing_auc, off_topic_auc, separate
from toolcrib.discovery.evaluation.catalogue import EvaluationCatalogue, ToolLine
from toolcrib.discovery.evaluation.everyday import EVERYDAY
from toolcrib.discovery.evaluation.finder import Finder, IndexFinder, Removable, finder_of
from toolcrib.discovery.evaluation.labels import (
    LabelledQuery,
    LabelledSet,
    load_queries,
    load_set,
    load_tools,
)
from toolcrib.discovery.evaluation.measure import (
    Cost,
    EvaluationReport,
    Progress,
    QueryResult,
    ask,
    cost_of,
    evaluate,
    resident_bytes,
)
from toolcrib.discovery.evaluation.metrics import (
    Bin,
    Calibration,
    auc,
    calibrate,
    hit_at_1,
    ndcg_at,
    recall_at,
    reciprocal_rank,
)

__all__ = [
    "EVERYDAY",
    "Bin",
    "Calibration",
    "Cost",
    "EvaluationCatalogue",
    "EvaluationReport",
    "Finder",
    "IndexFinder",
    "LabelledQuery",
    "LabelledSet",
    "Progress",
    "QueryResult",
    "Removable",
    "Separation",
    "ToolLine",
    "ask",
    "auc",
    "calibrate",
    "cost_of",
    "evaluate",
    "finder_of",
    "hit_at_1",
    "load_queries",
    "load_set",
    "load_tools",
    "missing_auc",
    "ndcg_at",
    "off_topic_auc",
    "recall_at",
    "reciprocal_rank",
    "resident_bytes",
    "separate",
]
