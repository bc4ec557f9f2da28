"""A constraint: which versions will do, in npm's range grammar."""

from dataclasses import dataclass, field
from typing import Self

from toolcrib.errors import InvalidConstraintError, InvalidVersionError
from toolcrib.version.comparators import Comparators, desugar
from toolcrib.version.grammar import MAX_CONSTRAINT_LENGTH, parse_terms
from toolcrib.version.semver import Version, as_version


@dataclass(frozen=True, slots=True)
class Constraint:
    """A set of versions, written as an npm range; equal when the canonical forms are.

    >>> constraint = Constraint.parse("^1.2 || 3.x")
    >>> "1.9.0" in constraint, "2.0.0" in constraint
    (True, False)
    >>> str(constraint)
    '>=1.2.0 <2.0.0-0||>=3.0.0 <4.0.0-0'

    Raises:
        InvalidConstraintError: When the text is not a range, saying what to change.
    """

    text: str = field(compare=False)
    """The constraint as it was written."""
    _canonical: str = field(init=False, repr=False)
    _alternatives: tuple[Comparators, ...] = field(init=False, repr=False, compare=False)
    _with_prereleases: tuple[Comparators, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        terms = list(parse_terms(self.text))
        try:
            alternatives = desugar(terms, include_prerelease=False)
            with_prereleases = desugar(terms, include_prerelease=True)
        except InvalidVersionError as error:
            raise InvalidConstraintError(self.text, f"a version in it is too long: {error.reason}") from error
        canonical = "||".join(" ".join(map(str, comparators)) for comparators in alternatives) or "*"
        if len(canonical) > MAX_CONSTRAINT_LENGTH:
            reason = (
                f"its canonical form is longer than {MAX_CONSTRAINT_LENGTH} characters; write fewer ranges"
            )
            raise InvalidConstraintError(self.text, reason)
        object.__setattr__(self, "_canonical", canonical)
        object.__setattr__(self, "_alternatives", alternatives)
        object.__setattr__(self, "_with_prereleases", with_prereleases)

    def __str__(self) -> str:
        return self._canonical

    def __contains__(self, version: Version | str) -> bool:
        return self.check(version)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the constraint that a text spells; nothing at all means any version.

        >>> str(Constraint.parse("~1.2.3")), str(Constraint.parse(""))
        ('>=1.2.3 <1.3.0-0', '*')

        Raises:
            InvalidConstraintError: When the text is not an npm range, saying what to change.
        """
        return cls(text)

    def check(self, version: Version | str, include_prerelease: bool = False) -> bool:  # noqa: FBT001, FBT002
        """Tell whether a version satisfies the constraint.

        A prerelease satisfies it only where the constraint names a prerelease of the same
        major.minor.patch: whoever asks for `^1.2.3-rc.1` has opted in to 1.2.3's, not to 1.3.0's.
        With `include_prerelease` prereleases count like any other version.

        >>> constraint = Constraint.parse("^1.2.3-rc.1")
        >>> constraint.check("1.2.3-rc.2"), constraint.check("1.3.0-rc.1")
        (True, False)
        >>> constraint.check("1.3.0-rc.1", include_prerelease=True)
        True

        Raises:
            InvalidVersionError: When a text is not a version.
        """
        version = as_version(version)
        alternatives = self._with_prereleases if include_prerelease else self._alternatives
        opted_in = include_prerelease or not version.prerelease
        return any(
            all(comparator.admits(version) for comparator in comparators)
            and (opted_in or _names_a_prerelease_of(version, comparators))
            for comparators in alternatives
        )


def _names_a_prerelease_of(version: Version, comparators: Comparators) -> bool:
    release = (version.major, version.minor, version.patch)
    return any(
        bound.prerelease and (bound.major, bound.minor, bound.patch) == release for _, bound in comparators
    )
