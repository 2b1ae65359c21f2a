package conntrack

import (
	"strings"
	"testing"
)

func TestTheKernelsCountsAreHexadecimalAndPerProcessor(t *testing.T) {
	const head = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop\n"
	for name, c := range map[string]struct {
		text string
		want int
		err  string
	}{
		"two processors": {text: head +
			"00000127  00000000 00046040 00000000 00000000 00000000 00000000 00000000 00000000 00000002 00000002 00000000\n" +
			"00000127  00000000 00047092 00000000 00000001 00000000 00000000 00000000 00000000 0000001f 00000002 00000000\n", want: 0x21},
		"none":        {text: head},
		"no column":   {text: "entries found\n1 2\n", err: "no column insert_failed"},
		"a short one": {text: head + "00000127\n", err: "line 2 has 1 columns"},
		"no number":   {text: strings.ReplaceAll(head, "\n", "") + "\n1 2 3 4 5 6 7 8 9 x 11 12\n", err: "line 2: "},
		"nothing":     {err: "no column insert_failed"},
	} {
		got, err := sumColumn(c.text, "insert_failed")
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %d, %v; want %d, %q", name, got, err, c.want, c.err)
		}
	}
}
