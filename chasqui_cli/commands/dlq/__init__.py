"""Dead letters: see why jobs died, put them back to work, edit, export, import or purge them."""

VERBS = ("peek", "groups", "replay", "edit", "export", "import", "purge")
