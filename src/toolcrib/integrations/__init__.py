"""The tools of a crib in agent frameworks, and the tools of frameworks in a crib, a module for each.

Each module imports its framework, so that `import toolcrib.integrations` needs none of them. All calls are
made by `toolbox.Toolbox`, which runs them as `crib.run` does, with its rules, limits, validation and audit.
"""
