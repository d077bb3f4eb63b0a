"""Whatever the text: audio or a typed error, and the same from eight threads as from one."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.texts import some_texts, texts
from tests.threads import at_once
from trt_tts import Engine, TrtTtsError
from trt_tts.options import SynthesisOptions
from trt_tts.text.prompt import PROMPT_TOKENS

THREADS = 8


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(texts(), st.booleans(), st.sampled_from(["auto", "en", "zh"]))
def test_the_frontend_makes_segments_of_any_text_or_a_typed_error(tiny_engine, text, normalize, language):
    options = SynthesisOptions(normalize=normalize, language=language)
    try:
        prepared = tiny_engine.prepare_text(text, options)
    except TrtTtsError as error:
        assert str(error)
        return
    tokenizer = tiny_engine._frontend.tokenizer
    forbidden = {tokenizer.special(name) for name in (*PROMPT_TOKENS, "[UNK]")}
    for segment in prepared.segments:
        assert segment.text.strip()
        assert not set(tokenizer.encode(segment.text)) & forbidden
    whole = "".join("".join(paragraph.text.split()) for paragraph in prepared.paragraphs)
    assert "".join("".join(segment.text.split()) for segment in prepared.segments) == whole


def outcome(engine, text):
    """Everything a caller sees."""
    try:
        audio = engine.synthesize(text, seed=5, max_steps=3, voice=engine.random_voice(1))
    except TrtTtsError as error:
        return type(error), str(error)
    return audio.samples.tobytes(), audio.steps, audio.truncated, audio.text, audio.warnings


def test_two_hundred_texts_end_in_audio_or_a_typed_error_alike_in_eight_threads(tiny_set):
    several = some_texts(200, most=200)
    assert len(several) == 200
    with Engine.load(tiny_set) as engine:
        alone = [outcome(engine, text) for text in several]
        together = {}

        def share(first):
            for index in range(first, len(several), THREADS):
                together[index] = outcome(engine, several[index])

        at_once(share, range(THREADS))
    assert [together[index] for index in range(len(several))] == alone
    spoken = [result for result in alone if len(result) > 2]
    assert 50 < len(spoken) < 200, "the texts are of both kinds"
