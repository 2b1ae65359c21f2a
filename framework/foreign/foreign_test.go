package foreign

import (
	"strings"
	"testing"
	"unicode"
)

func TestWhatWouldBeObeyedIsShown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"drained in 5 s":                "drained in 5 s",
		"é 世界 ✓":                        "é 世界 ✓",
		"\x1b[2J\x1b]0;owned\x07":       "�[2J�]0;owned�",
		"\u009b31m":                     "�31m",
		"a\rb\nc\td":                    "a�b�c�d",
		"user\u202eexe.txt\u200b\ufeff": "user�exe.txt��",
		"\xff\xfe":                      "��",
		"::error file=a::owned":         ": :error file=a::owned",
		"   ::set-output name=a::b":     "   : :set-output name=a::b",
		"\t::add-mask::x":               "�::add-mask::x",
		"a ::error::":                   "a ::error::",
		"##[error]owned ##vso[task.x]":  "# #[error]owned # #vso[task.x]",
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got, want := Lines("a\n::error::\n\t::x\r\n"), "a\n: :error::\n\t: :x�\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for text, want := range map[string]string{
		"12": "12", "a=b": "a=b", "=cmd|' /C calc'!A0": "'=cmd|' /C calc'!A0", "+1": "'+1", "-1": "'-1", "@x": "'@x", " =1": "' =1", "\t=1": "�=1", "": "",
	} {
		if got := Cell(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if Named("a\x1b") || Named(strings.Repeat("a", 1000)) || !Named("karpenter v1.14.1") {
		t.Error("a name")
	}
}

func FuzzLines(f *testing.F) {
	for _, text := range []string{"", "::error::a", "\x1b[31m", "a\n ::b\n##[c]", "\r::x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for line := range strings.SplitSeq(Lines(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") || strings.ContainsFunc(line, func(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }) {
				t.Fatalf("%q has %q", text, line)
			}
		}
	})
}
