"""Search by words (`lexical`), by meaning (`semantic`) and by both (`hybrid`), with a confidence in it."""
