"""A browser that keeps cookies and sends the forms on a page as they are filled in; as a program it goes to an address."""

import html
import re
import sys
import threading
import urllib.request
from http.cookiejar import CookieJar
from urllib.parse import urlencode, urljoin

_FORM = re.compile(r"<form[^>]*action=\"([^\"]*)\"[^>]*>(.*?)</form>", re.DOTALL)
_INPUT = re.compile(r"<(?:input|button)[^>]*name=\"([^\"]*)\"[^>]*value=\"([^\"]*)\"")


def visit(address: str) -> None:
    """Go to an address with cookies, and send the forms there as they are filled in."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    data = None
    for _ in range(5):
        with opener.open(address, data, timeout=60) as page:
            text, address = page.read().decode(), page.url
        form = _FORM.search(text)
        if form is None:
            return
        address = urljoin(address, html.unescape(form.group(1)))
        fields = {name: html.unescape(value) for name, value in _INPUT.findall(form.group(2))}
        data = urlencode({name: value for name, value in fields.items() if name != "abort"}).encode()


def browse(address: str, _: str | None = None) -> None:
    """Go to an address in a thread."""
    threading.Thread(target=visit, args=(address,), daemon=True).start()


if __name__ == "__main__":
    visit(sys.argv[1])
