"""Outlines of small files of our own, one for each language."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autopatch.chassis import outline as module
from autopatch.chassis.outline import LARGEST, Definition, known, outline
from autopatch.chassis.outlines import outlines

PYTHON = '''\
import functools

@functools.cache
@retried(
    times=3,
)
async def fetch(url):
    def parse(text):
        return text
    return parse(url)


class Book[T]:
    """A ledger."""

    size = 3

    @property
    def total(self) -> int:
        return 1

    class Page:
        async def read(self):
            pass


handler = lambda: None
if True:
    def late(): return 1
'''
JAVASCRIPT = """\
export const add = async (a, b) => a + b;
const one = 1, two = () => 2, three = 3;
export default function () {
  return 1;
}
function* numbers() {}
class Cart extends Base {
  #items = [];
  static async *walk() {}
  get size() { return 1; }
  constructor() { super(); }
  'odd name'() {}
  onClick = () => {
    const inner = () => 1;
  };
}
const routes = {
  list(request) { return []; },
  find: async (id) => id,
};
module.exports.pay = function () {};
exports.refund = () => 1;
Cart.prototype.clear = function () {};
const Named = class { run() {} };
describe("cart", () => { it("adds", () => {}); });
"""
TYPESCRIPT = """\
@Injectable()
export class Store<T extends object> extends Base<T> implements Shelf {
  @Input()
  @Logged("x")
  find<K extends keyof T>(key: K): T[K] { return this.at[key]; }
  private keep = async <V,>(value: V) => value;
}
abstract class Shape { abstract area(): number; name(): string { return ""; } }
interface Shelf { find(key: string): unknown }
enum Colour { Red }
export namespace Money.Rates { export function convert(a: number) { return a; } }
function round(a: string): string;
function round(a: number): number;
function round(a: any): any { return a; }
type Alias = string;
"""
GO = """\
package pay

type Ledger[T any] struct { rows []T }
type (
	Amount int
	Source interface { Next() bool }
)

func Map[T, U any](in []T, f func(T) U) []U {
	each := func(t T) U { return f(t) }
	return nil
}

func (l *Ledger[T]) Add(row T) error {
	return nil
}
func (Amount) String() string { return "" }

var Default = func() int { return 1 }
"""
JAVA = """\
package pay;

@Service
public class Ledger<T extends Comparable<T>> {
  Ledger() {}

  @Override
  public <U> U map(java.util.function.Function<T, U> f) {
    Runnable r = new Runnable() { public void run() {} };
    return null;
  }

  enum Kind { IN, OUT; boolean in() { return this == IN; } }
  record Row(int amount) { Row { if (amount < 0) throw new IllegalArgumentException(); } }
  interface Source { boolean next(); }
  @interface Audited { String value(); }
}
"""


def test_python_decorators_async_nested_classes_and_functions_are_found_with_their_lines() -> None:
    assert outline("pay/book.py", PYTHON.encode()) == (
        ("fetch", "function", 3, 10),
        ("fetch.parse", "function", 8, 9),
        ("Book", "class", 13, 24),
        ("Book.total", "method", 18, 20),
        ("Book.Page", "class", 22, 24),
        ("Book.Page.read", "method", 23, 24),
        ("late", "function", 29, 29),
    )


@pytest.mark.parametrize("suffix", ["js", "jsx", "mjs", "cjs", "ts", "tsx"])
def test_javascript_arrows_methods_objects_and_exports_are_found(suffix: str) -> None:
    assert outline(f"cart.{suffix}", JAVASCRIPT.encode()) == (
        ("add", "function", 1, 1),
        ("two", "function", 2, 2),
        ("default", "function", 3, 5),
        ("numbers", "function", 6, 6),
        ("Cart", "class", 7, 16),
        ("Cart.walk", "method", 9, 9),
        ("Cart.size", "method", 10, 10),
        ("Cart.constructor", "method", 11, 11),
        ("Cart.odd name", "method", 12, 12),
        ("Cart.onClick", "method", 13, 15),
        ("Cart.onClick.inner", "function", 14, 14),
        ("routes.list", "method", 18, 18),
        ("routes.find", "method", 19, 19),
        ("pay", "function", 21, 21),
        ("refund", "function", 22, 22),
        ("Cart.clear", "function", 23, 23),
        ("Named", "class", 24, 24),
        ("Named.run", "method", 24, 24),
    )


@pytest.mark.parametrize("suffix", ["ts", "mts", "cts", "tsx"])
def test_typescript_decorators_generics_namespaces_and_the_body_of_an_overload_are_found(suffix: str) -> None:
    assert outline(f"store.{suffix}", TYPESCRIPT.encode()) == (
        ("Store", "class", 1, 7),
        ("Store.find", "method", 3, 5),
        ("Store.keep", "method", 6, 6),
        ("Shape", "class", 8, 8),
        ("Shape.name", "method", 8, 8),
        ("Shelf", "class", 9, 9),
        ("Colour", "class", 10, 10),
        ("Money.Rates.convert", "function", 11, 11),
        ("round", "function", 14, 14),
    )


def test_go_methods_carry_the_name_of_their_receiver() -> None:
    assert outline("pay/ledger.go", GO.encode()) == (
        ("Ledger", "class", 3, 3),
        ("Amount", "class", 5, 5),
        ("Source", "class", 6, 6),
        ("Map", "function", 9, 12),
        ("Map.each", "function", 10, 10),
        ("Ledger.Add", "method", 14, 16),
        ("Amount.String", "method", 17, 17),
        ("Default", "function", 19, 19),
    )


def test_java_annotations_inner_types_constructors_and_anonymous_classes_are_found() -> None:
    assert outline("Ledger.java", JAVA.encode()) == (
        ("Ledger", "class", 3, 17),
        ("Ledger.Ledger", "method", 5, 5),
        ("Ledger.map", "method", 7, 11),
        ("Ledger.map.run", "method", 9, 9),
        ("Ledger.Kind", "class", 13, 13),
        ("Ledger.Kind.in", "method", 13, 13),
        ("Ledger.Row", "class", 14, 14),
        ("Ledger.Row.Row", "method", 14, 14),
        ("Ledger.Source", "class", 15, 15),
        ("Ledger.Source.next", "method", 15, 15),
        ("Ledger.Audited", "class", 16, 16),
    )


def test_what_is_broken_hides_only_itself() -> None:
    found = outline("a.py", b"def first():\n    return 1\n\ndef broken(:\n    pass\n\ndef last():\n    return 2\n")
    assert {("first", "function", 1, 2), ("last", "function", 7, 8)} <= set(found)


def test_a_byte_order_mark_crlf_and_foreign_letters_change_no_line() -> None:
    data = "\ufeff# Gr\u00fc\u00dfe\r\ndef summe_\u00e4():\r\n    return 1\r\n".encode()
    assert outline("a.py", data) == (("summe_\u00e4", "function", 2, 3),)
    assert outline("a.py", b"# caf\xe9\ndef f():\n    pass\n") == (("f", "function", 2, 3),)


def test_an_unknown_language_an_empty_file_and_a_huge_one_have_no_outline() -> None:
    assert outline("a.rb", b"def f\nend\n") == outline("a.py", b"") == outline("Makefile", b"all:\n") == ()
    assert outline("a.py", b"def f(): pass\n" + b"#" * LARGEST) == ()
    assert known("src/A.PY") and not known("a.rb")


def test_without_its_grammar_a_language_has_no_outline(monkeypatch: pytest.MonkeyPatch) -> None:
    module._language.cache_clear()
    monkeypatch.setitem(sys.modules, "tree_sitter_go", None)
    assert outline("a.go", GO.encode()) == () and outline("a.py", b"def f(): pass") != ()
    monkeypatch.undo()
    assert outline("a.go", GO.encode()) != ()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([PYTHON, JAVASCRIPT, TYPESCRIPT, GO, JAVA]), st.integers(0, 2000), st.binary(max_size=12), st.data())
def test_whatever_is_written_into_a_file_its_outline_stays_in_it(text: str, at: int, noise: bytes, data: st.DataObject) -> None:
    spoilt = text.encode()[:at] + noise + text.encode()[at:]
    path = data.draw(st.sampled_from(["a.py", "a.js", "a.ts", "a.tsx", "a.go", "a.java"]))
    for name, kind, start, end in outline(path, spoilt):
        assert name and kind in ("function", "method", "class") and 1 <= start <= end <= spoilt.count(b"\n") + 1


def test_many_files_are_outlined_in_a_process_of_their_own_in_their_order() -> None:
    files = [("a.py", PYTHON.encode()), ("b.txt", b"words\n"), ("c.go", GO.encode()), ("\u00e4 b.py", b"def f(): pass")]
    assert outlines(files) == [outline(path, data) for path, data in files]
    assert outlines([]) == []


@pytest.mark.slow
def test_a_file_written_to_harm_the_parser_costs_its_own_outline_only() -> None:
    """The first needs gigabytes, the second minutes."""
    fine = (Definition("f", "function", 1, 1),)
    files = [("a.py", b"def f(): pass"), ("b.java", b"a=>" * 20_000), ("c.py", b"(" * 200_000), ("d.py", b"def f(): pass")]
    assert outlines(files) == [fine, (), (), fine]
