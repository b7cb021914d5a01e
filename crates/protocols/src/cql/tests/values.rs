//! Cells and the inner structure of their types.

use super::build::*;
use super::*;
use overhead_decode::Note;

/// Posts one cell, without the message's `framing 28, metadata 7` and schema.
fn cell(of: &[u8], contents: &[u8]) -> (String, Vec<Note>) {
    let transcript = exchange(&query(1, "SELECT a FROM t"), &rows(1, "k", &[("a", of.to_vec())], &[value(contents)]));
    let inside = |account: Account| bytes_of(&transcript, Response, account);
    // Header, kind, counts and lengths of the message around the cell.
    let framing = inside(Account::Framing) - 6 - 4 - 4 - 6 - 4 - 4;
    let unknown = inside(Account::Unknown);
    assert_eq!(unknown, 0);
    (format!("framing {framing}, data {}", inside(Account::Data)), transcript.notes)
}

/// Posts a cell that fits its type.
fn fitting(of: &[u8], contents: &[u8]) -> String {
    let (posted, notes) = cell(of, contents);
    assert!(notes.is_empty(), "{notes:?}");
    posted
}

fn ints(count: u8) -> Vec<Vec<u8>> {
    (0..count).map(|_| value(&[1; 4])).collect()
}

#[test]
fn lists_sets_and_maps_count_their_elements() {
    assert_eq!(fitting(&native(TEXT), b"text"), "framing 0, data 4");
    assert_eq!(fitting(&list_of(&native(INT)), &elements(3, &ints(3))), "framing 16, data 12");
    let map = map_of(&native(TEXT), &native(INT));
    let pairs = elements(2, &[value(b"a"), value(&[0; 4]), value(b"bc"), null()]);
    assert_eq!(fitting(&map, &pairs), "framing 20, data 7");
    assert_eq!(fitting(&list_of(&native(INT)), &elements(0, &[])), "framing 4, data 0");
    assert_eq!(fitting(&list_of(&native(INT)), &[]), "framing 0, data 0");
}

#[test]
fn nested_collections_are_followed() {
    let inner = value(&elements(2, &ints(2)));
    let outer = elements(2, &[inner.clone(), inner]);
    assert_eq!(fitting(&list_of(&list_of(&native(INT))), &outer), "framing 36, data 16");
}

#[test]
fn tuples_and_user_types_may_end_before_their_fields_do() {
    let tuple = tuple_of(&[native(INT), native(TEXT), list_of(&native(INT))]);
    // The type's member count is framing too.
    let members = [value(&[0; 4]), value(b"ab"), value(&elements(1, &ints(1)))];
    assert_eq!(fitting(&tuple, &members.concat()), "framing 22, data 10");
    assert_eq!(fitting(&tuple, &members[..2].concat()), "framing 10, data 6");
    let user = [
        &short(0x30)[..],
        &string("lab"),
        &string("address"),
        &short(2),
        &string("street"),
        &native(TEXT),
        &string("zip"),
        &native(INT),
    ];
    assert_eq!(fitting(&user.concat(), &[value(b"Elm"), null()].concat()), "framing 18, data 3");
}

const MARSHAL: &str = "org.apache.cassandra.db.marshal.";

fn class(name: &str) -> Vec<u8> {
    class_of(&name.replace('@', MARSHAL))
}

#[test]
fn vectors_of_fixed_elements_have_no_lengths() {
    assert_eq!(fitting(&class("@VectorType(@FloatType , 3)"), &[0; 12]), "framing 2, data 12");
    let nested = class("@VectorType(@VectorType(@LongType, 2), 3)");
    assert_eq!(fitting(&nested, &[0; 48]), "framing 2, data 48");
}

#[test]
fn vectors_of_other_elements_have_variable_length_integers() {
    let text = class("@VectorType(@UTF8Type, 3)");
    let long = [&[0x81, 0x2C][..], &[b'x'; 300]].concat();
    assert_eq!(fitting(&text, &[&[2, b'a', b'b'][..], &[0], &long].concat()), "framing 6, data 302");
    let lists = class("@VectorType(@ListType(@Int32Type), 2)");
    let list = elements(1, &ints(1));
    assert_eq!(fitting(&lists, &[&[12][..], &list, &[12], &list].concat()), "framing 20, data 8");
}

#[test]
fn types_that_are_named_by_their_class_are_read() {
    let frozen = class("@FrozenType(@MapType(@UTF8Type,@ReversedType(@Int32Type)))");
    let pairs = elements(1, &[value(b"a"), value(&[0; 4])]);
    assert_eq!(fitting(&frozen, &pairs), "framing 14, data 5");
    let user = class("@UserType(lab,61646472,7a6970:@Int32Type,746167:@SetType(@UTF8Type))");
    let fields = [value(&[0; 4]), value(&elements(1, &[value(b"x")]))].concat();
    assert_eq!(fitting(&user, &fields), "framing 18, data 5");
    assert_eq!(fitting(&class("@TupleType(@Int32Type,@DurationType)"), &ints(2).concat()), "framing 10, data 8");
}

#[test]
fn an_unknown_class_leaves_its_cells_whole() {
    for name in
        ["com.example.Geometry", "@VectorType(@FloatType", "@ListType()", "", "((((", "@VectorType(@FloatType, x)"]
    {
        assert_eq!(cell(&class(name), &[1; 9]), ("framing 2, data 9".to_owned(), vec![]), "{name}");
        let tuple = [0, 0, 0, 5, 1, 1, 1, 1, 1];
        assert_eq!(cell(&class(name), &tuple), ("framing 2, data 9".to_owned(), vec![Note::UntypedValue]), "{name}");
    }
    assert_eq!(cell(&native(0x7777), &[1; 9]), ("framing 0, data 9".to_owned(), vec![]));
}

#[test]
fn cells_of_unknown_type_are_noted_where_they_could_have_structure() {
    let noted = |bytes: &[u8]| !cell(&native(0x7777), bytes).1.is_empty();
    assert!(noted(&elements(2, &ints(2))), "a list");
    assert!(noted(&elements(1, &[value(b"key"), value(b"value")])), "a map");
    assert!(noted(&[value(b"one"), null(), value(b"two")].concat()), "a tuple");
    for scalar in [&[0; 4][..], &[0; 8], &[0xFF; 4], &[0; 12], b"text", b"", &[0, 0, 0, 1, 0, 0, 0, 5], &[1; 16]] {
        assert!(!noted(scalar), "{scalar:?}");
    }
}

#[test]
fn what_does_not_fit_its_type_is_data_and_noted() {
    let list = list_of(&native(INT));
    let noted = |framing, data| (format!("framing {framing}, data {data}"), vec![Note::UntypedValue]);
    // Too short for a count; an element longer than the cell; too few elements; bytes after the last.
    assert_eq!(cell(&list, &[1; 3]), noted(0, 3));
    assert_eq!(cell(&list, &elements(1, &[int(500).to_vec(), vec![1; 4]])), noted(8, 4));
    assert_eq!(cell(&list, &elements(9, &ints(2))), noted(12, 8));
    assert_eq!(cell(&list, &elements(1, &ints(2))), noted(8, 12));
    assert_eq!(cell(&class("@VectorType(@FloatType, 3)"), &[0; 11]), noted(2, 11));
    assert_eq!(cell(&class("@VectorType(@UTF8Type, 2)"), &[0xFF; 11]), noted(2, 11));
}

#[test]
fn null_and_unset_values_are_framing() {
    let id = [1; 8];
    let columns = [("a", native(INT)), ("b", native(INT)), ("c", list_of(&native(INT)))];
    let transcript = decode(&[
        (Request, &prepare(0, "UPDATE t SET a = ?")),
        (Response, &prepared(0, &id, "lab", &columns, &[])),
        (Request, &execute(0, &id, 0, &[null(), unset(), value(&elements(1, &ints(1)))])),
        (Response, &void(0)),
    ]);
    assert_eq!(transcript.ops[1].posted(Request), "framing 30, metadata 14, data 4");
    assert!(transcript.notes.is_empty());
}
