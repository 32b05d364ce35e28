import pytest

from paimon_assets.engine.errors import InvalidInputError
from paimon_assets.engine.spec.segments.text_options import TextOptions, TimePattern
from tests.testkit.errors import refused


def test_option_names_are_those_of_spark_in_any_case():
    found = TextOptions.of(
        "csv", {"Delimiter": "\\t", "HEADER": "False", "charset": "Latin1"}, "ab"
    )
    assert (found.delimiter, found.names, found.encoding) == ("\t", ("a", "b"), "iso8859-1")
    assert TextOptions.of("csv", {"locale": "de-DE"}, ()).decimal_point == ","
    assert TextOptions.of("csv", {"fileheader": "x, y"}, "ab").names == ("x", "y")
    assert TextOptions.of("csv", {"quote": ""}, ()).quote == ""
    assert TextOptions.of("json", {}, ()) == TextOptions()


@pytest.mark.parametrize(
    ("file_format", "options", "message"),
    [
        ("csv", {"inferSchema": "true"}, "has no option 'inferSchema'; it has sep, header"),
        ("json", {"sep": ";"}, "has no option 'sep'"),
        ("csv", {"sep": "||"}, "one ASCII character"),
        ("csv", {"header": "yes"}, "true or false"),
        ("text", {"encoding": "klingon"}, "no such encoding"),
        ("csv", {"encoding": "utf\0"}, "no such encoding"),
        *(
            ("csv", {"encoding": name}, "no such encoding")
            for name in ("idna", "punycode", "unicode_escape", "raw_unicode_escape", "rot13", "hex")
        ),
        ("csv", {"locale": "tlh"}, "known languages"),
        ("csv", {"timestampFormat": "yyyy-MM-dd HH:mm:ss XXX"}, "'XXX'"),
        ("csv", {"dateFormat": "yyyy 'year"}, "quote that does not end"),
    ],
)
def test_unknown_option_is_refused_by_name(file_format, options, message):
    with refused(InvalidInputError, message, kind="segment-option"):
        TextOptions.of(file_format, options, ())


def test_java_patterns_become_strptime_patterns():
    assert TimePattern.of("d.M.yyyy 'o''clock' HH:mm").format == "%d.%m.%Y o'clock %H:%M"
    found = TimePattern.of("HH:mm:ss,SSS")
    assert (found.format, found.fraction_mark, found.fraction_digits) == ("%H:%M:%S", ",", 3)
