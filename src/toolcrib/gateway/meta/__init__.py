"""The meta face: eight tools that find, explain and run all others."""
