"""Tables as people have them: which column is which, what is said about it, and what is refused."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from blockhole.data.dataset import load
from blockhole.data.packing import pack
from blockhole.errors import NOTES, ConfigError, DataError, MalformedFile
from blockhole.files.columns import Reading
from blockhole.files.readers import Unconnected, read_graph, read_split
from blockhole.files.tables import OddNames
from blockhole.files.writers import convert
from tests.files.facts import Fact, any_name, fact_lists, facts_of, graph_of, line_name, odd_names, small_blocks

pytestmark = odd_names

NAMINGS = [
    ("source", "relation", "target"), ("subject", "predicate", "object"), ("head", "relation", "tail"), ("s", "p", "o"),
    ("from", "edge", "to"), ("h", "r", "t"), ("node1", "label", "node2"), ("start", "type", "end"),
    ("Source_ID", "Relation_Type", "Target_ID"), (":START_ID", ":TYPE", ":END_ID"), ("?s", "?p", "?o"),
    ("source", "edge label", "target"), ("src", "rel", "dst"), ("subjectId", "predicateId", "objectId"),
    ("u", "label", "v"), ("id1", "rel", "id2"),
    (":START_ID(Person)", ":TYPE", ":END_ID(Person)"), ("source", "rel", "dest"), ("origin", "link", "destination"),
]  # fmt: skip
ORDERS = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
SMALL = [("Anna", "bornIn", "Delft"), ("Bram", "bornIn", "Delft"), ("Anna", "knows", "Bram")]

Noted = Callable[[], list[str]]


@pytest.fixture
def noted(caplog: pytest.LogCaptureFixture) -> Noted:
    """What was noted so far."""
    caplog.set_level(logging.INFO, logger=NOTES)
    return lambda: [record.getMessage() for record in caplog.records if record.name == NOTES]


def _written(rows: Sequence[Sequence[str]], separator: str, *, quoting: bool = True) -> bytes:
    text = io.StringIO(newline="")
    if quoting:
        csv.writer(text, delimiter=separator, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    else:
        text.write("".join(separator.join(row) + "\n" for row in rows))
    return text.getvalue().encode()


@given(
    facts=fact_lists(any_name),
    naming=st.sampled_from(NAMINGS),
    order=st.sampled_from(ORDERS),
    more=st.sampled_from([(), ("id",), ("weight", "", "since")]),
    written=st.sampled_from([("f.csv", ","), ("f.csv", ";"), ("f.txt", "|"), ("f.tsv", "\t"), ("f.csv", "\t"), "pq"]),
    mark=st.booleans(),
    size=st.sampled_from([1, 7, 1 << 22]),
)  # fmt: skip
def test_any_header_in_any_order(
    facts: list[Fact],
    naming: tuple[str, str, str],
    order: tuple[int, int, int],
    more: tuple[str, ...],
    written: tuple[str, str] | str,
    mark: bool,
    size: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("columns")
    header = [*(naming[place] for place in order), *more]
    rows = [[*(fact[place] for place in order), *("x" for _ in more)] for fact in facts]
    if isinstance(written, str):
        path = folder / "f.parquet"
        pl.DataFrame(rows, schema=dict.fromkeys(header, pl.String), orient="row").write_parquet(path)
    else:
        path = folder / written[0]
        path.write_bytes(b"\xef\xbb\xbf" * mark + _written([header, *rows], written[1]))
    with small_blocks(size):
        assert read_graph(path) == graph_of(facts)
    assert read_graph(path, columns=naming) == graph_of(facts)
    assert read_graph(path, columns=[order.index(place) + 1 for place in range(3)]) == graph_of(facts)


@given(facts=fact_lists(line_name.filter(lambda name: name == name.strip(" "))), naming=st.sampled_from(NAMINGS))
def test_tab_separated_with_a_header_in_plain_text(
    facts: list[Fact], naming: tuple[str, str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    # Quotes around every name below a header enclose it.
    assume(not all(len(name) > 1 and name[0] == name[-1] == '"' for fact in facts for name in fact))
    path = tmp_path_factory.mktemp("columns") / "f.tsv"
    path.write_bytes(_written([naming, *facts], "\t", quoting=False))
    assert read_graph(path) == graph_of(facts)


PEOPLE = "".join(",".join(fact) + "\n" for fact in SMALL)
NOTED = {
    "as expected": ("f.csv", "source,relation,target\n" + PEOPLE, []),
    "no header": ("f.csv", PEOPLE, []),
    "another order": (
        "f.csv",
        "source,target,relation\nAnna,Delft,bornIn\nBram,Delft,bornIn\nAnna,Bram,knows\n",
        ["source, relation and target are columns 1 (source), 3 (relation) and 2 (target)."],
    ),
    "weights and times": (
        "f.csv",
        "id;From;Type;To;confidence;since\n"
        "1;Anna;bornIn;Delft;0.5;1999\n2;Bram;bornIn;Delft;1;2000\n3;Anna;knows;Bram;;\n",
        ["source, relation and target are columns 2 (From), 3 (Type) and 4 (To); left out: id, confidence, since; "
         "a fact holds or does not, so weights do not count; facts have no time; fields are separated by semicolons."],
    ),
    "an index that pandas wrote": (
        "f.csv",
        ",source,relation,target\n0,Anna,bornIn,Delft\n1,Bram,bornIn,Delft\n2,Anna,knows,Bram\n",
        ["source, relation and target are columns 2 (source), 3 (relation) and 4 (target); left out: column 1."],
    ),
    "dates called from and to": (
        "f.csv",
        "head,relation,tail,from,to\nAnna,bornIn,Delft,1,2\nBram,bornIn,Delft,1,2\nAnna,knows,Bram,,\n",
        ["source, relation and target are columns 1 (head), 2 (relation) and 3 (tail); left out: from, to."],
    ),
    "spaces": (
        "f.csv",
        ' source , relation , target \n Anna, bornIn ,Delft\n"Bram" , "bornIn" , "Delft"\r\n Anna,knows, Bram \n   \n',
        [],
    ),
    "spaces in TSV": (
        "f.tsv", "Source\tRelation\tTarget\nAnna \tbornIn\tDelft\nBram\tbornIn\t Delft\nAnna\tknows\tBram\n", [],
    ),
    "words": (
        "f.txt", "Anna bornIn Delft\nBram  bornIn Delft\n  Anna knows Bram \r\n", ["fields are separated by spaces."],
    ),
    "columns that a program numbered": (
        "f.csv", "V1,V2,V3\n" + PEOPLE, ["source, relation and target are columns 1 (V1), 2 (V2) and 3 (V3)."],
    ),
    "columns that pandas numbered": (
        "f.tsv",
        "0\t1\t2\n" + PEOPLE.replace(",", "\t"),
        ["source, relation and target are columns 1 (0), 2 (1) and 3 (2)."],
    ),
    "quotes in TSV below a bare header": (
        "f.tsv",
        "source\trelation\ttarget\n" + "".join("\t".join(f'"{name}"' for name in fact) + "\n" for fact in SMALL),
        [],
    ),
    "an index beside columns that pandas numbered": (
        "f.csv",
        ",0,1,2\n0,Anna,bornIn,Delft\n1,Bram,bornIn,Delft\n2,Anna,knows,Bram\n",
        ["source, relation and target are columns 2 (0), 3 (1) and 4 (2); left out: column 1."],
    ),
    "what a spreadsheet adds": (
        "f.csv",
        "sep=;\nsource;relation;target;\r\n"
        "Anna;bornIn;Delft;\r\nBram;bornIn;Delft;\r\n;;;\r\nAnna;knows;Bram;\r\n; ;;\n",
        ["source, relation and target are columns 1 (source), 2 (relation) and 3 (target); left out: column 4; "
         "fields are separated by semicolons; 1 line before the first row left out."],
    ),
    "empty columns without a header": (
        "f.tsv", "Anna\tbornIn\tDelft\t\t\nBram\tbornIn\tDelft\t\t\nAnna\tknows\tBram\t\t\n",
        ["left out: column 4, column 5."],
    ),
    "remarks": (
        "f.tsv",
        "# people,\tand who knows whom\n\n# of 2026\n#source\trelation\ttarget\n" + PEOPLE.replace(",", "\t"),
        ["source, relation and target are columns 1 (#source), 2 (relation) and 3 (target); "
         "3 lines before the first row left out."],
    ),
    "bars": ("f.tsv", "Anna|bornIn|Delft\nBram|bornIn|Delft\nAnna|knows|Bram\n", ["fields are separated by bars."]),
}  # fmt: skip


@pytest.mark.parametrize("block_size", [1, 1 << 22])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("case", NOTED)
def test_what_is_noted(tmp_path: Path, case: str, encoding: str, block_size: int, noted: Noted) -> None:
    name, content, expected = NOTED[case]
    path = tmp_path / name
    path.write_bytes(content.encode(encoding))
    with small_blocks(block_size):
        assert facts_of(read_graph(path)) == SMALL
    assert noted() == [f"{path}: {each}" for each in expected]


def test_utf_16_that_ends_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(PEOPLE.encode("utf-16")[:-1])
    with pytest.raises(MalformedFile, match=r"line 3: not valid UTF-16 \(truncated data\); save the file as UTF-8"):
        read_graph(path)


def test_a_first_fact_that_marks_a_name_is_no_remark(tmp_path: Path) -> None:
    path = tmp_path / "f.tsv"
    path.write_text("#one\tusedBy\tAnna\n#two\tusedBy\tAnna\n")
    assert facts_of(read_graph(path)) == [("#one", "usedBy", "Anna"), ("#two", "usedBy", "Anna")]


def test_quoted_spaces_belong_to_a_name(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text('source,relation,target\n" Anna ", "born, in" ,"Delft "\n')
    assert facts_of(read_graph(path)) == [(" Anna ", "born, in", "Delft ")]


def test_files_of_one_folder_are_noted_once(tmp_path: Path, noted: Noted) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.csv").write_text("to,from,edge\nDelft,Anna,bornIn\nAnna,Delft,home\n")
    split = read_split(tmp_path)
    assert facts_of(split.graph("valid")) == [("Anna", "bornIn", "Delft"), ("Delft", "home", "Anna")]
    assert noted() == [
        f"{tmp_path / 'train.csv'}: source, relation and target are columns 2 (from), 3 (edge) and 1 (to)."
    ]


def test_columns_are_told_wherever_a_file_is_read(tmp_path: Path, noted: Noted) -> None:
    path = tmp_path / "f.csv"
    path.write_text("who,since,whom,what\nAnna,1999,Delft,bornIn\nBram,2000,Delft,bornIn\nAnna,,Bram,knows\n")
    told = ("who", "what", "whom")
    assert facts_of(read_graph(path, columns="who, what,whom")) == SMALL
    assert facts_of(read_graph(path, columns=["WHO", "what", "3"])) == SMALL
    assert noted()[0] == f"{path}: left out: since; facts have no time."
    convert(path, tmp_path / "g.nt", columns=told)
    assert facts_of(read_graph(tmp_path / "g.nt")) == SMALL
    pack(path, tmp_path / "packed", reading=Reading.of(told))
    assert facts_of(read_split(tmp_path / "packed").graph("train")) == SMALL


def test_a_label_is_a_fourth_column(tmp_path: Path) -> None:
    path = tmp_path / "valid.csv"
    path.write_text("true;h;t;r\n1;a;b;r\n-1;b;a;r\n")
    (tmp_path / "train.csv").write_text("true;h;t;r\n1;a;b;r\n")
    split = read_split(tmp_path, columns="h,r,t,true")
    assert (split.valid.tolist(), split.valid_negatives.tolist()) == ([[0, 0, 1]], [[1, 0, 0]])


def test_numbers_say_that_the_first_line_is_a_fact(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("start,next,end\nAnna,bornIn,Delft\n")
    assert facts_of(read_graph(path, columns=(1, 2, 3))) == [("start", "next", "end"), ("Anna", "bornIn", "Delft")]
    path.write_text("source,target,kind\nAnna,Delft,bornIn\n")  # but not that a header is one
    assert facts_of(read_graph(path, columns=(1, 3, 2))) == [("Anna", "bornIn", "Delft")]


WHICH = "say which are source, relation and target with --columns {} (columns= in Python) or the like"
FACT = ", or say --columns 1,2,3 if it is a fact."
REFUSED = {
    "unknown names": (
        "f.csv",
        "who,what,whom\nAnna,bornIn,Delft\nBram,bornIn,Delft\nCarl,knows,Anna\nDirk,knows,Bram\n",
        ", line 1: the first line (who, what, whom) looks like names of columns; "
        + WHICH.format("who,what,whom") + FACT,
    ),
    "unknown names, more columns": (
        "f.csv",
        "who,what,whom,when\nAnna,bornIn,Delft,1999\n",
        ", line 1: 4 columns (who, what, whom, when), which do not say what they are; "
        + WHICH.format("who,what,whom") + FACT,
    ),
    "confidence without a header": (
        "f.tsv",
        "Anna\tbornIn\tDelft\t0.93\nBram\tbornIn\tDelft\t0.4\n",
        ", line 1: 4 columns (Anna, bornIn, Delft, 0.93), which do not say what they are; "
        "say which are source, relation and target by their numbers, such as --columns 1,2,3.",
    ),
    "no relation": (
        "f.csv",
        "source,target,weight\nAnna,Delft,1\n",
        ", line 1: the first line (source, target, weight) names no relation; "
        "add a column that names the relation of each row" + FACT,
    ),
    "a relation of an unknown name": (
        "f.csv",
        "from,to,via\nAnna,Delft,bornIn\n",
        ", line 1: the first line (from, to, via) names no relation; " + WHICH.format("from,via,to") + FACT,
    ),
    "two sources": (
        "f.csv",
        "source,source_id,relation,target\nAnna,1,bornIn,Delft\n",
        ", line 1: both 'source' and 'source_id' could be the source; "
        + WHICH.format("source,relation,target") + ".",
    ),
    "three targets": (
        "f.csv",
        "s,p,o,t,to\na,r,b,c,d\n",
        ", line 1: each of 'o', 't' and 'to' could be the target; " + WHICH.format("s,p,o") + ".",
    ),
    "unknown names, two of them the same": (
        "f.csv",
        "Person,meets,Person\nAnna,knows,Delft\nBram,knows,Delft\nCarl,knows,Anna\nDirk,knows,Bram\n",
        ", line 1: the first line (Person, meets, Person) looks like names of columns; give the columns different names"
        + FACT,
    ),
    "unknown names, the relation last": (
        "f.csv",
        "a,b,c\nAnna,Delft,bornIn\nBram,Ede,bornIn\nCarl,Anna,knows\nDirk,Bram,knows\n",
        ", line 1: the first line (a, b, c) looks like names of columns; " + WHICH.format("a,b,c") + FACT,
    ),
    "rows that an index numbers": (
        "f.csv",
        "0,Anna,bornIn,Delft\n1,Bram,bornIn,Delft\n",
        ", line 1: 4 columns (0, Anna, bornIn, Delft), which do not say what they are; "
        "say which are source, relation and target by their numbers, such as --columns 2,3,4.",
    ),
    "a time without a header": (
        "f.tsv",
        "2014\t2015-02-01\t3\t7\n",
        ", line 1: 4 columns (2014, 2015-02-01, 3, 7), which do not say what they are; "
        "say which are source, relation and target by their numbers, such as --columns 1,2,3.",
    ),
    "weights instead of relations": (
        "f.txt",
        "1 2 0.5\n2 3 .25\n3 1 1.5\n1 3 0.5\n",
        ", line 1: column 3 holds numbers, such as .25; "
        "add a column that names the relation of each row, or say --columns 1,2,3 if they are names.",
    ),
    "the relation last": (
        "f.csv",
        "Anna,Bram,knows\nBram,Carl,likes\nCarl,Anna,knows\nAnna,Carl,likes\n",
        ", line 1: column 3 looks like the relation, for the two others share names; "
        "say --columns 1,3,2 (columns= in Python) if so, or --columns 1,2,3 if not.",
    ),
    "the relation first": (
        "f.csv",
        "knows,Anna,Bram\nlikes,Bram,Carl\nknows,Carl,Anna\nlikes,Anna,Carl\n",
        ", line 1: column 1 looks like the relation, for the two others share names; "
        "say --columns 2,1,3 (columns= in Python) if so, or --columns 1,2,3 if not.",
    ),
    "a header with the name of a relation": (
        "f.csv",
        "country,capital,city\nFrance,capital,Paris\nSpain,capital,Madrid\nItaly,capital,Rome\nItaly,near,Spain\n",
        ", line 1: the first line (country, capital, city) looks like names of columns; "
        + WHICH.format("country,capital,city") + FACT,
    ),
    "a header that names one thing twice": (
        "f.csv",
        "Name,friend of,Name\nAnna,friend of,Bram\nBram,friend of,Carl\nCarl,friend of,Dirk\nDirk,friend of,Anna\n",
        ", line 1: the first line (Name, friend of, Name) looks like names of columns; give the columns different names"
        + FACT,
    ),
    "lines that end as on old machines": (
        "f.csv",
        "source,relation,target\rAnna,bornIn,Delft\rBram,bornIn,Delft\r",
        ", line 1: lines end in carriage returns only; save the file with line ends of Windows or Unix.",
    ),
    "dates": (
        "f.csv",
        "person,relation,place,from,to\nAnna,bornIn,Delft,1999-12-01,\nBram,bornIn,Delft,2001,2002\n",
        ", line 1: from holds dates; " + WHICH.format("person,relation,place")
        + ", or say --columns from,relation,to if they are entities.",
    ),
    "probabilities": (
        "f.csv",
        "source,target,type,p\nAnna,Delft,bornIn,0.5\nBram,Delft,bornIn,1.0\n",
        ", line 1: p holds probabilities or weights, not relations; " + WHICH.format("source,type,target") + ".",
    ),
    "two columns": (
        "f.csv",
        "source,target\nAnna,Delft\n",
        ", line 1: 2 columns instead of 3; write source, relation and target, separated by commas.",
    ),
    "a label that is none": (
        "f.csv",
        "head,relation,tail,y\na,r,b,1\na,r,c,-1\n",
        ", line 1: y holds 1 and -1, as the labels of true and false facts do; "
        "say --columns head,relation,tail,y if they are labels, or --columns head,relation,tail if not.",
    ),
    "another number of fields": (
        "f.csv",
        "id,source,relation,target\n1,a,r,b\n2,a,r\n",
        ", line 3: 3 columns instead of 4; write as many fields as the header has, separated by commas.",
    ),
    "an empty name": (
        "f.csv",
        "target,source,relation\nb,a,r\nb, ,r\n",
        ", line 3: the source is empty; give it a name or delete the line.",
    ),
    "words that are not three": (
        "f.txt",
        "Anna bornIn Delft\nBram bornIn The Hague\n",
        ", line 1: 1 column instead of 3; write source, relation and target, separated by tabs.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("block_size", [1, 1 << 22])
@pytest.mark.parametrize("case", REFUSED)
def test_tables_that_do_not_say_what_they_are(tmp_path: Path, case: str, block_size: int) -> None:
    name, content, expected = REFUSED[case]
    path = tmp_path / name
    path.write_bytes(content.encode())
    with small_blocks(block_size), pytest.raises(MalformedFile) as failure:
        read_graph(path)
    assert str(failure.value) == f"{path}{expected}"


def test_a_first_line_that_may_be_a_header_is_doubted(tmp_path: Path, noted: Noted) -> None:
    path = tmp_path / "f.csv"
    path.write_text("who,what,whom\nAnna,bornIn,Delft\n")
    assert len(read_graph(path)) == 2
    assert noted() == [
        f"{path}: the first line (who, what, whom) is read as a fact; "
        "if it names the columns, say --columns who,what,whom."
    ]


def test_a_first_fact_of_its_own_relation_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "f.tsv"
    others = [f"p{i}\t{relation}\t{team}" for i in range(8) for relation, team in (("in", "t1"), ("leads", "t2"))]
    for first in ("p99\tpartOf\tt9", "p99\tin\tp99", "x:a\tpartOf\tx:b"):
        path.write_text("\n".join([first, *others]))
        assert len(read_graph(path)) == 17


def test_a_header_that_shares_a_relation_is_doubted(tmp_path: Path, noted: Noted) -> None:
    path = tmp_path / "f.csv"
    path.write_text("item,type,class\nQ1,type,bird\nQ2,type,fish\nQ1,eats,Q2\nQ3,type,bird\nQ3,eats,Q2\n")
    assert len(read_graph(path)) == 6
    assert noted() == [
        f"{path}: the first line (item, type, class) is read as a fact; "
        "if it names the columns, say --columns item,type,class."
    ]


def test_a_first_fact_with_words_of_headers_is_one_if_they_recur(tmp_path: Path) -> None:
    path = tmp_path / "f.tsv"
    path.write_text("start\tnext\tmiddle\nmiddle\tnext\tend\n")
    assert len(read_graph(path)) == 2


@pytest.mark.parametrize(("columns", "told"), [
    ("a,b", "a, b"), ("a,b,b", "a, b, b"), ("", "none"), (("a", "b", " "), "a, b, "),
    ((1, 2, 3, 4, 5), "1, 2, 3, 4, 5"),
])  # fmt: skip
def test_columns_that_are_not_three(tmp_path: Path, columns: Sequence[str | int], told: str) -> None:
    (tmp_path / "f.tsv").write_text("a\tr\tb\n")
    with pytest.raises(ConfigError) as failure:
        read_graph(tmp_path / "f.tsv", columns=columns)
    assert str(failure.value).startswith("columns must be three different names or numbers, of source, relation and ")
    assert str(failure.value).endswith(f", not {told}.")


@pytest.mark.parametrize(("columns", "expected"), [
    ("a,b,x", "no column is called 'x'; there are source, relation, target; name these."),
    ("1,2,9", "there is no column 9 among 3; count columns from 1, or name them."),
])  # fmt: skip
def test_columns_that_are_not_there(tmp_path: Path, columns: str, expected: str) -> None:
    path = tmp_path / "f.csv"
    path.write_text("source,relation,target\na,r,b\n")
    with pytest.raises(DataError) as failure:
        read_graph(path, columns=columns.replace("a,b", "source,relation"))
    assert str(failure.value) == f"{path}, line 1: {expected}"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["a", "b", "c"], "no column is named like a source, relation or target, only a, b, c; "
         + WHICH.format("a,b,c")),
        (["source", "target", "x"], "no column is named like a relation, only source, target, x; "
         + WHICH.format("source,x,target")),
        (["s", "o"], "2 columns (s, o) instead of 3; write columns source, relation and target"),
    ],
)  # fmt: skip
def test_parquet_that_does_not_say_what_it_is(tmp_path: Path, columns: list[str], expected: str) -> None:
    path = tmp_path / "f.parquet"
    pl.DataFrame([["x"] * len(columns)], schema=columns, orient="row").write_parquet(path)
    with pytest.raises(MalformedFile) as failure:
        read_graph(path)
    assert str(failure.value) == f"{path}: {expected}."


def test_a_graph_without_paths_is_warned_about(tmp_path: Path) -> None:
    path = tmp_path / "f.tsv"
    path.write_text("".join(f"a{i}\tr\tb{i}\n" for i in range(5)))
    assert len(read_graph(path)) == 5  # a handful may well be like that
    path.write_text("".join(f"a{i}\tr\tb{i}\n" for i in range(6)))
    with pytest.warns(Unconnected) as warned:
        assert len(read_graph(path)) == 6
    assert str(warned[0].message) == (
        f"{path}: every entity occurs in one fact only, so that there is nothing to learn from; "
        "if the columns are mixed up, say which are source, relation and target with --columns."
    )


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("content", "expected"), [
    ("Anna\tbornIn\tnan\nBram\tbornIn\tnan\n",
     "'nan' is a name here; drop these rows if a missing entity was written so."),
    ("Anna\tNone\tDelft\nBram\tnull\tDelft\n",
     "'None' and 'null' are names here; drop these rows if a missing relation was written so."),
    ("Jose\u0301\tknows\tAnna\nJos\u00e9\tknows\tBram\n",
     "'Jos\u00e9' is the name of more than one entity, with accents encoded differently; "
     "write names in one Unicode form (NFC)."),
])  # fmt: skip
def test_odd_names_are_warned_about(tmp_path: Path, content: str, expected: str) -> None:
    path = tmp_path / "f.tsv"
    path.write_text(content)
    with pytest.warns(OddNames) as warned:
        assert len(read_graph(path)) == 2
    assert [str(each.message) for each in warned] == [f"{path}: {expected}"]


@pytest.mark.filterwarnings("default")
def test_a_header_in_the_middle_is_warned_about(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("source,target,relation\na,b,r\n\nsource,target,relation\nb,a,r\n")
    with pytest.warns(OddNames) as warned:
        assert len(read_graph(path)) == 3
    assert [str(each.message) for each in warned] == [
        f"{path}, line 4: the header stands here again and is read as a fact; delete the line if files were put "
        "together."
    ]


def test_names_in_quotes_keep_them_in_tsv_without_a_header(tmp_path: Path, noted: Noted) -> None:
    path = tmp_path / "f.tsv"
    path.write_text('"Anna"\t"bornIn"\t"Delft"\n')
    assert facts_of(read_graph(path)) == [('"Anna"', '"bornIn"', '"Delft"')]
    assert noted() == [
        f"{path}: all names are in quotes and keep them; if they only enclose names, call the file .csv."
    ]


def test_parquet_and_frames_are_looked_into_like_text(tmp_path: Path) -> None:
    labelled = pl.DataFrame({"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", "a"], "y": [1.0, -1.0]})
    dated = pl.DataFrame({"who": ["a"], "relation": ["r"], "whom": ["b"], "from": [date(1999, 1, 1)], "to": [None]})
    for table, problem in ((labelled, "y holds 1 and -1, as the labels of true"), (dated, "from holds dates; say")):
        table.write_parquet(tmp_path / "f.parquet")
        for source in (tmp_path / "f.parquet", table, table.to_pandas()):
            with pytest.raises(DataError, match=problem):
                load(source)
