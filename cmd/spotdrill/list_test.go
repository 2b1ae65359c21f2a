package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/scenarios"
)

func list(t *testing.T, args ...string) string {
	t.Helper()
	cmd := newListCommand()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestListCommand(t *testing.T) {
	all := catalogue(t)
	full, spot := list(t, "--set", "full"), list(t, "--profile", "SPOT")
	for _, s := range all {
		if got, want := strings.Contains(full, " "+s.Name+" "), slices.Contains(s.Sets, scenarios.Full); got != want {
			t.Errorf("the full set lists %s: %t", s.Name, got)
		}
		if got, want := strings.Contains(spot, " "+s.Name+" "), s.Profile == "SPOT" && slices.Contains(s.Sets, scenarios.Fast); got != want {
			t.Errorf("profile SPOT lists %s: %t", s.Name, got)
		}
	}
}

func TestListCommandErrors(t *testing.T) {
	for want, args := range map[string][]string{
		`unknown set "slow"; allowed: fast, full`:              {"--set", "slow"},
		`"sport" is not known; did you mean "SPOT"? allowed: `: {"--profile", "sport"},
		`unknown command "more" for "list"`:                    {"more"},
	} {
		cmd := newListCommand()
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		cmd.SetArgs(args)
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", args, err, want)
		}
	}
}
