"""Shared concurrency: background tasks, backoff, deadlines, in-flight counts, event loops, threads."""
