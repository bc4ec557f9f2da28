"""Set-up tooling: edits configuration files, installs into clients, diagnoses, lints and measures."""
