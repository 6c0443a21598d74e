"""The undo note in AdminComment: round trip, foreign text, damage."""

from hypothesis import example, given
from hypothesis import strategies as st

from slurm_ext.model.decision import Shape
from slurm_ext.model.ledger import UndoNote, parse_note, render_note, with_note

host_lists = st.from_regex(
    r"([a-z][a-z0-9.-]{0,6}(\[[0-9]{1,3}(-[0-9]{1,3})?(,[0-9]{1,3}){0,2}\])?,?){0,3}",
    fullmatch=True,
)
counts = st.integers(0, 1 << 20)
shapes = st.none() | st.builds(Shape, counts, counts, counts, counts, counts)
numbers = st.integers(-(1 << 40), 1 << 40)


def notes(lists: st.SearchStrategy[str] = host_lists) -> st.SearchStrategy[UndoNote]:
    return st.builds(
        UndoNote,
        lease_until_s=st.none() | numbers,
        original_begin_s=numbers,
        held=st.booleans(),
        pinned=lists,
        original_required=lists,
        excluded=lists,
        original_excluded=lists,
        shape=shapes,
        original_shape=shapes,
        site_factor=numbers,
    )


fragments = st.sampled_from(
    [
        "[slurm_ext;", "[slurm_ext", "]", "[", ";crc:", "00000000", " ", "lease:1;begin:0;held:0",
        "\n", "sf:0", "[slurm_ext;lease:1;begin:0;held:1;sf:0;crc:00000000]",
        render_note(UndoNote(lease_until_s=9)), render_note(UndoNote(pinned="n[1-2]"))[:-4],
    ]
)  # fmt: skip
hostile = st.lists(fragments | st.text(max_size=4), max_size=10).map("".join)
foreign = hostile.filter(lambda text: parse_note(text) is None)


@given(notes())
def test_what_is_rendered_is_parsed(note: UndoNote) -> None:
    assert parse_note(render_note(note)) == note


@given(notes(st.text(max_size=20)))
@example(UndoNote(pinned="a(b)c%28.;crc:0 \n[x]=:"))
def test_values_that_are_no_host_lists_survive_too(note: UndoNote) -> None:
    assert parse_note(render_note(note)) == note


@given(notes(st.text(max_size=20)))
def test_a_note_is_one_bracket_without_a_blank(note: UndoNote) -> None:
    text = render_note(note)
    assert " " not in text
    assert text.count("[") == text.count("]") == 1
    assert "=" not in text
    assert text.isascii()
    assert text.isprintable()


@given(hostile, notes())
def test_the_note_put_in_is_the_one_found(comment: str, note: UndoNote) -> None:
    assert parse_note(with_note(comment, note)) == note


@given(hostile, notes())
def test_putting_in_twice_is_putting_in_once(comment: str, note: UndoNote) -> None:
    once = with_note(comment, note)
    assert with_note(once, note) == once


@given(hostile, notes(), notes())
def test_a_new_note_replaces_the_old_one(comment: str, old: UndoNote, new: UndoNote) -> None:
    assert with_note(with_note(comment, old), new) == with_note(comment, new)


@given(hostile)
def test_after_taking_out_none_is_found(comment: str) -> None:
    assert parse_note(with_note(comment, None)) is None


@given(foreign)
def test_text_without_a_whole_note_is_left_alone(comment: str) -> None:
    assert with_note(comment, None) == comment


@given(foreign, notes())
@example("", UndoNote())
@example(" ", UndoNote())
@example("line\n", UndoNote())
def test_foreign_text_comes_back_byte_for_byte(comment: str, note: UndoNote) -> None:
    assert with_note(with_note(comment, note), None) == comment


@given(foreign, notes(), foreign)
def test_text_that_others_add_behind_stays(before: str, note: UndoNote, behind: str) -> None:
    kept = with_note(with_note(before, note) + behind, None)
    # Joining the two sides may complete a quoted note; otherwise every byte is there.
    assert kept == before + behind or parse_note(before + behind) is not None


@given(notes(), st.data())
def test_a_cut_note_counts_as_none(note: UndoNote, data: st.DataObject) -> None:
    text = render_note(note)
    assert parse_note(text[: data.draw(st.integers(0, len(text) - 1))]) is None


@given(notes(), st.data())
def test_an_edited_note_counts_as_none(note: UndoNote, data: st.DataObject) -> None:
    text = render_note(note)
    at = data.draw(st.integers(len("[slurm_ext;"), len(text) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda ch: ch != text[at]))
    assert parse_note(text[:at] + other + text[at + 1 :]) is None


def test_a_forged_note_without_checksum_does_not_win() -> None:
    ours = UndoNote(lease_until_s=1_700_000_300, original_begin_s=7)
    comment = with_note("[slurm_ext;lease:1;begin:0;held:1;sf:0]", ours)
    assert parse_note(comment) == ours
    assert with_note(comment, None) == "[slurm_ext;lease:1;begin:0;held:1;sf:0]"


def test_of_two_whole_notes_the_last_counts_and_both_go() -> None:
    old, ours = UndoNote(lease_until_s=1), UndoNote(lease_until_s=2)
    comment = f"was: {render_note(old)} now {render_note(ours)}"
    assert parse_note(comment) == ours
    assert with_note(comment, None) == "was: now"


def test_taking_one_out_of_the_middle_of_another_takes_both() -> None:
    whole = render_note(UndoNote(lease_until_s=5))
    comment = whole[:15] + render_note(UndoNote()) + whole[15:]
    assert with_note(comment, None) == ""


@given(hostile)
def test_parsing_never_fails(comment: str) -> None:
    assert parse_note(comment) is None or isinstance(parse_note(comment), UndoNote)
