"""Any text a user may send, for property tests."""

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from trt_tts.text.prompt import CONTROL_TAGS, PROMPT_TOKENS

MOST = 5000
_ODD = (
    *"[](){}<>（）【】［］﹇﹈'\"“”.,!?;:，。！？；：、…—-/\\|~^*_#@&%$€¥°²½①Ⅳ３Ａ\n\t",
    *("\r\n", "\n\n", "\u2028", "\u200b", "\ufeff", "\ud800", "\x00", "😀", "👩\u200d🚀", "e\u0301", "か", "喆", "𠮷"),
    *("[my_tag]", "[[", "]]", "[Pt", "ts]", "1,234.56", "15:30", "4/15", "GPT-4o", "5kg", "Dr. ", "U.S. ", "a@b.com"),
)
_WORDS = ("the engine is ready ", "good morning. ", "What's up? ", "今天天气很好，", "我们走吧。", "好", "a", "9")
_PIECES = st.sampled_from((*CONTROL_TAGS, *PROMPT_TOKENS, *_ODD)) | st.sampled_from(_WORDS) | st.text(max_size=5)
_SHORT = st.lists(_PIECES, max_size=30).map("".join)


def texts(most: int = MOST) -> st.SearchStrategy[str]:
    """Texts of 0 to `most` characters: any Unicode, tags, brackets, numbers, now and then many times over."""
    times = st.sampled_from((1, 1, 1, 2, 10, 100))
    return st.builds(lambda text, count: (text * count)[:most], _SHORT | st.text(), times)


def some_texts(count: int, most: int) -> list[str]:
    """`count` of them, always the same."""
    found: list[str] = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(texts(most))
    def collect(text: str) -> None:
        found.append(text)

    collect()
    return found
