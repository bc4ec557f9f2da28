"""A tool in the forms that search works with: a summary, one text, a document."""

from toolcrib.discovery import facts
from toolcrib.discovery.keys import key_of
from toolcrib.discovery.records import MAX_SHORT_DESCRIPTION_LEN, Document, SearchDoc, Summary
from toolcrib.model import Tool

__all__ = ["document_of", "search_doc", "summarize"]


def summarize(tool: Tool) -> Summary:
    """Return a tool at a glance.

    >>> summarize(Tool(name="add", description="Add numbers.", input_schema={})).short_description
    'Add numbers.'
    """
    text = facts.summary_text(tool, MAX_SHORT_DESCRIPTION_LEN)
    return Summary(
        id=key_of(tool.id),
        name=tool.name,
        namespace=tool.namespace,
        short_description=text,
        summary=text,
        category=facts.category(tool),
        input_modes=facts.input_modes(tool),
        output_modes=facts.output_modes(tool),
        security_summary=facts.security_summary(tool),
        tags=tool.tags,
    )


def search_doc(tool: Tool) -> SearchDoc:
    """Return a tool as one text in lower case.

    >>> tool = Tool(name="Add", namespace="math", description="Adds.", tags=["sum"], input_schema={})
    >>> search_doc(tool).doc_text
    'add math adds. adds. sum'
    """
    summary = summarize(tool)
    parts = (
        *(tool.name, tool.namespace, tool.description, summary.summary, summary.category),
        *(*summary.input_modes, *summary.output_modes, *summary.tags),
    )
    return SearchDoc(
        id=summary.id, doc_text=" ".join(part for part in parts if part).lower(), summary=summary
    )


def document_of(tool: Tool) -> Document:
    """Return a tool as a document, its text built."""
    return Document(
        id=key_of(tool.id),
        namespace=tool.namespace,
        name=tool.name,
        description=tool.description or "",
        tags=tool.tags,
        category=facts.category(tool),
    ).normalized()
