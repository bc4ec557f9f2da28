"""Shared concurrency: background tasks, deadlines, in-flight counts, event loops in threads, threads."""
