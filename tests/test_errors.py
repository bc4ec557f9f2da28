"""The tree of errors: base classes, messages, and serialization."""

import copy
import pickle
from types import ModuleType
from typing import Any

import pytest

import toolcrib.errors as module
from toolcrib.errors import (
    ArgsTooLargeError,
    BackendUnavailableError,
    CallUncertainError,
    ChainError,
    CodeError,
    ConfigError,
    ConversionError,
    CribStateError,
    EmbeddingError,
    EngineUnavailableError,
    ExternalRefError,
    InputValidationError,
    InvalidBackendError,
    InvalidChainError,
    InvalidConstraintError,
    InvalidCursorError,
    InvalidSchemaError,
    InvalidToolError,
    InvalidToolIdError,
    InvalidVersionError,
    LimitExceededError,
    LockError,
    LoginError,
    LoginRequiredError,
    MissingExtraError,
    MissingPackageError,
    ModelError,
    NoBackendError,
    NoCompatibleVersionError,
    NotStraightLineError,
    OutputValidationError,
    PolicyDeniedError,
    Problem,
    PromptNotFoundError,
    RateLimitError,
    RequestRefusedError,
    ResourceNotFoundError,
    ResultBlockedError,
    RunNotFoundError,
    RunStateError,
    RuntimeUnavailableError,
    SandboxViolationError,
    SchemaTooComplexError,
    ServerUnavailableError,
    SnapshotError,
    StoreError,
    StreamNotSupportedError,
    ToolCancelledError,
    ToolcribError,
    ToolError,
    ToolExecutionError,
    ToolLoginRequiredError,
    ToolNotFoundError,
    ToolTimeoutError,
    ToolWithheldError,
    UnknownMetaSchemaError,
    UnsupportedDialectError,
    UnsupportedPackageError,
    ValidationError,
    VaultError,
)

BASES: dict[type[ToolcribError], tuple[type[BaseException], ...]] = {
    InvalidVersionError: (ToolcribError, ValueError),
    InvalidConstraintError: (ToolcribError, ValueError),
    InvalidToolError: (ToolcribError, ValueError),
    InvalidToolIdError: (ToolcribError, ValueError),
    InvalidBackendError: (ToolcribError, ValueError),
    ArgsTooLargeError: (ToolcribError, ValueError),
    InvalidCursorError: (ToolcribError, ValueError),
    NoCompatibleVersionError: (ToolcribError, LookupError),
    ToolNotFoundError: (ToolcribError, LookupError),
    ResourceNotFoundError: (ToolcribError, LookupError),
    PromptNotFoundError: (ToolcribError, LookupError),
    RequestRefusedError: (ToolcribError,),
    InvalidSchemaError: (ToolcribError, ValueError),
    UnsupportedDialectError: (InvalidSchemaError,),
    ExternalRefError: (InvalidSchemaError,),
    SchemaTooComplexError: (InvalidSchemaError,),
    UnknownMetaSchemaError: (UnsupportedDialectError, ExternalRefError),
    ValidationError: (ToolcribError, ValueError),
    ConversionError: (ToolcribError, ValueError),
    ToolError: (ToolcribError,),
    NoBackendError: (ToolError,),
    InputValidationError: (ToolError, ValidationError),
    OutputValidationError: (ToolError, ValidationError),
    ToolExecutionError: (ToolError,),
    ToolTimeoutError: (ToolError, TimeoutError),
    ToolCancelledError: (ToolError,),
    BackendUnavailableError: (ToolError, ConnectionError),
    ToolLoginRequiredError: (BackendUnavailableError,),
    StreamNotSupportedError: (ToolError,),
    PolicyDeniedError: (ToolError, PermissionError),
    RateLimitError: (ToolError,),
    ResultBlockedError: (ToolError, PermissionError),
    ToolWithheldError: (PolicyDeniedError,),
    ChainError: (ToolcribError,),
    InvalidChainError: (ChainError, ValidationError),
    ServerUnavailableError: (ToolcribError, ConnectionError),
    LoginRequiredError: (ServerUnavailableError,),
    LoginError: (ToolcribError, PermissionError),
    ConfigError: (ToolcribError, ValueError),
    CribStateError: (ToolcribError, RuntimeError),
    RuntimeUnavailableError: (ToolcribError,),
    SandboxViolationError: (ToolcribError,),
    LimitExceededError: (ToolcribError,),
    CodeError: (ToolcribError,),
    EmbeddingError: (ToolcribError, RuntimeError),
    EngineUnavailableError: (ToolcribError, ConnectionError),
    ModelError: (ToolcribError, RuntimeError),
    RunNotFoundError: (ToolcribError, LookupError),
    RunStateError: (ToolcribError, RuntimeError),
    SnapshotError: (ToolcribError, ValueError),
    CallUncertainError: (ToolcribError, RuntimeError),
    NotStraightLineError: (ToolcribError, ValueError),
    LockError: (ToolcribError, ValueError),
    StoreError: (ToolcribError, OSError),
    VaultError: (StoreError,),
    MissingExtraError: (ToolcribError, ImportError),
    MissingPackageError: (ToolcribError, ImportError),
    UnsupportedPackageError: (MissingExtraError,),
}

TITLE = Problem("/title", "required", "is required")
LABEL = Problem("/labels/2", "type", "must be a string")
WHOLE = Problem("", "type", "must be an object")

TEXTS: list[tuple[ToolcribError, str]] = [
    (
        InvalidVersionError("1.2", "it is partial; write '1.2.0'"),
        "invalid version '1.2': it is partial; write '1.2.0'",
    ),
    (LockError("tools.lock", "its formula is 9"), "tools.lock: its formula is 9"),
    (InvalidConstraintError("^", "a number is missing"), "invalid constraint '^': a number is missing"),
    (InvalidToolError((TITLE, LABEL)), "invalid tool: /title: is required; /labels/2: must be a string"),
    (InvalidToolError((WHOLE,), "add"), "invalid tool 'add': must be an object"),
    (InvalidToolError((WHOLE,), None, "ToolDoc"), "invalid ToolDoc: must be an object"),
    (InvalidToolIdError("a:", "it has an empty part"), "invalid tool id 'a:': it has an empty part"),
    (InvalidBackendError("unknown kind 'x'"), "invalid backend: unknown kind 'x'"),
    (ArgsTooLargeError("6 levels deep"), "example arguments are too large: 6 levels deep"),
    (InvalidCursorError("it is stale"), "invalid cursor: it is stale; ask again without a cursor"),
    (
        NoCompatibleVersionError("core", ("1.0.0", "2.0.0"), ">=3.0.0"),
        "no compatible version of 'core': wanted >=3.0.0, available: 1.0.0, 2.0.0",
    ),
    (
        NoCompatibleVersionError("core", (), ">=3.0.0"),
        "no compatible version of 'core': wanted >=3.0.0, available: none",
    ),
    (ToolNotFoundError("a:b"), "no tool named 'a:b'"),
    (ResourceNotFoundError("a://b", ("a://c",)), "no resource 'a://b'; did you mean 'a://c'?"),
    (PromptNotFoundError("a"), "no prompt 'a'"),
    (
        PromptNotFoundError("a", ("b:a", "c:a"), "several servers have one"),
        "no prompt 'a'; several servers have one; did you mean 'b:a' or 'c:a'?",
    ),
    (
        RequestRefusedError("git", "prompts/get", "no such prompt", -32602),
        "server 'git' refused prompts/get: no such prompt",
    ),
    (ToolNotFoundError("a:b", ("a:c",)), "no tool named 'a:b'; did you mean 'a:c'?"),
    (
        ToolNotFoundError("a:b", ("a:c", "a:d", "a:e")),
        "no tool named 'a:b'; did you mean 'a:c', 'a:d' or 'a:e'?",
    ),
    (
        ToolNotFoundError("a:b", ("a:c",), "register it first"),
        "no tool named 'a:b'; register it first; did you mean 'a:c'?",
    ),
    (InvalidSchemaError("not a schema"), "not a schema"),
    (InvalidSchemaError("not a schema", (TITLE,)), "not a schema: /title: is required"),
    (UnsupportedDialectError("draft-04 is not read"), "draft-04 is not read"),
    (ExternalRefError("nothing is fetched"), "nothing is fetched"),
    (UnknownMetaSchemaError("preload it"), "preload it"),
    (SchemaTooComplexError("too many paths"), "too many paths"),
    (ValidationError((TITLE, LABEL)), "/title: is required; /labels/2: must be a string"),
    (ValidationError((TITLE,), "missing required argument 'title'"), "missing required argument 'title'"),
    (
        ConversionError("no name", adapter="openai", direction="to_canonical"),
        "openai, to_canonical: no name",
    ),
    (ToolError(tool_id="a:b", op="resolve"), "a:b: resolve failed"),
    (
        ToolError(tool_id="a:b", op="execute", backend="mcp:git", reason="no"),
        "a:b: execute failed on mcp:git: no",
    ),
    (NoBackendError(tool_id="a:b"), "a:b has no backend that can run it"),
    (
        NoBackendError(tool_id="a:b", reason="register one"),
        "a:b has no backend that can run it; register one",
    ),
    (InputValidationError((TITLE,), tool_id="a:b"), "a:b: /title: is required"),
    (
        OutputValidationError((LABEL,), tool_id="a:b"),
        "a:b: the result does not fit the output schema: /labels/2: must be a string",
    ),
    (
        ToolExecutionError(tool_id="a:b", reason="disk full", result={"isError": True}),
        "a:b failed: disk full",
    ),
    (ToolExecutionError(tool_id="a:b", backend="local:a:b", reason="no"), "a:b failed: no"),
    (ToolExecutionError(tool_id="a:b:1.0.0", backend="local:a:b", reason="no"), "a:b:1.0.0 failed: no"),
    (ToolExecutionError(tool_id="git:log", backend="mcp:git", reason="no"), "git:log failed: no"),
    (ToolExecutionError(tool_id="git2:log", backend="mcp:git"), "git2:log failed on mcp:git"),
    (ConversionError("there is none", "claude", "get"), "there is none"),
    (ToolTimeoutError(tool_id="a:b", timeout=30.0), "a:b did not finish within 30 s"),
    (ToolTimeoutError(tool_id="a:b", timeout=0.25), "a:b did not finish within 0.25 s"),
    (ToolCancelledError(tool_id="a:b"), "a:b was cancelled"),
    (ToolCancelledError(tool_id="a:b", reason="shutdown"), "a:b was cancelled: shutdown"),
    (
        BackendUnavailableError(tool_id="a:b", backend="mcp:git", reason="it went away"),
        "a:b: mcp:git is unavailable: it went away",
    ),
    (BackendUnavailableError(tool_id="a:b"), "a:b: its backend is unavailable"),
    (
        ToolLoginRequiredError(tool_id="a:b", backend="mcp:a", server="a", reason="it needs a login"),
        "a:b: mcp:a is unavailable: it needs a login",
    ),
    (
        ToolLoginRequiredError(
            tool_id="a:b", backend="mcp:a", server="a", reason="it needs a login", url="https://x/connect/a"
        ),
        "a:b: mcp:a is unavailable: it needs a login; log in at https://x/connect/a and call again",
    ),
    (StreamNotSupportedError(tool_id="a:b"), "a:b cannot stream; run it instead"),
    (
        StreamNotSupportedError(tool_id="a:b", backend="local:x"),
        "a:b cannot stream on local:x; run it instead",
    ),
    (
        ResultBlockedError(tool_id="a:b", reason="1 secret (secret)"),
        "a:b has run, and its result is withheld: it holds 1 secret (secret)",
    ),
    (
        RateLimitError(
            tool_id="a:b", limit="few", reason="the limit 'few' of 2/hour is used up", retry_after=0.01
        ),
        "a:b was not run: the limit 'few' of 2/hour is used up; try again in 0.1 s",
    ),
    (PolicyDeniedError(tool_id="a:b", reason="it deletes"), "a:b was refused by the policy: it deletes"),
    (ToolWithheldError(tool_id="a:b", reason="it has changed"), "a:b is withheld: it has changed"),
    (
        PolicyDeniedError(tool_id="a:b", op="execute", reason="its address is private"),
        "a:b was not sent: its address is private",
    ),
    (ChainError(1, ("first",), "no tool named 'x'"), "step /1 failed: no tool named 'x'"),
    (
        ChainError(1, ("first",), "item 0: it is locked", step_id="note"),
        "step 'note' (/1) failed: item 0: it is locked",
    ),
    (
        InvalidChainError(step_index=1, problems=(TITLE,)),
        "the chain cannot run: /title: is required",
    ),
    (
        ServerUnavailableError("git", "it exited with status 1", "no such module"),
        "server 'git' is unavailable: it exited with status 1; its stderr ends with: no such module",
    ),
    (
        ServerUnavailableError("git", "it exited with status 1", "no TOKEN", advice="it may need TOKEN"),
        "server 'git' is unavailable: it exited with status 1; its stderr ends with: no TOKEN; it may need TOKEN",
    ),
    (ServerUnavailableError("git", "it is off"), "server 'git' is unavailable: it is off"),
    (
        LoginRequiredError("git", "it needs a login: toolcrib login git"),
        "server 'git' is unavailable: it needs a login: toolcrib login git",
    ),
    (LoginError("git", "it was refused"), "no login to server 'git': it was refused"),
    (
        VaultError("/x/vault", "it is sealed with another key"),
        "vault '/x/vault': it is sealed with another key",
    ),
    (CribStateError("it is closed"), "it is closed"),
    (ConfigError("mcp.json", (TITLE, LABEL)), "mcp.json: /title: is required; /labels/2: must be a string"),
    (
        RuntimeUnavailableError("docker", "install docker and start it"),
        "the 'docker' sandbox is not available here: install docker and start it",
    ),
    (SandboxViolationError("it forged a reply"), "the code was stopped: it forged a reply"),
    (LimitExceededError("timeout", "5 s"), "limit 'timeout' exceeded: 5 s"),
    (CodeError("name 'x' is not defined"), "name 'x' is not defined"),
    (CodeError("name 'x' is not defined", 3, 7, "…"), "line 3: name 'x' is not defined"),
    (
        StoreError("/x/store.db", "it is closed; open it again"),
        "store '/x/store.db': it is closed; open it again",
    ),
    (RunNotFoundError("r1"), "no run 'r1'; `toolcrib runs` lists them"),
    (
        RunNotFoundError("r1", "/runs/a.db"),
        (
            "no run 'r1' in /runs/a.db; `toolcrib runs` lists them, and --config names another"
            " configuration, which has runs of its own"
        ),
    ),
    (
        EngineUnavailableError("h:7233", "refused"),
        "the engine of durable runs, Temporal at h:7233, is unavailable: refused",
    ),
    (RunStateError("r1", "it is running"), "run 'r1': it is running"),
    (SnapshotError("r1", "it was changed"), "what is stored of run 'r1' is refused: it was changed"),
    (
        CallUncertainError("r1", {"3": "mail:send"}),
        (
            "run 'r1': call 3 of 'mail:send' may have run, and repeating it may do harm; find out, then resume"
            " with repeat=True to make it again, or with answers={key: value} to go on with that answer"
        ),
    ),
    (NotStraightLineError("a loop", 3), "line 3: a loop"),
    (EmbeddingError("it gave no rows"), "embedding failed: it gave no rows"),
    (
        ModelError("it is busy", "'m' at http://localhost/v1", 429),
        "asking 'm' at http://localhost/v1 failed: it is busy",
    ),
    (
        EmbeddingError("HTTP 401; check api_key", "'small' at http://localhost/v1", 401),
        "embedding with 'small' at http://localhost/v1 failed: HTTP 401; check api_key",
    ),
    (
        MissingExtraError("embedding search", "semantic"),
        "embedding search needs the 'semantic' extra: pip install 'toolcrib[semantic]'",
    ),
    (
        MissingPackageError("toolcrib.integrations.strands", "strands-agents"),
        "toolcrib.integrations.strands needs the package 'strands-agents': pip install 'strands-agents'",
    ),
    (
        UnsupportedPackageError("MCP", "mcp", "mcp", "2.4.0", ">=2.3,<2.4"),
        "MCP needs mcp>=2.3,<2.4, and 2.4.0 is installed: pip install 'toolcrib[mcp]'",
    ),
]
SAMPLES = [error for error, _ in TEXTS]


def name_of(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else type(value).__name__


@pytest.mark.parametrize(("error", "bases"), BASES.items(), ids=name_of)
def test_each_error_has_the_bases_a_caller_would_guess(
    error: type[ToolcribError], bases: tuple[type[BaseException], ...]
) -> None:
    assert error.__bases__ == bases
    assert issubclass(error, ToolcribError)


def test_the_tree_has_no_other_members() -> None:
    defined = {
        member
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, ToolcribError)
    }
    assert defined == {ToolcribError, *BASES}


def test_the_names_on_offer_are_exactly_the_public_ones() -> None:
    imported = {"Any", "Literal", "Sequence", "dataclass"}
    public = {
        name
        for name, member in vars(module).items()
        if not name.startswith("_") and not isinstance(member, ModuleType)
    }
    assert set(module.__all__) == public - imported
    assert module.__all__ == sorted(module.__all__)


def test_every_error_has_a_sample() -> None:
    assert {type(error) for error in SAMPLES} == set(BASES)


@pytest.mark.parametrize(("error", "text"), TEXTS, ids=name_of)
def test_the_message_says_what_was_wrong_and_what_to_do(error: ToolcribError, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        (
            ToolNotFoundError("a:b", suggestions=("a:c",)),
            {"ref": "a:b", "suggestions": ("a:c",)},
        ),
        (ValidationError((TITLE,)), {"problems": (TITLE,)}),
        (
            ConversionError("x", "gemini", "from_canonical"),
            {"adapter": "gemini", "direction": "from_canonical"},
        ),
        (ToolError(tool_id="a:b", op="stream"), {"tool_id": "a:b", "op": "stream", "backend": None}),
        (NoBackendError(tool_id="a:b"), {"op": "select_backend"}),
        (
            InputValidationError((TITLE,), tool_id="a:b", backend="local:x"),
            {"op": "validate_input", "problems": (TITLE,), "tool_id": "a:b", "backend": "local:x"},
        ),
        (OutputValidationError((TITLE,), tool_id="a:b"), {"op": "validate_output", "problems": (TITLE,)}),
        (ToolExecutionError(tool_id="a:b", result=[1]), {"op": "execute", "result": [1]}),
        (ToolTimeoutError(tool_id="a:b", timeout=2), {"op": "execute", "timeout": 2}),
        (StreamNotSupportedError(tool_id="a:b"), {"op": "stream"}),
        (PolicyDeniedError(tool_id="a:b"), {"op": "policy"}),
        (ResultBlockedError(tool_id="a:b"), {"op": "execute"}),
        (ChainError(0, (), "x"), {"step_index": 0, "results": ()}),
        (LimitExceededError("timeout", "x"), {"limit": "timeout"}),
        (CodeError("x", 1, 2, "trace"), {"line": 1, "column": 2, "traceback": "trace"}),
        (CodeError("x"), {"line": None, "column": None, "traceback": ""}),
    ],
    ids=name_of,
)
def test_the_facts_are_attributes(error: ToolcribError, facts: dict[str, Any]) -> None:
    assert {name: getattr(error, name) for name in facts} == facts


@pytest.mark.parametrize("error", SAMPLES, ids=name_of)
@pytest.mark.parametrize(
    "travel", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy],  # noqa: S301 - ours
    ids=["pickle", "copy", "deepcopy"],
)  # fmt: skip
def test_an_error_survives_a_journey_with_its_facts_and_text(error: ToolcribError, travel: Any) -> None:
    error.add_note("seen on the way")
    twin = travel(error)
    assert type(twin) is type(error)
    assert twin is not error
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)
    assert twin.__notes__[-1] == "seen on the way"


@pytest.mark.parametrize("error", SAMPLES, ids=name_of)
def test_an_error_can_be_raised_from_another_and_caught_by_its_base(error: ToolcribError) -> None:
    with pytest.raises(ToolcribError) as caught:
        raise copy.copy(error) from KeyError("cause")
    assert isinstance(caught.value.__cause__, KeyError)


def test_errors_are_equal_only_to_themselves_and_can_be_collected() -> None:
    first, second = InvalidBackendError("x"), InvalidBackendError("x")
    assert first != second
    assert len({first, second}) == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x" * 1_000_000, f"'{'x' * 119}…"),
        (10**5_000, "a int"),
        (None, "None"),
        (["a"], "['a']"),
    ],
    ids=["long", "unprintable", "none", "list"],
)
def test_a_value_in_a_message_is_shown_in_a_few_words(value: object, shown: str) -> None:
    assert str(InvalidVersionError(value, "no")) == f"invalid version {shown}: no"


def test_a_value_that_is_too_deep_to_print_is_named_by_its_type() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert str(InvalidToolIdError(deep, "no")) == "invalid tool id a list: no"


def test_a_problem_shows_its_place_first() -> None:
    assert str(TITLE) == "/title: is required"
    assert str(WHOLE) == "must be an object"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ToolNotFoundError("x", ("y",)), {"code": "tool_not_found", "op": "resolve", "tool_id": "x"}),
        (NoBackendError(tool_id="a"), {"code": "no_backends", "op": "select_backend"}),
        (InputValidationError((TITLE,), tool_id="a"), {"code": "validation_input", "op": "validate_input"}),
        (OutputValidationError((TITLE,), tool_id="a"), {"code": "validation_output"}),
        (ToolExecutionError(tool_id="a"), {"code": "execution_failed", "retryable": False}),
        (ToolTimeoutError(tool_id="a", timeout=1), {"code": "timeout", "retryable": True}),
        (ToolCancelledError(tool_id="a"), {"code": "cancelled"}),
        (BackendUnavailableError(tool_id="a"), {"code": "backend_unavailable", "retryable": True}),
        (
            ToolLoginRequiredError(tool_id="a", server="git", url="https://x"),
            {
                "code": "backend_unavailable",
                "retryable": False,
                "details": {"login": "git", "url": "https://x"},
            },
        ),
        (ServerUnavailableError("git", "gone"), {"code": "backend_unavailable", "retryable": True}),
        (StreamNotSupportedError(tool_id="a"), {"code": "stream_not_supported"}),
        (PolicyDeniedError(tool_id="a"), {"code": "denied", "op": "policy"}),
        (ToolWithheldError(tool_id="a"), {"code": "denied", "op": "resolve"}),
        (LimitExceededError("timeout", "5 s"), {"code": "limit_exceeded", "details": {"limit": "timeout"}}),
        (ChainError(2, (), "x"), {"code": "chain_step_failed", "step_index": 2}),
        (InvalidChainError(step_index=1, problems=(TITLE,)), {"code": "validation_input", "step_index": 1}),
        (ValidationError((TITLE,)), {"code": "validation_input"}),
        (InvalidCursorError("x"), {"code": "validation_input"}),
        (StoreError("x", "y"), {"code": "internal"}),
        (LoginError("git", "y"), {"code": "denied", "retryable": False}),
        (LoginRequiredError("git", "y"), {"code": "backend_unavailable", "retryable": False}),
    ],
    ids=name_of,
)
def test_an_error_is_explained_with_a_code_and_what_is_known(
    error: ToolcribError, expected: dict[str, Any]
) -> None:
    told = module.explain(error)
    assert told["message"] == str(error)
    assert told.items() >= expected.items()


def test_an_explanation_has_the_details_and_that_of_a_chain_its_cause() -> None:
    error = ChainError(0, (), "step failed")
    error.__cause__ = BackendUnavailableError(tool_id="a", backend="mcp:git")
    told = module.explain(error)
    assert told["retryable"]
    assert told["details"]["cause"]["details"] == {"backend": "mcp:git"}
    problems = module.explain(InputValidationError((TITLE,), tool_id="a"))["details"]["problems"]
    assert problems == [{"path": "/title", "keyword": "required", "message": "is required"}]
    assert module.explain(ToolNotFoundError("x", ("y",)))["details"] == {"suggestions": ["y"]}
