"""Servers by name: list them, choose one, see and set what is kept of each."""

VERBS = ("list", "show", "use", "set")
