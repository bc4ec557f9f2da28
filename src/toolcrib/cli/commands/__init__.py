"""The commands: find, run, serve, set up, check; each is loaded when it is used."""
