"""From the text of a query to patterns over ids: rdflib parses, and what is not supported is refused by its name.

rdflib forgets where in the text its terms stood, so the text is cut into tokens once more to point at one.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from threading import Lock
from types import MethodType
from typing import TYPE_CHECKING, Any, NoReturn, final

import numpy as np

from blockhole.answering.sparql.patterns import (
    PROBABILITY,
    SPECIAL,
    STATUS,
    Basic,
    Closure,
    Count,
    Edge,
    Either,
    Existing,
    Expression,
    Filtered,
    Given,
    Joined,
    Link,
    Maybe,
    Optionally,
    Ordering,
    Path,
    Pattern,
    Request,
    Steps,
    Template,
    Term,
    Ways,
    Without,
    inverted,
    variables_of,
)
from blockhole.answering.sparql.results import ANSWERS
from blockhole.answering.sparql.tables import UNBOUND, Table
from blockhole.answering.sparql.terms import Terms, prefixes_of, spelled
from blockhole.errors import MissingExtra, QueryError, SparqlError, quoted
from blockhole.files.rdf import name_of_iri, node_terms, relation_terms

if TYPE_CHECKING:
    from rdflib.plugins.sparql.parserutils import CompValue
    from rdflib.term import Node

    from blockhole.graph.vocabulary import Vocabulary

LONGEST = 16 * 1024
"""Characters of a query."""
_DEEPEST = 5_000
"""Calls in one another while a query is parsed: about three hundred triples; a thread's stack holds many more."""
_parsing = Lock()
"""Held while rdflib parses: nothing promises that its grammar serves several threads."""

_OPERATORS = """RelationalExpression ConditionalAndExpression ConditionalOrExpression UnaryNot UnaryMinus UnaryPlus
    AdditiveExpression MultiplicativeExpression"""
_FUNCTIONS = """BOUND STR LANG DATATYPE REGEX CONTAINS STRSTARTS STRENDS STRLEN LCASE UCASE isIRI isURI isBLANK
    isLITERAL isNUMERIC sameTerm LANGMATCHES IF COALESCE ABS ROUND CEIL FLOOR YEAR MONTH DAY"""
_ALLOWED = frozenset([*_OPERATORS.split(), *(f"Builtin_{name}" for name in _FUNCTIONS.split())])
"""Expressions that rdflib computes as the standard says."""
_UPDATES = ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH")


@contextmanager
def _deep_enough() -> Iterator[None]:
    """Room for the grammar of rdflib, which goes a few calls deeper with every triple."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(usual, _DEEPEST))
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def understand(text: str, terms: Terms) -> Request:
    """What a query asks for; raises `SparqlError`, which says where in the text what is wrong."""
    return _Translator(text, terms).request()


@final
class _Translator:
    """One query on its way from rdflib's algebra."""

    def __init__(self, text: str, terms: Terms) -> None:
        self._text = text
        self._terms = terms
        self._graph = terms.graph
        self._prefixes = prefixes_of(terms.graph)
        self._tokens: list[re.Match[str]] | None = None
        self._fresh = 0

    # Whole queries

    def request(self) -> Request:
        if len(self._text) > LONGEST:
            problem = f"the query has {len(self._text):,} characters; a query may have {LONGEST:,} at most"
            raise self._at(LONGEST, problem)
        algebra = self._parsed()
        if algebra.datasetClause:
            self._refuse("FROM", "there is one graph: leave out FROM")
        kind = {"SelectQuery": "select", "AskQuery": "ask", "ConstructQuery": "construct"}.get(algebra.name)
        if kind is None:
            self._refuse("DESCRIBE", "DESCRIBE is not supported; write SELECT, ASK or CONSTRUCT")
        known_only, threshold = self._pragma()
        node, limit, offset, distinct = algebra.p, None, 0, False
        if node.name == "Slice":
            limit, offset, node = node.length, node.start or 0, node.p
        if node.name in ("Distinct", "Reduced"):
            distinct, node = True, node.p
        projected = [str(each) for each in node.PV]
        node = node.p
        order: tuple[Ordering, ...] = ()
        if node.name == "OrderBy":
            order = tuple(Ordering(self._expression(each.expr), each.order == "DESC") for each in node.expr)
            node = node.p
        sources: dict[str, Node] = {}
        while node.name == "Extend" and str(node.var) in projected:
            sources[str(node.var)] = node.expr
            node = node.p
        counts: tuple[Count, ...] = ()
        groups: tuple[str, ...] = ()
        if node.name == "AggregateJoin":
            counts, groups, sources = self._aggregates(node, sources)
            node = node.p.p
        final_filters, node = self._lifted(node)
        where = self._pattern(node)
        self._check_specials(where)
        if kind == "select" and re.search(r"(?is)\bSELECT\s+(?:DISTINCT\s+|REDUCED\s+)?\*", self._bare()):
            projected = self._in_order(variables_of(where)) + [each for each in projected if each in SPECIAL]
        renamed = tuple((name, self._source(name, sources, counts)) for name in projected)
        template: tuple[Template, ...] = ()
        if kind == "construct":
            triples = algebra.template or getattr(node, "triples", None) or ()  # CONSTRUCT WHERE gives what it asks for
            template = tuple(self._template(each) for each in triples)
            named = [each[1:] for triple in template for each in triple if each.startswith("?")]
            renamed = tuple((name, name) for name in dict.fromkeys(named))
        read = [source for _, source in renamed]
        read += [name for each in (*final_filters, *(one.by for one in order)) for name in each.variables]
        names_probability = bool(SPECIAL & set(read))
        if names_probability and (counts or groups):
            self._refuse_variable("a count has no probability: count answers, or list them with ?probability")
        return Request(
            kind=kind,  # type: ignore[arg-type]
            projected=renamed,
            where=where,
            final=tuple(final_filters),
            distinct=distinct,
            order=order,
            limit=limit,
            offset=offset,
            counts=counts,
            groups=groups,
            template=template,
            names_probability=names_probability,
            threshold=threshold,
            known_only=known_only,
        )

    def _parsed(self) -> CompValue:
        try:
            from pyparsing import ParseException, ParserElement
            from rdflib.plugins.sparql.algebra import translateQuery
            from rdflib.plugins.sparql.parser import parseQuery
        except ModuleNotFoundError:
            raise MissingExtra("SPARQL", "sparql") from None

        self._check_words()
        try:
            with _parsing, _deep_enough():
                algebra: CompValue = translateQuery(parseQuery(self._text), initNs=self._prefixes).algebra
                ParserElement.reset_cache()  # of what it tried, which other libraries turn on for all
            # What the parser tried in vain are exceptions in cycles, which hold on to all that its callers hold later:
            # a megabyte for each query over FB13.
            gc.collect(0)
            return algebra
        except ParseException as failure:
            place = self._stuck(failure.loc)
            raise self._at(place, self._unread(place)) from None
        except RecursionError:
            raise self._at(0, "the query has too many triples or braces in one another; ask for less at once") from None
        except QueryError:
            raise
        except Exception as failure:  # rdflib raises plain exceptions with a sentence of its own
            raise self._at(0, f"the query cannot be read ({str(failure).partition(chr(10))[0]})") from None

    def _stuck(self, otherwise: int) -> int:
        """Where the text stops to be SPARQL: pyoxigraph's parser says that more exactly than rdflib's."""
        import pyoxigraph

        try:
            pyoxigraph.Store().query(self._text, prefixes=self._prefixes)
        except (SyntaxError, ValueError) as failure:
            found = re.search(r"error at (\d+):(\d+)", str(failure))
            if found is not None:
                lines = self._text.split("\n")[: int(found[1]) - 1]
                return min(sum(len(line) + 1 for line in lines) + int(found[2]) - 1, len(self._text))
        return otherwise

    def _unread(self, place: int) -> str:
        """What is wrong where the grammar stopped."""
        if not self._text[place:].strip():
            return "the query ends too early: a brace, a term or a clause is missing"
        word = re.match(r"\S{1,40}", self._text[place:].lstrip())
        return f"the query cannot be read from {quoted(word[0] if word else '')} on"

    def _check_words(self) -> None:
        """Refuse what rdflib would not name: updates, services, prefixes that nobody has declared."""
        words = [token for token in self._lexed() if token.lastgroup == "word"]
        if not words:
            raise self._at(0, "the query is empty; write SELECT, ASK or CONSTRUCT")
        declared = dict(self._prefixes)
        first: re.Match[str] | None = None
        tokens = self._lexed()
        for place, token in enumerate(tokens):
            word = token[0].upper()
            if token.lastgroup == "word":
                if word == "PREFIX" and place + 2 < len(tokens) and tokens[place + 2].lastgroup == "iri":
                    declared[tokens[place + 1][0].removesuffix(":")] = tokens[place + 2][0][1:-1]
                elif word not in ("PREFIX", "BASE") and first is None:
                    first = token
                if word == "HAVING":
                    raise self._at(token.start(), "HAVING is not supported; filter the counts where they are read")
                if word == "SERVICE":
                    raise self._at(token.start(), "SERVICE is not supported: nothing is asked of other servers")
        if first is not None and first[0].upper() in _UPDATES:
            raise self._at(first.start(), "SPARQL Update is not supported: a run is read, never changed")
        for place, token in enumerate(tokens):
            prefix = token[0].partition(":")[0]
            after = tokens[place - 1][0].upper() if place else ""
            if token.lastgroup == "name" and prefix not in declared and prefix != "_" and after != "PREFIX":
                known = ", ".join(sorted(f"{each}:" for each in declared))
                raise self._at(token.start(), f"the prefix {prefix}: is not declared; declared are {known}")
        self._prefixes = declared

    def _pragma(self) -> tuple[bool, float | None]:
        """What a PREFIX says of the answers that are wanted."""
        known, threshold = False, None
        for iri in self._prefixes.values():
            if not iri.startswith(ANSWERS):
                continue
            wanted = iri.removeprefix(ANSWERS)
            if not wanted:
                continue  # a prefix for names of ours
            if wanted == "known":
                known = True
                continue
            try:
                threshold = float(wanted)
            except ValueError:
                threshold = -1.0
            if not 0 < threshold <= 1:
                place = max(self._text.find(iri), 0)
                raise self._at(place, f"<{ANSWERS}…> ends in known or in a probability above 0, such as 0.9")
        return known, threshold

    def _lifted(self, node: CompValue) -> tuple[list[Expression], CompValue | _Filter]:
        """The filters of the outermost group that read the probability or the status, and the pattern without them."""
        found: list[Expression] = []
        if node.name == "Filter":
            kept = []
            for part in _conjuncts(node.expr):
                expression = None if _is_exists(part) else self._expression(part)
                if expression is not None and expression.variables & SPECIAL:
                    found.append(expression)
                else:
                    kept.append(part)
            return found, _Filter(kept, node.p) if kept else node.p
        return found, node

    def _check_specials(self, where: Pattern) -> None:
        if any(each.variables & SPECIAL for each in _conditions(where)):
            self._refuse_variable("a FILTER on ?probability or ?status belongs in the outermost group")
        if variables_of(where) & SPECIAL:
            self._refuse_variable("?probability and ?status are what the answer says of itself; use another variable")

    def _aggregates(
        self, node: CompValue, sources: Mapping[str, Node]
    ) -> tuple[tuple[Count, ...], tuple[str, ...], dict[str, Node]]:
        from rdflib.term import Variable

        counts: list[Count] = []
        own = {str(expression): name for name, expression in sources.items()}
        left = dict(sources)
        groups = []
        for each in node.p.expr or ():
            if not isinstance(each, Variable):
                self._refuse("GROUP", "GROUP BY takes variables; name one")
            groups.append(str(each))
        for each in node.A:
            name = own.get(str(each.res))
            if each.name == "Aggregate_Sample" and name is not None and isinstance(each.vars, Variable):
                left[name] = each.vars  # a variable of GROUP BY, which is the same in all rows of a group
                if str(each.vars) not in groups:
                    self._refuse_variable(f"?{each.vars} is neither counted nor in GROUP BY", str(each.vars))
                continue
            called = each.name.removeprefix("Aggregate_").upper()
            if each.name != "Aggregate_Count":
                self._refuse(called, f"{called} is not supported; COUNT is")
            if name is None:
                self._refuse("COUNT", "a COUNT stands alone in SELECT: (COUNT(?x) AS ?n)")
            of = None if each.vars == "*" else each.vars
            if of is not None and not isinstance(of, Variable):
                self._refuse("COUNT", "COUNT takes a variable or *")
            counts.append(Count(name, None if of is None else str(of), bool(each.distinct)))
            left[name] = Variable(name)
        return tuple(counts), tuple(groups), left

    def _source(self, name: str, sources: Mapping[str, Node], counts: Sequence[Count]) -> str:
        """The variable that one of the result shows."""
        from rdflib.term import Variable

        source = sources.get(name, Variable(name))
        if not isinstance(source, Variable):
            if any(token[0].upper() == "BIND" for token in self._lexed()):
                self._refuse("BIND", _NO_BIND)  # of a pattern that is nothing else, which is parsed to the same
            self._refuse("AS", "an expression in SELECT is not supported, but for COUNT and another name of a variable")
        return str(source)

    # Patterns

    def _pattern(self, node: Any) -> Pattern:
        match node.name:
            case "BGP":
                triples = dict.fromkeys(tuple(triple) for triple in node.triples)  # said twice is said once
                return Basic(tuple(edge for triple in triples for edge in self._edges(*triple)))
            case "Join":
                return Joined(self._pattern(node.p1), self._pattern(node.p2))
            case "Union":
                parts = [self._pattern(each) for each in (node.p1, node.p2)]
                flat = [one for each in parts for one in (each.parts if isinstance(each, Either) else (each,))]
                return Either(tuple(flat))
            case "LeftJoin":
                condition = None if node.expr is None or _is_true(node.expr) else self._expression(node.expr)
                return Optionally(self._pattern(node.p1), self._pattern(node.p2), condition)
            case "Minus":
                return Without(self._pattern(node.p1), self._pattern(node.p2))
            case "Filter":
                return self._filter(_conjuncts(node.expr), self._pattern(node.p))
            case "ToMultiSet" if node.p.name == "values":
                return self._values(node.p.res)
            case "values":
                return self._values(node.res)
            case "ToMultiSet":
                self._refuse("SELECT", "a query inside a query is not supported; write its pattern here", last=True)
            case "Extend":
                self._refuse("BIND", _NO_BIND)
            case "Graph":
                self._refuse("GRAPH", "GRAPH is not supported: there is one graph")
            case other:
                self._refuse(str(other), f"{other} is not supported")

    def _filter(self, conditions: Sequence[Any], pattern: Pattern) -> Pattern:
        # Cheap conditions first: what they leave out need not be looked for.
        for condition in conditions:
            if not _is_exists(condition):
                pattern = Filtered(pattern, self._expression(condition))
        for condition in conditions:
            if _is_exists(condition):
                pattern = self._exists(condition, pattern)
        return pattern

    def _exists(self, condition: Any, pattern: Pattern) -> Pattern:
        from rdflib.plugins.sparql.algebra import translateGroupGraphPattern

        graph = condition.graph
        if graph.name in ("GroupGraphPatternSub", "SubSelect"):  # rdflib leaves those behind && as they were parsed
            graph = translateGroupGraphPattern(graph)
        inner = self._pattern(graph)
        for each in _conditions(inner):
            if each.variables - variables_of(inner):
                self._refuse("EXISTS", "a FILTER inside EXISTS reads only variables of its own pattern here")
        return Existing(pattern, inner, condition.name == "Builtin_NOTEXISTS")

    def _values(self, rows: Sequence[Mapping[Node, Any]]) -> Given:
        from rdflib.term import Identifier

        names = list(dict.fromkeys(str(name) for row in rows for name in row))
        ids = np.full((len(rows), len(names)), UNBOUND, dtype=np.int64)
        for place, row in enumerate(rows):
            for name, term in row.items():
                if isinstance(term, Identifier):  # UNDEF is not a term but plain text
                    ids[place, names.index(str(name))] = self._terms.number(term)
        return Given(Table.of(names, ids))

    def _edges(self, source: Node, predicate: Any, target: Node) -> Iterator[Edge]:
        """The edges of one triple; a path of several hops is as many edges, with variables between them."""
        path = self._path(predicate)
        start, end = self._end(source), self._end(target)
        parts = path.parts if isinstance(path, Steps) else (path,)
        for part in parts[:-1]:
            self._fresh += 1
            middle = f"/{self._fresh}"
            yield Edge(start, part, middle)
            start = middle
        yield Edge(start, parts[-1], end)

    def _end(self, term: Node) -> Term:
        from rdflib.term import BNode, URIRef, Variable

        if isinstance(term, Variable):
            return str(term)
        if isinstance(term, BNode):
            return f"_:{term}"
        found = self._terms.find(term)
        if found is None:
            name = name_of_iri(str(term)) if isinstance(term, URIRef) else spelled(term)
            raise self._unknown(self._graph.entities, name, term)
        return found

    def _path(self, path: Any) -> Path:
        from rdflib.paths import AlternativePath, InvPath, MulPath, NegatedPath, SequencePath
        from rdflib.term import URIRef, Variable

        match path:
            case URIRef():
                name = name_of_iri(str(path))
                found = self._graph.relations.find(name)
                if found is None:
                    raise self._unknown(self._graph.relations, name, path)
                return Link(found)
            case InvPath():
                return inverted(self._path(path.arg), self._graph.inverse)
            case SequencePath():
                parts = [self._path(each) for each in path.args]
                return Steps(
                    tuple(one for each in parts for one in (each.parts if isinstance(each, Steps) else (each,)))
                )
            case AlternativePath():
                return Ways(tuple(self._path(each) for each in path.args))
            case MulPath() if path.mod == "?":
                return Maybe(self._path(path.path))
            case MulPath():
                return Closure(self._path(path.path), path.mod == "*")
            case NegatedPath():
                self._refuse("!", "a negated property !r is not supported; name the relations that are meant")
            case Variable():
                self._refuse_variable(f"a variable in the place of a relation is not supported: ?{path}", str(path))
            case _:
                raise self._at(0, "a relation is an IRI or a path of IRIs")

    def _template(self, triple: Sequence[Node]) -> Template:
        from rdflib.term import Variable

        texts = [f"?{each}" if isinstance(each, Variable) else spelled(each) for each in triple]
        if texts[1].startswith("?"):
            self._refuse_variable(f"a variable in the place of a relation is not supported: {texts[1]}", texts[1][1:])
        return Template(*texts)

    def _expression(self, expression: Any) -> Expression:
        """An expression whose every part rdflib computes as the standard says."""
        from rdflib.plugins.sparql.parserutils import CompValue, Expr
        from rdflib.term import Literal, Variable

        found: set[str] = set()

        def visit(part: Any) -> None:
            if isinstance(part, Variable):
                found.add(str(part))
            elif isinstance(part, list | tuple):
                for each in part:
                    visit(each)
            elif isinstance(part, CompValue):
                if _is_exists(part):
                    self._refuse("EXISTS", "EXISTS joined by || or ! is not supported; write it as a FILTER of its own")
                if part.name not in _ALLOWED:
                    called = str(part.name).removeprefix("Builtin_")
                    self._refuse(called, f"{called} is not supported in expressions")
                pattern = part.pattern if part.name == "Builtin_REGEX" else None
                if isinstance(pattern, Literal) and _matches("", str(pattern), str(part.flags or "")) is None:
                    self._refuse("REGEX", f"the pattern {quoted(str(pattern))} of REGEX cannot be read")
                stricter = _STRICTER.get(part.name)
                if stricter is not None and isinstance(part, Expr):
                    part._evalfn = MethodType(stricter, part)
                for name, each in part.items():
                    if name not in ("op", "_vars", "evalfn"):
                        visit(each)

        visit(expression)
        return Expression(expression, frozenset(found))

    # What is refused, and where it stands

    def _unknown(self, vocabulary: Vocabulary, name: str, term: Node) -> SparqlError:
        nearest = vocabulary.nearest(name)
        entities = vocabulary.kind == "entity"
        written = node_terms(nearest, [True] * len(nearest)) if entities else relation_terms(nearest)
        hint = f"; did you mean {' or '.join(written)}?" if nearest else ""
        other = self._graph.relations if entities else self._graph.entities
        if name in other:
            hint = f"; it is {'a relation' if entities else 'an entity'}"
        place = next((each.start() for each in self._lexed() if self._stands_for(each) == str(term)), 0)
        return self._at(place, f"unknown {vocabulary.kind} {quoted(name)}{hint}", written)

    def _stands_for(self, token: re.Match[str]) -> str | None:
        """The IRI or the text of a literal that a token is."""
        if token.lastgroup == "iri":
            return token[0][1:-1]
        if token.lastgroup == "name":
            prefix, _, local = token[0].partition(":")
            return self._prefixes.get(prefix, "") + re.sub(r"\\(.)", r"\1", local)
        return token[0].strip("\"'") if token.lastgroup == "text" else None

    def _refuse(self, word: str, problem: str, *, last: bool = False) -> NoReturn:
        """Refuse what a keyword or a mark asks for."""
        places = [each.start() for each in self._lexed() if each[0].upper() == word.upper()]
        raise self._at((places[-1] if last else places[0]) if places else 0, problem)

    def _refuse_variable(self, problem: str, name: str | None = None) -> NoReturn:
        wanted = {PROBABILITY, STATUS} if name is None else {name}
        places = [each.start() for each in self._lexed() if each[0][1:] in wanted and each.lastgroup == "variable"]
        inside = [place for place in places if place > self._text.find("{")]
        raise self._at((inside or places or [0])[0], problem)

    def _at(self, place: int, problem: str, nearest: Sequence[str] = ()) -> SparqlError:
        return SparqlError(self._text, place, problem, nearest)

    def _lexed(self) -> list[re.Match[str]]:
        """The tokens of the text, without comments."""
        if self._tokens is None:
            self._tokens = [token for token in _TOKEN.finditer(self._text) if token.lastgroup != "comment"]
        return self._tokens

    def _bare(self) -> str:
        return " ".join(token[0] for token in self._lexed() if token.lastgroup != "text")

    def _in_order(self, names: frozenset[str]) -> list[str]:
        """Variables in the order in which the text first has them."""
        seen = dict.fromkeys(token[0][1:] for token in self._lexed() if token.lastgroup == "variable")
        return [name for name in seen if name in names]


_NO_BIND = "BIND is not supported; write VALUES or another variable"
_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
    |(?P<iri><[^<>"{}|^`\\\x00-\x20]*>)
    |(?P<text>\"\"\".*?\"\"\"|'''.*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<variable>[?$]\w+)
    |(?P<name>(?:[^\W\d_][\w.\-]*)?:(?:(?:[\w.\-:]|%[0-9A-Fa-f]{2}|\\.)*(?:[\w\-:]|%[0-9A-Fa-f]{2}|\\.))?|_:\w+)
    |(?P<word>[A-Za-z]\w*)
    |(?P<mark>\S)""",
    re.VERBOSE | re.DOTALL,
)


def place_of(text: str, variables: Sequence[str]) -> int:
    """Where the pattern of a query first has one of some variables; where it begins, if it has none of them."""
    tokens = [token for token in _TOKEN.finditer(text) if token.lastgroup != "comment"]
    begin = next((token.start() for token in tokens if token[0] == "{"), 0)
    named = (token for token in tokens if token.lastgroup == "variable" and token[0][1:] in variables)
    return next((token.start() for token in named if token.start() > begin), begin)


@final
class _Filter:
    """A filter of which some conditions were taken."""

    name = "Filter"

    def __init__(self, conditions: list[Any], pattern: CompValue) -> None:
        self.expr = conditions
        self.p = pattern


def _conjuncts(expression: Any) -> list[Any]:
    """The conditions that && joins."""
    if isinstance(expression, list):
        return [each for part in expression for each in _conjuncts(part)]
    if getattr(expression, "name", None) == "ConditionalAndExpression":
        return [each for part in (expression.expr, *expression.other) for each in _conjuncts(part)]
    return [expression]


def _is_exists(expression: Any) -> bool:
    return getattr(expression, "name", None) in ("Builtin_EXISTS", "Builtin_NOTEXISTS")


def _is_true(expression: Any) -> bool:
    return getattr(expression, "name", None) == "TrueFilter"


def _conditions(pattern: Pattern) -> Iterator[Expression]:
    """The expressions of a pattern's filters."""
    match pattern:
        case Filtered(of, condition):
            yield condition
            yield from _conditions(of)
        case Optionally(left, right, maybe):
            yield from [] if maybe is None else [maybe]
            yield from _conditions(left)
            yield from _conditions(right)
        case Joined(left, right) | Without(left, right) | Existing(left, right, _):
            yield from _conditions(left)
            yield from _conditions(right)
        case Either(parts):
            for part in parts:
                yield from _conditions(part)
        case _:
            return


# Where rdflib computes something that the standard calls an error


def _text_of(expression: Any, context: Any) -> Node:
    """STR, which a blank node has not; rdflib gives its label."""
    from rdflib.plugins.sparql.sparql import SPARQLError
    from rdflib.term import BNode, Literal

    term = expression.arg
    if isinstance(term, SPARQLError):
        raise term
    if isinstance(term, BNode):
        raise SPARQLError("a blank node has no text")
    return Literal(str(term))


def _compared(expression: Any, context: Any) -> Any:
    """< and > of terms that have an order; rdflib orders any two."""
    from rdflib.plugins.sparql.operators import RelationalExpression
    from rdflib.plugins.sparql.sparql import SPARQLError

    if expression.op in ("<", ">", "<=", ">="):
        kinds = {_order_of(term) for term in (expression.expr, expression.other)}
        if len(kinds) > 1 or None in kinds:
            raise SPARQLError("these terms have no order")
    return RelationalExpression(expression, context)


def _order_of(term: Any) -> str | None:
    """What a literal is ordered among: numbers, plain texts, or values of its own datatype."""
    from rdflib.term import Literal

    if not isinstance(term, Literal) or term.language is not None:
        return None
    if isinstance(term.value, int | float | Decimal) and not isinstance(term.value, bool):
        return "number"
    return str(term.datatype or _STRING)


_STRING = "http://www.w3.org/2001/XMLSchema#string"


def _matched(expression: Any, context: Any) -> Node:
    """REGEX by finite automata, whose time grows with the text: Python's own takes ages over ((.|.)*)*x, for all."""
    from rdflib.plugins.sparql.operators import string
    from rdflib.plugins.sparql.sparql import SPARQLError
    from rdflib.term import Literal

    found = _matches(str(string(expression.text)), str(string(expression.pattern)), str(expression.flags or ""))
    if found is None:
        raise SPARQLError("the pattern cannot be read")
    return Literal(found)


def _matches(text: str, pattern: str, flags: str = "") -> bool | None:
    """Whether a pattern is in a text; None where it is not one."""
    import polars as pl

    if "q" in flags:
        return pattern in text
    wanted = "".join(sorted(set(flags) & set("imsx")))
    found = pl.Series([text]).str.contains(f"(?{wanted}){pattern}" if wanted else pattern, strict=False)[0]
    return None if found is None else bool(found)


_STRICTER = {"Builtin_STR": _text_of, "RelationalExpression": _compared, "Builtin_REGEX": _matched}
