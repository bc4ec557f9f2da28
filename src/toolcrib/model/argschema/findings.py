"""What reading a schema brings up: problems, warnings, and what only a strict reader refuses."""

from toolcrib.errors import InvalidSchemaError, Problem
from toolcrib.model.argschema.wording import Place, pointer

MAX_PROBLEMS = 32


class Findings:
    """Collects what one reading of one schema brings up, and knows how strictly it is read."""

    def __init__(self, *, strict: bool, extended: bool) -> None:
        self.strict = strict
        self.extended = extended
        self.warnings: list[str] = []
        self.doubts: list[Problem] = []
        self._problems: list[Problem] = []
        self._count = 0

    def refuse(self, at: Place, keyword: str, message: str) -> None:
        """Note something that makes the schema unusable."""
        self._count += 1
        if len(self._problems) < MAX_PROBLEMS:
            self._problems.append(Problem(pointer(at), keyword, message))

    def warn(self, message: str) -> None:
        """Note something that the schema says and nothing enforces."""
        self.warnings.append(message)

    def doubt(self, at: Place, keyword: str, message: str, reading: str) -> None:
        """Note something that a strict reader refuses, and how a permissive one reads it."""
        if self.strict:
            self.refuse(at, keyword, message)
        else:
            self.warnings.append(f"{message} ({reading})")
            if len(self.doubts) < MAX_PROBLEMS:
                self.doubts.append(Problem(pointer(at), keyword, message))

    def raise_problems(self) -> None:
        """Raise every problem noted so far, if there is any.

        Raises:
            InvalidSchemaError: something made the schema unusable.
        """
        if self._problems:
            more = self._count - len(self._problems)
            also = f" (the first {MAX_PROBLEMS} problems; {more} more)" if more else ""
            raise InvalidSchemaError(f"invalid argument schema{also}", tuple(self._problems))
