"""The Turtle file of somebody who brings one: towns and people with spaces and accents in their names."""

from __future__ import annotations

from pathlib import Path

FIRST = ("Zoë", "José", "Łukasz", "Søren", "Renée", "Øyvind", "Ása", "Ñuño", "Émile", "Þóra", "Çelik", "Ünal")
LAST = ("Müller", "Núñez", "Ångström", "Nguyễn", "Dvořák", "Żak")
TOWNS = {
    "São Paulo": "Brésil",
    "Kraków": "Polska",
    "Zürich": "Schweiz",
    "Malmö": "Sverige",
    "Orléans": "France",
    "Reykjavík": "Ísland",
}
FILE = "mes données été.ttl"


def iri(name: str) -> str:
    """The name as an IRI between angle brackets, as Turtle and queries write it."""
    return f"<http://exemple.org/{name.replace(' ', '_')}>"


def person(number: int) -> str:
    """One of 72 people."""
    return f"{FIRST[number // len(LAST)]} {LAST[number % len(LAST)]}"


def facts() -> list[tuple[str, str, str]]:
    """Everybody is born in one of six towns, has a friend, and, two generations out of three, a child."""
    people = len(FIRST) * len(LAST)
    made = [(town, "liegt_in", land) for town, land in TOWNS.items()]
    for number in range(people):
        made.append((person(number), "née à", list(TOWNS)[number % len(TOWNS)]))
        made.append((person(number), "ami_de", person((number + 6) % people)))
        if number + 24 < people:
            made.append((person(number), "parent_de", person(number + 24)))
    return made


def write_table(file: Path, header: str, order: tuple[int, int, int], separator: str) -> None:
    """The facts under a header of four columns, in an `order`; with a byte order mark and CRLF, as spreadsheets do."""
    rows = [separator.join([*(fact[place] for place in order), "1999"]) for fact in facts()]
    file.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([header, *rows]).encode() + b"\r\n")


def write_turtle(folder: Path) -> Path:
    """The same as Turtle, and everybody's and every land's name as a literal."""
    people = len(FIRST) * len(LAST)
    lines = ["@prefix ex: <http://exemple.org/> ."]
    lines += [f"{iri(town)} ex:liegt_in {iri(land)} ; ex:nom {land!r} ." for town, land in TOWNS.items()]
    for number in range(people):
        me = iri(person(number))
        lines.append(f"{me} {iri('née à')} {iri(list(TOWNS)[number % len(TOWNS)])} ; ex:nom '{person(number)}' .")
        lines.append(f"{me} ex:ami_de {iri(person((number + 6) % people))} .")
        if number + 24 < people:
            lines.append(f"{me} ex:parent_de {iri(person(number + 24))} .")
    file = folder / FILE
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file
