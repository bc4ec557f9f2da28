"""Walls around servers that are started: what each may read, write and reach."""
