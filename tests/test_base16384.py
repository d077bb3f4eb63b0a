import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts import base16384
from trt_tts.errors import VoiceError

REFERENCE = Path(__file__).parent / "reference"
SAMPLE = bytes((37 * i + 201) % 255 + 1 for i in range(28))
"""No zero byte, so that padding never looks like data."""


def speaker_string(name):
    return json.loads((REFERENCE / name / "cases.json").read_text("utf-8"))["speaker_string"]


def decoded_bit_by_bit(text):
    """An independent reading of the format: the 14-bit values as one string of binary digits."""
    rest = ord(text[-1]) - 0x3D00
    if not 0 < rest < 7:
        rest, body = 0, text
    else:
        body = text[:-1]
    bits = "".join(f"{ord(c) - 0x4E00:014b}" for c in body)
    last_group = {0: 0, 1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4}[rest]
    size = (len(body) - last_group) // 4 * 7 + rest
    return bytes(int(bits[8 * i : 8 * i + 8], 2) for i in range(size))


@given(st.binary(max_size=300))
def test_any_bytes_round_trip(data):
    assert base16384.decode(base16384.encode(data)) == data


@pytest.mark.parametrize("size", range(29))
def test_every_length_takes_the_characters_the_format_says(size):
    text = base16384.encode(bytes(size))
    whole, rest = divmod(size, 7)
    assert len(text) == 4 * whole + {0: 0, 1: 2, 2: 3, 3: 3, 4: 4, 5: 4, 6: 5}[rest]
    assert base16384.decode(text) == bytes(size)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (bytes(7), "\u4e00" * 4),
        (b"\xff" * 7, "\u8dff" * 4),
        (b"\xff", "\u8dc0\u3d01"),
        (bytes([0, 1, 0, 0, 0, 0, 1]), "\u4e00\u5e00\u4e00\u4e01"),
    ],
)
def test_hand_made_vectors(data, text):
    assert base16384.encode(data) == text
    assert base16384.decode(text) == data


@pytest.mark.parametrize("name", ["tiny", "demo_voice"])
def test_published_voice_strings_decode_bit_for_bit(name):
    text = speaker_string(name)
    data = base16384.decode(text)
    assert data == decoded_bit_by_bit(text)
    assert base16384.encode(data) == text


@given(st.binary(max_size=300))
def test_encoding_equals_an_independent_reading(data):
    text = base16384.encode(data)
    assert (decoded_bit_by_bit(text) if text else b"") == data


@pytest.mark.parametrize("foreign", ["a", " ", "\n", "\u4dff", "\u8e00", "\u3d07", "\u3d00", "\ud800", "😀", "\0"])
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_a_foreign_character_is_refused_and_named(foreign, place):
    text = base16384.encode(SAMPLE)
    at = {"first": 0, "middle": 6, "last": len(text) - 1}[place]
    with pytest.raises(VoiceError) as caught:
        base16384.decode(text[:at] + foreign + text[at + 1 :])
    assert repr(foreign) in str(caught.value)
    assert f"character {at + 1} " in str(caught.value)


@pytest.mark.parametrize("marker", [chr(0x3D00 + n) for n in range(1, 7)])
def test_a_tail_marker_in_the_middle_is_refused(marker):
    text = base16384.encode(SAMPLE)
    with pytest.raises(VoiceError):
        base16384.decode(text[:5] + marker + text[5:])


@pytest.mark.parametrize("size", range(1, 29))
def test_a_truncated_string_is_refused_unless_it_ends_between_groups(size):
    """A cut between two groups of four leaves a valid, shorter string: only the layer above can notice."""
    data = SAMPLE[:size]
    text = base16384.encode(data)
    for keep in range(1, len(text)):
        if keep % 4:
            with pytest.raises(VoiceError):
                base16384.decode(text[:keep])
        else:
            assert base16384.decode(text[:keep]) == data.ljust(keep // 4 * 7, b"\0")[: keep // 4 * 7]


@pytest.mark.parametrize("marker", range(1, 7))
def test_a_tail_marker_alone_is_refused(marker):
    with pytest.raises(VoiceError):
        base16384.decode(chr(0x3D00 + marker))


@pytest.mark.parametrize(("size", "marker"), [(n, m) for n in range(7, 14) for m in range(1, 7) if m != n % 7])
def test_a_wrong_tail_marker_is_refused(size, marker):
    """Only a marker whose extra bytes are the zero padding itself is indistinguishable from a right one."""
    text = base16384.encode(SAMPLE[:size])
    body = text[:-1] if size % 7 else text
    needs = {0: 0, 1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4}
    if needs[marker] == needs[size % 7] and marker > size % 7:
        assert base16384.decode(body + chr(0x3D00 + marker)) == SAMPLE[:size] + bytes(marker - size % 7)
    else:
        with pytest.raises(VoiceError):
            base16384.decode(body + chr(0x3D00 + marker))


def test_padding_bits_that_are_not_zero_are_refused():
    with pytest.raises(VoiceError):
        base16384.decode("\u8dc1\u3d01")


@given(st.text(st.characters(min_codepoint=0x3CFF, max_codepoint=0x8E01)) | st.text())
def test_any_text_is_refused_or_is_what_its_bytes_encode_to(text):
    try:
        data = base16384.decode(text)
    except VoiceError:
        return
    assert base16384.encode(data) == text
