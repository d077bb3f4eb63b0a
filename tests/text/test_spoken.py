"""T1: no digit survives unspoken, and nothing a reader would say is lost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.text.language import main_language
from trt_tts.text.spoken import spell_out, without_contractions

CHINESE = {
    "今年4月15日": "今年四月十五日",
    "2024年5月1日": "二零二四年五月一日",
    "2024-05-01": "二零二四年五月一日",
    "1998-2003年": "一九九八到二零零三年",
    "电话13800138000": "电话幺三八零零幺三八零零零",
    "拨打010-12345678": "拨打零一零一二三四五六七八",
    "下午3:30": "下午三点三十分",
    "3~5天": "三到五天",
    "第3-5页": "第三到五页",
    "10%-20%": "百分之十到百分之二十",
    "1/2杯": "二分之一杯",
    "1 1/2杯": "一又二分之一杯",
    "-5度": "负五度",
    "零下5度": "零下五度",
    "1,234.56元": "一千二百三十四点五六元",
    "共12,345,678人": "共一千二百三十四万五千六百七十八人",
    "3.5%": "百分之三点五",
    "5‰": "千分之五",
    "100%安全": "百分之一百安全",
    "50°C": "五十摄氏度",
    "10℃": "十摄氏度",
    "5kg": "五千克",
    "100km/h": "每小时一百公里",
    "50m²": "五十平方米",
    "我有2个": "我有两个",
    "3x4": "三乘四",
    "1+1=2": "一加一等于二",
    "GPT-4o很强": "GPT 四o很强",
    "PM2.5": "PM二点五",
    "A4 paper": "A四 paper",
    "版本v1.2.3": "版本v一点二点三",
    "#5": "五号",
    "¥100": "一百元",
    "₹500": "五百卢比",
    "-$5": "负五美元",
    "大约3/4": "大约四分之三",
    "卡号6222021234567890": "卡号六二二二零二一二三四五六七八九零",
    "邮编：100080": "邮编：一零零零八零",
    "他跑了5 km": "他跑了五公里",
    "增长5-10%": "增长五到百分之十",
    "价格￥19.9元/斤": "价格每斤十九点九元",
    "浓度为35μg/m³": "浓度为每立方米三十五微克",
    "1.2g/cm³": "一点二克每立方厘米",
    "9.8m/s²": "九点八米每平方秒",
    "净利润￥3.2亿": "净利润三点二亿元",
    "￥100万元": "一百万元",
    "$100多万": "一百多万美元",
    "₹5亿": "五亿卢比",
    "$5-$10": "五到十美元",
    "¥5-10元": "五到十元",
    "HK$500": "五百港元",
    "¥50/人": "每人五十元",
    "$5/月": "五美元每月",
    "30万/年": "三十万每年",
    "5元/kg": "五元每千克",
    "10 000人": "一万人",
    "138 0013 8000": "幺三八零零幺三八零零零",
    "+86-13800138000": "加八六，幺三八零零幺三八零零零",
    "400 800 8888": "四零零八零零八八八八",
    "010 12345678": "零一零一二三四五六七八",
    "3:30pm开会": "下午三点三十分开会",
    "9am": "上午九点",
    "下午3:30pm，晚上8pm": "下午三点三十分，晚上八点",
    "价格是$5.": "价格是五美元.",
    "2^10": "二的十次方",
    "10^-3": "十的负三次方",
    "温度>30": "温度大于三十",
    "x>=5": "x大于等于五",
    "(~5)": "(约五)",
    ".5": "零点五",
    "10w+": "十万加",
    "图3-1": "图三杠一",
    "歼-20": "歼二十",
    "气温-5℃": "气温负五摄氏度",
    "增长-5%": "增长负百分之五",
    "2024/5": "二零二四年五月",
    "（1985-2024）": "（一九八五年到二零二四年）",
    "1000-2000元": "一千到两千元",
    "心率120次/分": "心率一百二十次每分",
    "拨打120": "拨打幺二零",
    "302室": "三零二室",
    "CA1234航班": "CA一二三四航班",
    "G1234次": "G一二三四次",
    "QQ123456": "QQ一二三四五六",
    "985、211大学": "九八五、二一一大学",
    "985元": "九百八十五元",
    "80、90后": "八零、九零后",
    "1080P": "一零八零P",
    "a@b.com": "a at b.com",
}
ENGLISH = {
    "It is 3:30 pm.": "It is three thirty PM.",
    "April 15, 2024": "the fifteenth of april, twenty twenty four",
    "in 1998": "in nineteen ninety eight",
    "1998-2003": "nineteen ninety eight to two thousand and three",
    "the 1990s": "the nineteen nineties",
    "the 1900s": "the nineteen hundreds",
    "555-1234": "five five five, one two three four",
    "555.123.4567": "five five five, one two three, four five six seven",
    "call 555 123 4567 now": "call five five five, one two three, four five six seven now",
    "+44 20 7946 0958": "plus four four, two zero, seven nine four six, zero nine five eight",
    "0800 123 456": "zero eight zero zero, one two three, four five six",
    "2 + 5 10 15": "two plus five ten fifteen",
    "10 000 people": "ten thousand people",
    "1 500 000 euros": "one million five hundred thousand euros",
    "+1 (555) 123-4567": "plus one, five five five, one two three, four five six seven",
    "5-10 km": "five to ten kilometers",
    "20%-30%": "twenty to thirty percent",
    "3~5 days": "three to five days",
    "~5": "about five",
    "1/2": "one half",
    "1 1/2": "one and a half",
    "-5 degrees": "negative five degrees",
    "1,234.56": "one thousand two hundred and thirty four point five six",
    "$1,000": "one thousand dollars",
    "1000 people": "one thousand people",
    "1001 nights": "one thousand and one nights",
    "$5.50": "five point five dollars",
    "₹500": "five hundred rupees",
    "3.5%": "three point five percent",
    "100% safe": "one hundred percent safe",
    "50°C": "fifty degrees Celsius",
    "5kg": "five kilograms",
    "GPT-4o": "GPT four o",
    "MP3": "MP three",
    "v1.2.3": "v one point two point three",
    "192.168.1.1": "one nine two point one six eight point one point one",
    "No. 5": "number five",
    "#1": "number one",
    "§5": "section five",
    "3×4": "three times four",
    "10² ≠ 5": "ten squared is not five",
    "10^6": "ten to the power of six",
    "10^-3": "ten to the power of negative three",
    "5 > 3": "five is more than three",
    "x >= 5": "x at least five",
    "x != 5": "x is not five",
    "100+": "one hundred plus",
    "it was -$5": "it was negative five dollars",
    "y = −3": "y equals negative three",
    "x - 5": "x minus five",
    "1.5e-3": "one point five e minus three",
    "5 m tall": "five meters tall",
    "5 m/s": "five meters per second",
    "20€": "twenty euros",
    "$5k": "five thousand dollars",
    "A$20": "twenty Australian dollars",
    "HK$2 million": "two million Hong Kong dollars",
    "US$5": "five US dollars",
    "$5-$10": "five to ten dollars",
    "PM2.5": "PM two point five",
    "1.5M users": "one point five M users",
    "5'10\"": "five feet ten",
    "10am-5pm": "ten AM to five PM",
    "see no. 5 now": "see number five now",
    "**bold** 5": "**bold** five",
    "x > 3": "x is more than three",
    "a 3rd-party app": "a third party app",
    "open 24/7": "open twenty four seven",
    "50/50, 20/20 vision": "fifty fifty, twenty twenty vision",
    "100s of people": "hundreds of people",
    "£500m": "five hundred million pounds",
    "1h 30m or 1h30": "one hour thirty minutes or one hour thirty minutes",
    "a solid 9/10": "a solid nine out of ten",
    "5 sec": "five seconds",
    "15cm x 20cm": "fifteen centimeters by twenty centimeters",
    "Fig. 3, pp. 10-12": "figure three, pages ten to twelve",
    "since 9/11 you dialled 911": "since nine eleven you dialled nine one one",
    "#tag": "hash tag",
    "## Title of C# book": "Title of C hash book",
    "AT&T": "AT and T",
    "a@b.com": "a at b dot com",
    "Dr. Smith paid 5": "doctor Smith paid five",
    'he said "go 5"': 'he said "go five"',
    "a  5  b": "a five b",
}
PIECES = st.sampled_from(
    [
        *"0123456789.,:;/-+%$€£¥°~×²() \"'",
        "kg",
        "km",
        "pm",
        "No. ",
        "Dr. ",
        "GPT-4o",
        "v1.2",
        "1,234.56",
        "the ",
        "年",
        "月",
        "元",
        "第",
    ]
)


def spoken(text, language):
    return " ".join(spell_out(text, language).split())


@pytest.mark.parametrize(("text", "words"), CHINESE.items())
def test_chinese(text, words):
    assert spoken(text, "zh") == words


@pytest.mark.parametrize(("text", "words"), ENGLISH.items())
def test_english(text, words):
    assert spoken(text, "en") == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("我住了 3 years and 5 months，很好", "我住了 three years and five months，很好"),
        ("用 Windows Server 2019 系统", "用 Windows Server 两千零一十九 系统"),
        ("iPhone 15 Pro 的价格是¥8,999", "iPhone fifteen Pro 的价格是八千九百九十九元"),
        ("价格是$1.5 million呢", "价格是一点五美元 million呢"),
        ("5kg左右，AI Agent 和 AGI", "五千克左右，AI Agent 和 AGI"),
    ],
)
def test_a_number_is_read_in_the_language_around_it(text, words):
    assert spoken(text, "zh") == words


def test_the_language_can_be_given():
    assert spoken("3.5%", "en") == "three point five percent"
    assert spoken("3.5%", "zh") == "百分之三点五"
    assert spoken("今年4月", "en") == "今年 four 月"


@pytest.mark.parametrize(
    "text",
    [
        "the cat sat on the mat, and ran away. may I march on?",
        "I am in the US, e.g. at home; it's late... what's up?!",
        "今天天气很好，我们去公园玩吧。好吗？",
        "他说：“走。”然后离开了",
        "",
        "   ",
        " a ",
    ],
)
def test_a_text_without_numbers_and_symbols_is_unchanged(text):
    for language in ("en", "zh"):
        assert spell_out(text, language) == text


@given(st.lists(PIECES | st.text(max_size=4), max_size=30).map("".join))
def test_no_ascii_digit_is_left_of_any_text(text):
    for language in ("en", "zh"):
        assert not re.search("[0-9]", spell_out(text, language))


@given(
    st.lists(st.sampled_from(["the", "cat", "it's", "ran,", "世界", "你好，", "。"])).map(" ".join),
    st.integers(0, 10**12),
)
def test_the_words_around_a_number_survive(words, number):
    text = f"{words} {number} {words}"
    result, kept = ("".join(part.split()) for part in (spell_out(text, main_language(text)), words))
    assert result.startswith(kept) and result.endswith(kept) and len(result) > 2 * len(kept)


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("it's", "it is"),
        ("I don't know, what's that", "I do not know, what is that"),
        ("twelve o'clock", "twelve oclock"),
    ],
)
def test_contractions_are_written_out_for_a_voice_without_apostrophe(text, full):
    assert without_contractions(text) == full
