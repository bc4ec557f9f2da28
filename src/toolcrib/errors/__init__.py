"""Errors that toolcrib raises on purpose, in one tree under `ToolcribError`.

Each class also subclasses the most similar builtin exception, has its details as attributes, and builds its
message from them: the problem first, then the remedy.

    ToolcribError
    ├── InvalidVersionError, InvalidConstraintError, InvalidToolError, InvalidToolIdError,
    │   InvalidBackendError, ArgsTooLargeError, InvalidCursorError      (ValueError)
    ├── NoCompatibleVersionError, ToolNotFoundError, ResourceNotFoundError,
    │   PromptNotFoundError, RunNotFoundError                           (LookupError)
    ├── InvalidSchemaError                                              (ValueError)
    │   ├── UnsupportedDialectError, ExternalRefError, SchemaTooComplexError
    │   └── UnknownMetaSchemaError      (UnsupportedDialectError, ExternalRefError)
    ├── ValidationError                                                 (ValueError)
    ├── ConversionError, SnapshotError, NotStraightLineError, LockError (ValueError)
    ├── ToolError
    │   ├── NoBackendError, ToolExecutionError, ToolCancelledError, StreamNotSupportedError,
    │   │   RateLimitError
    │   ├── InputValidationError, OutputValidationError                 (ValidationError)
    │   ├── ToolTimeoutError                                            (TimeoutError)
    │   ├── BackendUnavailableError                                     (ConnectionError)
    │   │   └── ToolLoginRequiredError
    │   └── PolicyDeniedError, ResultBlockedError (PermissionError)
    │       └── ToolWithheldError                                       (PolicyDeniedError)
    ├── ChainError
    │   └── InvalidChainError                                           (ValidationError)
    ├── EngineUnavailableError                                          (ConnectionError)
    ├── ServerUnavailableError                                          (ConnectionError)
    │   └── LoginRequiredError
    ├── LoginError                                                      (PermissionError)
    ├── RequestRefusedError
    ├── ConfigError                                                     (ValueError)
    ├── RuntimeUnavailableError, SandboxViolationError, LimitExceededError, CodeError
    ├── StoreError                                                      (OSError)
    │   └── VaultError
    ├── EmbeddingError, ModelError, CribStateError, RunStateError,
    │   CallUncertainError                                              (RuntimeError)
    └── MissingExtraError, MissingPackageError                          (ImportError)
        └── UnsupportedPackageError
"""

from toolcrib.errors.base import Problem, ToolcribError
from toolcrib.errors.definitions import (
    ArgsTooLargeError,
    ConversionError,
    ExternalRefError,
    InvalidBackendError,
    InvalidConstraintError,
    InvalidCursorError,
    InvalidSchemaError,
    InvalidToolError,
    InvalidToolIdError,
    InvalidVersionError,
    LockError,
    NoCompatibleVersionError,
    PromptNotFoundError,
    ResourceNotFoundError,
    SchemaTooComplexError,
    ToolNotFoundError,
    UnknownMetaSchemaError,
    UnsupportedDialectError,
    ValidationError,
)
from toolcrib.errors.durable import (
    CallUncertainError,
    EngineUnavailableError,
    NotStraightLineError,
    RunNotFoundError,
    RunStateError,
    SnapshotError,
)
from toolcrib.errors.explain import explain
from toolcrib.errors.running import (
    BackendUnavailableError,
    ChainError,
    CodeError,
    ConfigError,
    CribStateError,
    EmbeddingError,
    InputValidationError,
    InvalidChainError,
    LimitExceededError,
    LoginError,
    LoginRequiredError,
    MissingExtraError,
    MissingPackageError,
    ModelError,
    NoBackendError,
    Op,
    OutputValidationError,
    PolicyDeniedError,
    RateLimitError,
    RequestRefusedError,
    ResultBlockedError,
    RuntimeUnavailableError,
    SandboxViolationError,
    ServerUnavailableError,
    StoreError,
    StreamNotSupportedError,
    ToolCancelledError,
    ToolError,
    ToolExecutionError,
    ToolLoginRequiredError,
    ToolTimeoutError,
    ToolWithheldError,
    Unconfirmed,
    UnsupportedPackageError,
    VaultError,
)

__all__ = [
    "ArgsTooLargeError",
    "BackendUnavailableError",
    "CallUncertainError",
    "ChainError",
    "CodeError",
    "ConfigError",
    "ConversionError",
    "CribStateError",
    "EmbeddingError",
    "EngineUnavailableError",
    "ExternalRefError",
    "InputValidationError",
    "InvalidBackendError",
    "InvalidChainError",
    "InvalidConstraintError",
    "InvalidCursorError",
    "InvalidSchemaError",
    "InvalidToolError",
    "InvalidToolIdError",
    "InvalidVersionError",
    "LimitExceededError",
    "LockError",
    "LoginError",
    "LoginRequiredError",
    "MissingExtraError",
    "MissingPackageError",
    "ModelError",
    "NoBackendError",
    "NoCompatibleVersionError",
    "NotStraightLineError",
    "Op",
    "OutputValidationError",
    "PolicyDeniedError",
    "Problem",
    "PromptNotFoundError",
    "RateLimitError",
    "RequestRefusedError",
    "ResourceNotFoundError",
    "ResultBlockedError",
    "RunNotFoundError",
    "RunStateError",
    "RuntimeUnavailableError",
    "SandboxViolationError",
    "SchemaTooComplexError",
    "ServerUnavailableError",
    "SnapshotError",
    "StoreError",
    "StreamNotSupportedError",
    "ToolCancelledError",
    "ToolError",
    "ToolExecutionError",
    "ToolLoginRequiredError",
    "ToolNotFoundError",
    "ToolTimeoutError",
    "ToolWithheldError",
    "ToolcribError",
    "Unconfirmed",
    "UnknownMetaSchemaError",
    "UnsupportedDialectError",
    "UnsupportedPackageError",
    "ValidationError",
    "VaultError",
    "explain",
]

for _name in __all__:  # tracebacks and pickles name the place that callers import from
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__
