"""The SPARQL 1.1 Protocol: how a query comes, in which format its results go, and what the service says of itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import get_args
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from blockhole.answering.search import Candidates
from blockhole.answering.sparql.results import (
    GRAPH_MEDIA_TYPES,
    MEDIA_TYPES,
    Solutions,
    Statements,
    Truth,
    rewritten,
    written,
)
from blockhole.errors import quoted
from blockhole.serving.front import negotiated
from blockhole.serving.schemas import Place, Problem, Refusal, SparqlQuestion, invalid, malformed

_GRAPHS: dict[str, str] = {media: name for name, media in GRAPH_MEDIA_TYPES.items()}
FORMATS: dict[str, str] = {
    **{media: name for name, media in MEDIA_TYPES.items()},
    **_GRAPHS,
    "application/json": "json",
    "application/xml": "xml",
    "text/xml": "xml",
}
"""The name of a format by what Accept calls it, those first that serve who does not say."""
_MOST_FIELDS = 100


async def asked_in_body(request: Request, otherwise: SparqlQuestion) -> SparqlQuestion:
    """The query that is a body, or stands in its form, whose fields count more than those of the address."""
    refuse_data_sets(request.query_params)
    try:
        body = (await request.body()).decode("utf-8")
    except UnicodeDecodeError:
        raise malformed("the body is not text in UTF-8; send it as such.") from None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/sparql-query":
        return replace(otherwise, query=body)
    try:
        form = dict(parse_qsl(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise malformed(f"a form may have {_MOST_FIELDS} fields at most.") from None
    refuse_data_sets(form)
    refuse_misspelt(form)
    if "query" not in form:
        if "update" in form:
            raise malformed("SPARQL Update is not supported: a run is read, never changed.")
        raise malformed("the query is missing; send it as the body, or as the field query of a form.")
    known = _TRUTH.get(form.get("known", str(otherwise.known)).lower())
    if known is None:
        raise invalid("known must be true or false.", "known")
    candidates = form.get("candidates", otherwise.candidates)
    if candidates not in get_args(Candidates):
        raise invalid("candidates must be 'typed' or 'all'.", "candidates")
    threshold, run = _threshold(form, otherwise.threshold), form.get("run", otherwise.run)
    return SparqlQuestion(form["query"], known, threshold, "all" if candidates == "all" else "typed", run)


_TRUTH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def _threshold(form: Mapping[str, str], otherwise: float | None) -> float | None:
    try:
        return float(form["threshold"]) if "threshold" in form else otherwise
    except ValueError:
        message = f"threshold must be a probability above 0, at most 1, not {quoted(form['threshold'])}."
        raise invalid(message, "threshold") from None


def refuse_data_sets(parameters: Mapping[str, str]) -> None:
    """Refuse a choice of graphs, as there is one."""
    for name in ("default-graph-uri", "named-graph-uri"):
        if name in parameters:
            problem = Problem(kind="sparql", message=f"there is one graph; leave out {name}.", place=Place(field=name))
            raise Refusal(400, problem)


_PARAMETERS = ("query", "known", "threshold", "candidates", "run")


def refuse_misspelt(parameters: Iterable[str]) -> None:
    """Refuse a parameter that is like one of ours, and pass over what else clients send, such as their `format`."""
    for name in parameters:
        near = get_close_matches(name.lower(), _PARAMETERS, n=1, cutoff=0.75)
        if near and name not in _PARAMETERS:
            raise invalid(f"there is no parameter {quoted(name)}; did you mean {near[0]}?", name)


# Formats


def results_in(accept: Sequence[str], result: Solutions | Truth | Statements) -> Response:
    """Results in the format that a request likes best of those that fit them."""
    own = GRAPH_MEDIA_TYPES.keys() if isinstance(result, Statements) else MEDIA_TYPES.keys()
    form = FORMATS[negotiated(accept, [media for media, name in FORMATS.items() if name in own])]
    media = next(media for media, name in FORMATS.items() if name == form)
    headers = {"Vary": "Accept"} | ({} if result.complete else {"X-Complete": "false"})
    return Response(written(result, form), media_type=media, headers=headers)


# The service description


def described(request: Request) -> Response:
    """What this service is, in RDF, as SPARQL 1.1 wants services to say it."""
    media = negotiated(request.headers.getlist("accept"), [*_GRAPHS])
    address = str(request.url.replace(query=""))
    text = _DESCRIPTION.replace("ADDRESS", address).replace("COMMENT", " ".join(_COMMENT.split()))
    body = rewritten(text, _GRAPHS[media], {"sd": "http://www.w3.org/ns/sparql-service-description#"})
    return Response(body, media_type=media, headers={"Vary": "Accept"})


_DESCRIPTION = """
@prefix sd: <http://www.w3.org/ns/sparql-service-description#> .
@prefix formats: <http://www.w3.org/ns/formats/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
<ADDRESS> a sd:Service ;
  sd:endpoint <ADDRESS> ;
  sd:supportedLanguage sd:SPARQL11Query ;
  sd:resultFormat formats:SPARQL_Results_JSON, formats:SPARQL_Results_XML, formats:SPARQL_Results_CSV,
    formats:SPARQL_Results_TSV, formats:Turtle, formats:N-Triples, formats:RDF_XML, formats:JSON-LD ;
  sd:defaultDataset [ a sd:Dataset ; sd:defaultGraph [ a sd:Graph ] ] ;
  rdfs:comment "COMMENT" .
"""
_COMMENT = """
SELECT, ASK and CONSTRUCT over known and predicted edges. A query gets what holds: known answers, and predicted ones of
a probability of at least one half, or of the parameter threshold; the parameter known leaves predicted ones out. In a
query, PREFIX answers: <urn:blockhole-answers:known> or <urn:blockhole-answers:0.9> says the same. A query that names
?probability or ?status gets these of each answer, and all answers that are plausible. What MINUS and NOT EXISTS exclude
is gone if it is known, and less probable if it is predicted. OPTIONAL, + and * are over known facts. Update, SERVICE,
GRAPH, FROM, BIND, HAVING, queries inside queries, negated properties and variables for relations are not supported.
"""
