"""The public names and shapes: contents of modules, parameters of calls, fields of records."""

import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib.model import ToolOptions
from toolcrib.model.argschema import SCHEMA_VERSION
from toolcrib.runtime import BackendInfo, ExecuteResult, LimitsEnforced

ANY = object()
"""The default of an argument that may have any, or none."""
REQUIRED = inspect.Parameter.empty

NAMES = {
    "toolcrib": "Crib SyncCrib Tool ToolId Version Constraint Matrix DefaultValidator ToolcribError tool",
    "toolcrib.version": "Version Constraint Matrix Verdict compare",
    "toolcrib.model": (
        "Tool ToolId ToolBackend McpBackend ProviderBackend LocalBackend normalize_tags SchemaValidator "
        "DefaultValidator schema_of CanonicalTool CanonicalProvider ToolExample SchemaInfo ToolDoc RunResult "
        "ToolCallRecord Resolver ToolGateway tool LocalTool"
    ),
    "toolcrib.model.argschema": "SCHEMA_VERSION ArgSchema ArgSchemaProperty parse_arg_schema validate_args",
    "toolcrib.model.schemas": (
        "object_ array string number integer boolean one_of any_of enum no_parameters"
    ),
    "toolcrib.adapter": (
        "Adapter CanonicalTool CanonicalProvider SchemaFeature AdapterRegistry Conversion FeatureLossWarning "
        "ToolCall Report default_registry portability McpAdapter OpenAIAdapter AnthropicAdapter GeminiAdapter "
        "A2AAdapter"
    ),
    "toolcrib.discovery": (
        "Index Summary MAX_SHORT_DESCRIPTION_LEN Result Page SearchDoc Document Searcher Bm25Searcher "
        "EmbeddingSearcher HybridSearcher Embedder DocStore DetailLevel ToolDoc SchemaInfo ToolExample Discovery"
    ),
    "toolcrib.execution": "Runner RunResult StreamEvent ChainStep ChainResult StepResult",
    "toolcrib.runtime": (
        "ExecuteRequest ExecuteResult ToolCallRecord BackendInfo SecurityProfile Limits backends"
    ),
}
CALLS: dict[str, dict[str, Any]] = {
    "toolcrib:Crib": {"config": None, "searcher": ANY, "store": ANY, "validator": ANY},
    "toolcrib:Crib.add": {"namespace": None, "version": None, "tags": ()},
    "toolcrib:Crib.convert": {"target": REQUIRED},
    "toolcrib:Crib.describe": {"tool_id": REQUIRED, "level": ANY},
    "toolcrib:Crib.execute": {"code": REQUIRED, "backend": None, "profile": None, "timeout": None},
    "toolcrib:Crib.ready": {"timeout": ANY},
    "toolcrib:Crib.run": {"tool_id": REQUIRED, "args": ANY, "timeout": None},
    "toolcrib:Crib.run_chain": {"steps": REQUIRED},
    "toolcrib:Crib.search": {"query": REQUIRED},
    "toolcrib:Crib.stream": {"tool_id": REQUIRED, "args": ANY},
    "toolcrib.version:Constraint.check": {"version": REQUIRED, "include_prerelease": False},
    "toolcrib.version:Matrix.add": {
        "component": REQUIRED,
        "minimum": REQUIRED,
        "maximum": None,
        "deprecated": False,
        "message": "",
    },
    "toolcrib.version:Matrix.negotiate": {"component": REQUIRED, "available": REQUIRED},
    "toolcrib.model:DefaultValidator": {"documents": None},
    "toolcrib.model.argschema:parse_arg_schema": {"schema": REQUIRED, "shape": "auto", "strict": False},
    "toolcrib.model.argschema:validate_args": {"schema": REQUIRED, "args": REQUIRED, "strict": False},
    "toolcrib.adapter:AdapterRegistry.convert": {"raw": REQUIRED, "source": REQUIRED, "target": REQUIRED},
    "toolcrib.adapter:AdapterRegistry.convert_many": {
        "raws": REQUIRED,
        "source": REQUIRED,
        "target": REQUIRED,
    },
    "toolcrib.adapter:Conversion.decode_call": {"payload": REQUIRED},
    "toolcrib.adapter:Conversion.encode_args": {"args": REQUIRED},
    "toolcrib.adapter:Conversion.encode_result": {"result": REQUIRED, "call_id": ANY},
    "toolcrib.discovery:Discovery": {"index": ANY, "docs": ANY},
    "toolcrib.discovery:Discovery.register": {"tool": REQUIRED, "backend": ANY, "doc": None},
    "toolcrib.discovery:DocStore.describe": {"tool_id": REQUIRED, "level": ANY},
    "toolcrib.discovery:DocStore.examples": {"tool_id": REQUIRED, "max": ANY},
    "toolcrib.discovery:Index.register": {"tool": REQUIRED, "backend": None},
    "toolcrib.discovery:Index.register_many": {"tools": REQUIRED},
    "toolcrib.discovery:Index.search": {
        "query": REQUIRED,
        "limit": 10,
        "cursor": None,
        "min_confidence": 0.0,
    },
    "toolcrib.discovery:Index.tools": {"limit": ANY, "cursor": None},
    "toolcrib.discovery:Index.unregister": {"tool_id": REQUIRED, "backend": None},
    "toolcrib.execution:Runner": {
        "resolver": REQUIRED,
        "local": ANY,
        "mcp": ANY,
        "providers": ANY,
        "validator": ANY,
        "policy": ANY,
    },
    "toolcrib.execution:Runner.run": {
        "tool_id": REQUIRED,
        "args": ANY,
        "timeout": None,
        "progress": None,
    },
    "toolcrib.execution:Runner.run_chain": {"steps": REQUIRED},
    "toolcrib.execution:Runner.stream": {"tool_id": REQUIRED, "args": ANY},
}
RECORDS = {
    "toolcrib.errors:Problem": "path keyword message",
    "toolcrib.version:Verdict": "ok deprecated message",
    "toolcrib.model:Tool": (
        "name description title input_schema output_schema annotations icons meta namespace version tags backend"
    ),
    "toolcrib.model:CanonicalTool": (
        "namespace name display_name version description summary category tags input_modes output_modes examples "
        "deterministic idempotent streaming security_schemes security_requirements annotations ui_hints "
        "input_schema output_schema timeout source_format source_meta required_scopes"
    ),
    "toolcrib.model:CanonicalProvider": (
        "name description version capabilities security_schemes security_requirements default_input_modes "
        "default_output_modes skills source_format source_meta"
    ),
    "toolcrib.model:ToolDoc": (
        "tool summary input_modes output_modes security_summary annotations schema_info notes examples external_refs"
    ),
    "toolcrib.model:ToolExample": "id title description args result_hint",
    "toolcrib.model:SchemaInfo": "required defaults types phrases",
    "toolcrib.model:RunResult": "tool backend structured mcp_result duration",
    "toolcrib.model:ToolCallRecord": "tool_id args backend_kind error error_op duration",
    "toolcrib.model:ArgSchema": "properties version warnings",
    "toolcrib.adapter:FeatureLossWarning": "feature path message adapter part",
    "toolcrib.adapter:ToolCall": "tool_id args call_id",
    "toolcrib.adapter:Report": "accepted rewritten warnings",
    "toolcrib.discovery:Summary": (
        "id name namespace short_description summary category input_modes output_modes security_summary tags"
    ),
    "toolcrib.discovery:Result": "summary score score_type confidence",
    "toolcrib.discovery:Page": "items next_cursor total",
    "toolcrib.discovery:SearchDoc": "id doc_text summary",
    "toolcrib.discovery:Document": "id namespace name description tags category text",
    "toolcrib.execution:StreamEvent": "kind tool_id data",
    "toolcrib.execution:ChainStep": "tool_id args use_previous",
    "toolcrib.execution:ChainResult": "final results",
    "toolcrib.execution:StepResult": "index tool_id structured backend error duration",
    "toolcrib.runtime:ExecuteRequest": "code language timeout limits profile",
    "toolcrib.runtime:ExecuteResult": "value stdout stderr tool_calls duration backend limits_enforced",
    "toolcrib.runtime:BackendInfo": "kind readiness details",
    "toolcrib.runtime:Limits": (
        "max_tool_calls max_chain_steps memory_bytes cpu pids disk_bytes output_bytes"
    ),
}

EXTRAS = {
    "cli": "click",
    "code": "pydantic-monty pyseccomp",
    "mcp": "mcp",
    "openapi": "httpx pyyaml",
    "otel": "opentelemetry-api",
    "semantic": "onnxruntime tokenizers usearch",
}
HEAVY = {
    "mcp", "mcp_types", "httpx2", "click", "rich", "httpx", "yaml", "opentelemetry", "onnxruntime", "tokenizers",
    "usearch", "pydantic_monty", "pyseccomp", "docker", "requests", "wasmtime", "prometheus_client", "starlette", "uvicorn",
}  # fmt: skip
"""Modules that no package of toolcrib loads until they are needed."""
WORDS = {
    "NAME", "True", "__out", "async", "crib", "doctor", "list", "max", "mcpServers", "select", "serve", "str", "toolcrib",
    "with",
}  # fmt: skip
"""Words of the language, of commands and configurations, and arguments, on a page that names parts of the API."""


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    """The project table of pyproject.toml."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    declared: dict[str, Any] = tomllib.loads(text)["project"]
    return declared


def found(place: str) -> Any:
    """Return the object at a place such as `toolcrib:Crib.run`."""
    module, _, names = place.partition(":")
    value: Any = importlib.import_module(module)
    for name in names.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.parametrize("module", NAMES)
def test_the_promised_names_are_public(module: str) -> None:
    assert set(NAMES[module].split()) - set(importlib.import_module(module).__all__) == set()


@pytest.mark.parametrize("place", CALLS)
def test_a_call_takes_what_it_promises(place: str) -> None:
    parameters = inspect.signature(found(place)).parameters.values()
    taken = {each.name: each.default for each in parameters}
    if place == "toolcrib:Crib.add":  # by the names of the options of a tool
        taken |= {"namespace": None, "version": None, "tags": ()}
        assert ToolOptions.__annotations__.keys() >= {"namespace", "version", "tags"}
    promised = CALLS[place]
    assert {
        name: ANY if default is ANY else taken.get(name, "nothing") for name, default in promised.items()
    } == (promised)
    assert promised.keys() <= taken.keys()


@pytest.mark.parametrize("place", RECORDS)
def test_a_record_has_its_promised_fields(place: str) -> None:
    record = found(place)
    fields = getattr(record, "model_fields", None) or record.__dataclass_fields__
    assert set(RECORDS[place].split()) - set(fields) == set()


@pytest.mark.parametrize("place", RECORDS)
def test_a_record_is_frozen(place: str) -> None:
    record = found(place)
    config = getattr(record, "model_config", None)
    assert config["frozen"] if config else record.__dataclass_params__.frozen


@pytest.mark.requirement("names.null")
def test_a_null_value_of_code_is_in_the_json_form() -> None:
    result = ExecuteResult(
        value=None,
        duration=0.0,
        backend=BackendInfo(kind="monty", readiness="prod"),
        limits_enforced=LimitsEnforced(),
    )
    assert result.to_json()["value"] is None


@pytest.mark.requirement("argschema.version")
def test_the_light_schema_is_of_its_date() -> None:
    assert SCHEMA_VERSION == "2025-10-09"


@pytest.mark.requirement("names.extras")
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_brings_what_it_promises(project: dict[str, Any], extra: str) -> None:
    extras = project["optional-dependencies"]
    assert {re.split(r"[<>=]", each)[0] for each in extras[extra]} >= set(EXTRAS[extra].split())
    assert extra in re.findall(r"[a-z]+", extras["all"][0])


@pytest.mark.requirement("names.distribution")
def test_the_distribution_and_the_command_are_called_toolcrib(project: dict[str, Any]) -> None:
    assert (project["name"], project["requires-python"]) == ("toolcrib", ">=3.11")
    assert project["scripts"] == {"toolcrib": "toolcrib.cli:main"}


def test_the_root_lists_just_what_it_offers() -> None:
    assert dir(toolcrib) == sorted([*toolcrib.__all__, "__version__"])
    with pytest.raises(AttributeError, match="no attribute 'Toool'"):
        _ = toolcrib.Toool


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, toolcrib, json; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(subprocess.check_output([sys.executable, "-c", code], text=True)))
    assert loaded.isdisjoint({"mcp", "mcp_types", "numpy", "click", "rich", "httpx", "anyio", "pydantic"})


def test_using_every_floor_loads_no_extra() -> None:
    # Modules that speak to an SDK are loaded when they are first needed; what users import never is one.
    floors = [module.name for module in pkgutil.walk_packages(toolcrib.__path__, "toolcrib.") if module.ispkg]
    code = f"import sys, json, {', '.join(floors)}; print(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(subprocess.check_output([sys.executable, "-c", code], text=True)))
    assert loaded.isdisjoint(HEAVY)


def test_numpy_is_loaded_by_discovery_alone() -> None:
    code = "import sys, toolcrib, toolcrib.adapter, toolcrib.model; print('numpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_names_for_those_who_come_from_the_older_stack_are_in_the_reference(root: Path) -> None:
    page, reference = root / "docs" / "coming-from.md", root / "docs" / "reference"
    ours = [line.split(" | ")[1] for line in page.read_text().splitlines() if line.startswith("| ")]
    named = {
        word
        for text in ours
        for code in re.findall(r"`([^`]+)`", text)
        for word in re.findall(r"[A-Za-z_]\w+", code)
    }
    known = {word for each in reference.glob("*.md") for word in re.findall(r"\w+", each.read_text())}
    for module in map(importlib.import_module, NAMES):
        known.update(member for name in module.__all__ for member in dir(getattr(module, name)))
    assert len(named) > 100
    assert named - known - WORDS == set()
