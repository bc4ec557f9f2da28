"""Withholds tools, prompts and templates of servers and APIs that are not approved, or have changed since.

Lists are screened once, when they arrive: tools by `screen_tools` before they enter the catalogue, also those
stored by an earlier run, and prompts and templates by `screen_content` before any caller gets them. A
withheld tool is not in the catalogue, so no search and no call can reach it, and calls of others need no
further check. The gate keeps the reason, for the error of a call that names a withheld tool.

The lock is `tools.lock` beside the configuration file. While it cannot be read, the approved definitions are
unknown, so that all servers which it governs are withheld. A lock that was there and is gone counts as
unreadable.

The gate also records the first definition that it sees of each tool that the lock lacks. This record is in
the user's data and not in the lock, which only people write. It belongs to the command or address of a
server: with another one, all its tools count as new. In the lock, another one is a major change.

There is a gate only where `Settings.asks_for_trust` says so; others load nothing of this.
"""

import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Any

from toolcrib.crib.config.dialects import project_folder
from toolcrib.crib.config.settings import LOCK_NAME, Settings
from toolcrib.errors import LockError, ToolcribError, ToolWithheldError
from toolcrib.execution.mcp.config import TrustMode
from toolcrib.execution.mcp.content import ContentKind
from toolcrib.model import Tool
from toolcrib.model.json_text import sorted_json
from toolcrib.model.toolid import without_version
from toolcrib.paths import seen_file
from toolcrib.trust import Level, Lock, ServerParts, Withheld, scan_text, screen_listed, screen_tools
from toolcrib.trust.drift import PREFIXES
from toolcrib.trust.lock import is_dangling
from toolcrib.trust.screening import approval_of, find_poison, may_pass

_LOG = logging.getLogger("toolcrib.crib.trust")
_SERVER = frozenset({"server"})


class TrustGate:
    """Screens the lists of servers and APIs, and stores withheld items; safe to use from any thread."""

    def __init__(self, settings: Settings, environ: Mapping[str, str] | None = None) -> None:
        self._settings, self._environ = settings, environ
        self._default: TrustMode = "off"
        self._modes: dict[str, TrustMode] = {}
        self._identities: dict[str, str] = {}
        self.governed = frozenset[str]()
        """The servers and APIs of which anything is asked."""
        self.connected = frozenset[str]()
        """Those of them whose tools are listed over the connection that calls go over."""
        self._mutex = RLock()
        self._lock: Lock | None = None
        self._failure: str | None = None
        self._seen_failure: str | None = None
        self._info: dict[str, Mapping[str, Any]] = {}
        """What each server says of itself now."""
        self._withheld: dict[str, Mapping[str, Withheld]] = {}
        """The withheld tools of each server, by their ids without versions."""
        self._seen = self._read_seen()
        self._read_lock()

    def adopt(self, settings: Settings) -> None:
        """Apply other settings, and read the lock again; lists must be screened again afterwards."""
        with self._mutex:
            self._settings = settings
            self._read_lock()

    def _read_lock(self) -> None:
        path = self._settings.lock_file
        self._failure = None
        try:
            if path is not None and (self._lock is not None or os.path.lexists(path)):
                self._lock = load_lock(path)
        except LockError as error:
            _LOG.error("nothing that %s governs is used: %s", LOCK_NAME, error)
            self._failure = f"{LOCK_NAME} cannot be read: {error.reason}"
        self._read_modes()

    def _read_seen(self) -> Lock:
        if self._settings.source is None:
            return Lock()
        try:
            path = seen_file(self._settings.source, self._environ)
            return Lock.load(path) if os.path.lexists(path) else Lock()
        except ToolcribError as error:
            _LOG.error("nothing is used that was not approved: %s", error)
            self._seen_failure = (
                f"what was first seen of it cannot be read: {error}; approve it with `toolcrib lock`, or "
                "delete that file to trust what it offers now"
            )
            return Lock()

    @property
    def lock(self) -> Lock:
        """The approved definitions, as far as the lock could be read."""
        return self._lock or Lock()

    @property
    def seen(self) -> Lock:
        """The definitions that were seen first, whether or not the lock has them."""
        return self._seen

    def mode(self, name: str) -> TrustMode:
        """Return the trust mode of a server or an API."""
        return self._modes.get(name, self._default)

    def _allow(self, name: str) -> Level:
        """Return the greatest level of change of a server or an API that needs no approval."""
        return self._settings.trust.allow or ("none" if self.mode(name) == "strict" else "patch")

    def _read_modes(self) -> None:
        """Compute the mode of each server and API; calls read it often, and settings copy their values."""
        settings = self._settings
        is_governed = self._lock is not None or self._failure is not None
        default: TrustMode = settings.trust.mode or ("tofu" if is_governed else "off")
        configs: dict[str, Any] = {**settings.servers, **settings.openapi}
        self._default, self._modes = default, {name: each.trust or default for name, each in configs.items()}
        self.governed = frozenset(name for name, mode in self._modes.items() if mode != "off")
        self._identities = {name: identity_of(name, settings) for name in self.governed}
        personal = {name for name, each in settings.servers.items() if each.is_personal}
        self.connected = self.governed & settings.servers.keys() - personal

    def fault(self, name: str) -> str | None:
        """Return why nothing of a server or an API may be used; None if that is decided one by one."""
        mode = self.mode(name)
        if mode == "off" or self._failure is not None:
            return None if mode == "off" else self._failure
        approved = self.lock.servers.get(name)
        if mode == "tofu" and approved is None and self._seen_failure is not None:
            return self._seen_failure
        known = approved or self._seen.servers.get(name)
        if known is None or may_pass("major", self._allow(name)):
            return None
        was, is_now = known.parts.info.get("name"), self._info.get(name, {}).get("name")
        change = None
        if approved is not None and approved.parts.identity != self._identities.get(name):
            change = "it is started or reached in another way than was approved, or in another sandbox"
        elif was is not None and is_now is not None and was != is_now:
            change = "it calls itself by another name than before"
        return change and f"{change}; {approval_of(f'server/{name}')}"

    # What servers list

    def screen_tools(
        self, name: str, tools: Iterable[Tool], facts: tuple[Mapping[str, Any], str] | None = None
    ) -> tuple[Tool, ...]:
        """Return the listed tools of a server or an API that may be used.

        `facts` are its `serverInfo` and its instructions; None if it has not answered in this run, so that
        the tools are what an earlier one has kept, and do not count as seen.
        """
        listed = tuple(tools)
        with self._mutex:
            mode = self.mode(name)
            if mode == "off":
                self._withheld.pop(name, None)
                return listed
            if facts is not None:
                self._info[name] = facts[0]
            if mode == "tofu" and facts is not None:
                self._note_server(name, *facts)
            if fault := self.fault(name):
                withheld = {str(tool.id): Withheld(str(tool.id), fault, tool=tool) for tool in listed}
                return self._keep(name, withheld, ())
            found = screen_tools(listed, self.lock, self._seen, mode=mode, allow=self._allow(name))
            if found.first_seen and facts is not None:
                self._note(lambda seen: seen.note(found.first_seen))
            return self._keep(name, found.withheld, found.admitted)

    def _keep(
        self, name: str, withheld: Mapping[str, Withheld], admitted: tuple[Tool, ...]
    ) -> tuple[Tool, ...]:
        """Store the withheld tools of a server, log new ones, and return the admitted."""
        before = self._withheld.get(name, {})
        self._withheld[name] = withheld
        for tool_id, each in withheld.items():
            if tool_id not in before or before[tool_id].reason != each.reason:
                _LOG.warning("%s is withheld: %s", tool_id, each.reason)
        return admitted

    def screen_content(
        self, name: str, kind: ContentKind, items: tuple[Any, ...], *, is_noted: bool
    ) -> tuple[tuple[Any, ...], Mapping[str, Withheld]]:
        """Return the usable resources, templates or prompts of a server, and the withheld ones by names.

        Of resources, those are left out whose own words the scan calls poisoned; what they hold is data, and
        can be read all the same. `is_noted` says whether the others count as seen: not what one person alone
        is given, nor what an earlier run has kept.
        """
        with self._mutex:
            mode = self.mode(name)
            if mode == "off":
                return items, {}
            if self.fault(name):
                return (), {}
            if kind == "resources":
                return self._screen_resources(name, items)
            subjects = {f"{PREFIXES[kind]}/{name}/{key_of(each)}": each for each in items}
            parts = self._parts_of(name, kind, items)
            withheld, first = screen_listed(
                name, parts, self.lock, self._seen, mode=mode, allow=self._allow(name)
            )
            if first and is_noted:
                fresh = self._parts_of(name, kind, [subjects[subject] for subject in first])
                self._note(lambda seen: seen.note_server(name, fresh))
        by_name = {key_of(subjects[subject]): each for subject, each in withheld.items()}
        return tuple(each for each in items if key_of(each) not in by_name), by_name

    def _screen_resources(
        self, name: str, items: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], Mapping[str, Withheld]]:
        accepted = [rule for owner, rule in self.lock.suppressions if owner == name]
        withheld: dict[str, Withheld] = {}
        for each in items:
            words = "\n".join(filter(None, (each.title, each.description)))
            report = scan_text(words).without(accepted)
            if report.verdict == "poisoned":
                subject = f"resource/{name}/{key_of(each)}"
                rules = list(dict.fromkeys(found.rule for found in report.findings))
                reason = (
                    f"its words may mislead a model ({', '.join(rules)}); `toolcrib approve server/{name} "
                    f"--suppress {rules[0]} --reason TEXT` accepts what a rule finds"
                )
                withheld[key_of(each)] = Withheld(subject, reason)
        return tuple(each for each in items if key_of(each) not in withheld), withheld

    def _parts_of(self, name: str, kind: str, items: Iterable[Any]) -> ServerParts:
        """Return prompts or templates as parts of a server."""
        listed: dict[str, Any] = {kind: {key_of(each): each.to_json(without=_SERVER) for each in items}}
        return ServerParts(self._identities.get(name, ""), **listed)

    def instructions(self, name: str, text: str) -> str:
        """Return the instructions of a server if they are approved or as first seen, else nothing.

        They go to a model as they are, so no change of them passes but where any change does.
        """
        if not text or self.mode(name) == "off":
            return text
        if self.fault(name):
            return ""
        known = self.lock.servers.get(name)
        if known is None and self.mode(name) == "tofu":
            known = self._seen.servers.get(name)
        is_same = known is not None and known.parts.instructions == text
        return text if is_same or may_pass("major", self._allow(name)) else ""

    # What was seen first

    def _note_server(self, name: str, info: Mapping[str, Any], instructions: str) -> None:
        """Store a server's information and instructions at first sight, if the lock does not have it."""
        if name in self.lock.servers:
            return
        identity = self._identities.get(name, "")
        known = self._seen.servers.get(name)
        if instructions and (known is None or known.parts.identity != identity or not known.parts.info):
            poison = find_poison(partial(scan_text, instructions), self.lock, f"server/{name}", name)
            if poison is not None:
                _LOG.warning("the instructions of %r are withheld: %s", name, poison)
                instructions = ""
        parts = ServerParts(identity, info, instructions or None)
        if known is None or known.parts.identity != identity:
            self._note(lambda seen: seen.forget(name).note_server(name, parts))
        elif not known.parts.info and info:
            self._note(lambda seen: seen.note_server(name, parts))

    def _note(self, change: Callable[[Lock], Lock]) -> None:
        """Store a definition at first sight, for later runs too if there is a configuration file."""
        if self._seen_failure is not None:
            return
        if self._settings.source is not None:
            try:
                self._seen = Lock.update(seen_file(self._settings.source, self._environ), change)
            except ToolcribError as error:
                _LOG.warning("what was first seen is not stored for later runs: %s", error)
            else:
                return
        self._seen = change(self._seen)

    # What is withheld

    def withheld_tools(self, name: str) -> Mapping[str, Withheld]:
        """Return the tools of a server or an API that may not be used, by id."""
        return self._withheld.get(name, {})

    def find_withheld(self, ref: str) -> Withheld | None:
        """Return the withheld tool that a reference means, in any version; None if it means none.

        A name alone means the tool of the only server that has a withheld one of that name.
        """
        namespace, separator, name = without_version(ref).rpartition(":")
        if not separator:
            servers = [
                server
                for server, withheld in tuple(self._withheld.items())
                if any(each.tool is not None and each.tool.name == name for each in withheld.values())
            ]
            return self.find_withheld(f"{servers[0]}:{name}") if len(servers) == 1 else None
        for each in self._withheld.get(namespace, {}).values():
            if each.tool is not None and each.tool.name == name:
                return each
        fault = self.fault(namespace)
        return None if fault is None else Withheld(ref, fault)

    def approved_ids(self, name: str) -> tuple[str, ...]:
        """Return the ids, without versions, of approved, first seen and blocked tools of a name."""
        known = {*self.lock.tools, *self.lock.blocked, *self._seen.tools}
        ids = {without_version(each) for each in known}
        return tuple(sorted(each for each in ids if each.rpartition(":")[2] == name))

    def governs(self, name: str) -> bool:
        """Return whether the prompts or resources of a server need a check.

        Raises:
            ToolWithheldError: nothing of it may be used.
        """
        if fault := self.fault(name):
            raise ToolWithheldError(tool_id=name, reason=fault)
        return name in self.governed

    def check_prompt(
        self, server: str, name: str, withheld: Mapping[str, Withheld], listed: Collection[str]
    ) -> None:
        """Check that a prompt may be used, given the withheld and the other prompts of its server.

        Raises:
            ToolWithheldError: it may not.
        """
        known = withheld.get(name)
        if known is None and self.mode(server) == "strict" and name not in listed:
            subject = f"prompt/{server}/{name}"
            known = Withheld(
                subject,
                "it is not approved, and its server does not list it; only listed tools can be approved",
            )
        if known is not None:
            raise self.error(known, f"{server}:{name}")

    @staticmethod
    def error(withheld: Withheld, tool_id: str) -> ToolWithheldError:
        """Return the error for the use of something that is withheld."""
        return ToolWithheldError(tool_id=tool_id, reason=withheld.reason, level=withheld.level)

    def forget(self, name: str) -> None:
        """Forget the withheld items of a removed server or API."""
        with self._mutex:
            self._withheld.pop(name, None)
            self._info.pop(name, None)


def load_lock(path: Path) -> Lock:
    """Return the lock stored in a file.

    Raises:
        LockError: it cannot be read; the reason says how to repair it.
    """
    try:
        return Lock.load(path)
    except LockError as error:
        if is_dangling(path):
            raise
        if not os.path.lexists(path):
            remedy = "restore it from version control"
        else:
            remedy = (
                "restore it from version control, or rewrite it with `toolcrib lock --force`: that "
                "approves what the servers list now, and loses the blocks and suppressions in the file"
            )
        raise LockError(error.path, f"{error.reason}; {remedy}") from error


def identity_of(name: str, settings: Settings) -> str:
    """Return a digest of how a server or an API is started or reached, the same in each checkout.

    Variables stand as they are written, and of secrets that are written out only the places count.
    """
    folder = None if settings.source is None else project_folder(Path(settings.source).parent)
    api = settings.openapi.get(name)
    if api is None:
        return settings.servers[name].identity_in(folder) if name in settings.servers else ""
    document = Path(api.document)
    is_below = folder is not None and document.is_relative_to(folder)
    path = document.relative_to(folder).as_posix() if folder is not None and is_below else str(document)
    return sha256(sorted_json([api.base_url, path]).encode(errors="surrogatepass")).hexdigest()


def key_of(item: Any) -> str:
    """Return the key of a prompt or a template in a lock."""
    return str(getattr(item, "uri_template", None) or getattr(item, "uri", None) or item.name)
