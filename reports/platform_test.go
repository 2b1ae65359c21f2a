package reports

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

// A reader of any form of the report sees the preset, and what the drills did not have of the platform.
func TestAReportNamesItsPlatform(t *testing.T) {
	r := sampleReport()
	r.Environment = map[string]string{"kube-proxy": "nftables", history.PlatformKey: "talos", history.PlatformLacksKey: "Its host's DNS cache."}
	var page, summary, console bytes.Buffer
	if err := r.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteMarkdown(&summary); err != nil {
		t.Fatal(err)
	}
	NewConsole(&console, 1).Summary(r)
	for name, text := range map[string]string{"page": page.String(), "summary": summary.String(), "console": console.String()} {
		for _, want := range []string{"talos", "DNS cache."} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s does not show %q", name, want)
			}
		}
	}
	if got := r.Reproduce(r.Results[0]); !strings.Contains(got, " --platform talos") || !strings.Contains(got, " --proxy-mode nftables") {
		t.Errorf("it is repeated by %s", got)
	}
	other := sampleReport()
	other.Environment = map[string]string{"kube-proxy": "nftables"}
	if differs := Compare([]*Report{r, other}).Reports[1].Differs; len(differs) != 2 || differs[0] != history.PlatformKey {
		t.Errorf("compared with a report of no platform, %v differs", differs)
	}
}
