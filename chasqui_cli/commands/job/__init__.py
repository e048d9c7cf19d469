"""One job: everything known of it, its result; cancel it."""

VERBS = ("show", "result", "cancel")
