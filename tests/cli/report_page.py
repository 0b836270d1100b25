"""report_page.py PAGE [TEXT...]: is the page of `attune cache report` whole, by itself and fit to be read aloud?

It is well-formed XML as well as HTML, needs nothing from outside, has no scripts, its figures have titles, its tables
heads; and each TEXT stands in it as text, character by character.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

VOID = {"meta", "br"}
KNOWN = {"html", "head", "meta", "title", "style", "body", "header", "main", "section", "h1", "h2", "h3", "p", "a", "strong",
         "small", "span", "code", "div", "dl", "dt", "dd", "ul", "li", "table", "caption", "thead", "tbody", "tr", "th", "td",
         "figure", "figcaption", "br", "svg", "desc", "path", "rect", "text"}


def check(page):
    raw = open(page, encoding="utf-8").read()
    root = ElementTree.fromstring(raw.replace("<!DOCTYPE html>", ""))
    identifiers, targets = [], []
    for element in root.iter():
        assert element.tag in KNOWN, f"<{element.tag}> is no part of a report"
        assert element.tag not in VOID or (element.text is None and len(element) == 0), f"<{element.tag}> is not empty"
        assert not any(name.startswith("on") for name in element.keys()), f"<{element.tag}> has a handler"
        for name in ("src", "srcset", "xlink:href", "action", "data"):
            assert name not in element.keys(), f"<{element.tag}> refers outside by {name}"
        if "href" in element.keys():
            assert element.get("href").startswith("#"), f"a link leads to {element.get('href')}"
            targets.append(element.get("href")[1:])
        targets += (element.get("aria-labelledby") or "").split()
        if "id" in element.keys():
            identifiers.append(element.get("id"))
        assert "url(" not in (element.get("style") or ""), "a style refers outside"
        if element.tag == "th":
            assert element.get("scope") in ("col", "row", "rowgroup"), "a table head without scope"
        if element.tag == "svg" and element.get("aria-hidden") != "true":
            assert element.get("role") == "img" and element.find("title") is not None and element.find("desc") is not None
        if element.tag == "path":
            assert re.fullmatch(r"[-MHVhvlzL0-9. ]+", element.get("d")), f"a path holds {element.get('d')[:200]}"
    assert len(identifiers) == len(set(identifiers)), "an id stands twice"
    for target in targets:
        assert target in identifiers, f"nothing has the id {target}"
    style = root.find("head/style").text
    assert "@import" not in style and "url(" not in style and "@media print" in style
    assert not re.search(r"https?:", raw), "an address of the network"
    assert not re.search(r"\b(nan|inf)\b", raw), "a number that is none"
    return root


def main():
    root = check(sys.argv[1])
    words = " ".join(" ".join(root.itertext()).split())
    for text in sys.argv[2:]:
        assert " ".join(text.split()) in words, f"not in the page: {text}"
    print(f"{len(list(root.iter('svg')))} figures, {len(list(root.iter('tr')))} rows")


main()
