package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/history"
)

// spotdrill runs the whole command line and returns what it reports.
func spotdrill(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := newRoot()
	var out, log bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&log)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	if err != nil {
		printf(&log, "%v", err) // as execute does
	}
	return out.String(), log.String(), exitCode(err)
}

func TestWrongUsageIs64AndPrintsNoData(t *testing.T) {
	for want, args := range map[string][]string{
		`unknown command "paly" for "spotdrill"`:                                    {"paly"},
		`did you mean "list"?`:                                                      {"lits"},
		`unknown command "chek" for "spotdrill report"`:                             {"report", "chek"},
		`--json requires --dry-run`:                                                 {"run", "--json"},
		`unknown flag: --sett`:                                                      {"run", "--sett", "fast"},
		`accepts 1 arg(s), received 0; it is used as: spotdrill judge DIR`:          {"judge"},
		`accepts 1 arg(s), received 2; it is used as: spotdrill explain`:            {"explain", "a", "b"},
		`unknown flag: --handlr; did you mean "--handler"?`:                         {"run", "--handlr", "nth"},
		`unknown flag: --instnace; did you mean "--instance"?`:                      {"send", "state-change", "--instnace", "i-1"},
		`--repeat is "five": want a whole number`:                                   {"run", "--repeat", "five"},
		`--for is "60": want a time with its unit`:                                  {"probe", "--for", "60"},
		`did you mean "spot-interruption"?`:                                         {"send", "spot-interuption"},
		`unknown command "nosuch" for "spotdrill"`:                                  {"help", "nosuch"},
		`unknown command "htm" for "spotdrill report"`:                              {"help", "report", "htm"},
		`--journal: stat /nope: no such file or directory`:                          {"restore", "--journal", "/nope"},
		`is a scenario, not a handler: spotdrill run`:                               {"run", "--handler", "../../scenarios/catalogue/spot/spot-notice-drains-node.yaml", "--dry-run"},
		`is a handler, not a scenario: spotdrill run --handler`:                     {"run", "../../framework/handler/descriptions/nth/handler.yaml", "--dry-run"},
		`unknown command "now" for "spotdrill up"`:                                  {"up", "now"},
		`requires at least 1 arg(s), only received 0`:                               {"compare"},
		`no handler is named "bultin"`:                                              {"run", "--handler", "bultin", "--dry-run"},
		`unknown scenario "spot-notice"`:                                            {"run", "spot-notice", "--dry-run"},
		`unknown set "slow"`:                                                        {"run", "--set", "slow", "--dry-run"},
		`"SPORT" is not known; did you mean "SPOT"? allowed: STATE-CHANGE`:          {"run", "--profile", "SPORT", "--dry-run"},
		`pattern "[": syntax error in pattern`:                                      {"run", "--only", "[", "--dry-run"},
		`"no-such-*" matches no scenario`:                                           {"run", "--only", "no-such-*", "--dry-run"},
		`--proxy-mode is "eBPF"; allowed: iptables`:                                 {"up", "--proxy-mode", "eBPF"},
		`--kubernetes is "v1.32"; can be had: v1.37.2 (built), v1.37.0 (pulled)`:    {"up", "--kubernetes", "v1.32"},
		`--kubernetes is "latest"; want a release or its minor; can be had: v1.37.`: {"doctor", "--kubernetes", "latest"},
		`--coredns is "1.99"; can be had: v1.15.0 (pulled or built)`:                {"sweep", "example", "--coredns", "1.99", "--dry-run"},
		`--karpenter is "v0.37.0"; can be had: v1.15.2 (pulled)`:                    {"run", "--handler", "karpenter", "--karpenter", "v0.37.0", "--dry-run"},
		`--karpenter v1.14.1 changes nothing: the handler is builtin; choose it`:    {"run", "--karpenter", "1.14", "--dry-run"},
		`--nth v1.25.6 changes nothing: the handler is karpenter`:                   {"run", "--nth", "v1.25", "--handler", "karpenter", "--dry-run"},
		`--repeat is 0: want at least 1`:                                            {"run", "--repeat", "0"},
		`there is no earlier run in none`:                                           {"run", "--rerun-failed", "--out", "none"},
		`"observation" is no drill of your own cluster`:                             {"explain", "observation"},
		`unknown scenario "none"`:                                                   {"explain", "none"},
		`"spot" is not known; did you mean "spot-interruption"?`:                    {"send", "spot"},
		`--instance is missing`:                                                     {"send", "state-change"},
		`no destination: give either --queue-url or --event-bus`:                    {"send", "state-change", "--instance", "i-0123456789abcdef0"},
		`--instance is "worker-1": want an instance id`:                             {"send", "state-change", "--instance", "worker-1", "--dry-run"},
		`--detail is "stopping": want field=value`:                                  {"send", "state-change", "--instance", "i-0123456789abcdef0", "--detail", "stopping", "--dry-run"},
	} {
		stdout, stderr, code := spotdrill(t, args...)
		if code != exitUsage || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%v: exit code %d, want %q; reported %q and printed %q", args, code, want, stderr, stdout)
		}
	}
}

func TestWhatIsNearTheUsualCommandLineIsUnderstood(t *testing.T) {
	for want, args := range map[string][]string{
		"spotdrill version":       {"--version"},
		"coredns-drained":         {"list", "--profile", "dns"},
		"spotdrill live":          {"explain", "coredns-evicted"},
		"spot-notice-drains-node": {"run", "--handler", "../../framework/handler/descriptions/nth", "--dry-run"},
		"spotdrill judge DIR":     {"help", "judge"},
	} {
		if stdout, stderr, code := spotdrill(t, args...); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%v: exit code %d, want %q; reported %q and printed %q", args, code, want, stderr, stdout)
		}
	}
}

// A help that is wider than a terminal cannot be read.
func TestHelpFitsOnATerminal(t *testing.T) {
	walk(newRoot(), func(cmd *cobra.Command) {
		stdout, _, _ := spotdrill(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		for line := range strings.Lines(stdout) {
			if strings.HasPrefix(line, "      ") && len([]rune(line)) > helpWidth+1 {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), len([]rune(line)), line)
			}
		}
	})
}

// The flags of run are under headings, each once.
func TestTheFlagsOfRunAreUnderHeadings(t *testing.T) {
	stdout, _, _ := spotdrill(t, "run", "--help")
	_, list, found := strings.Cut(stdout, "\nWhat is played:\n")
	if !found || strings.Contains(stdout, "\nFlags:\n") {
		t.Fatalf("no headings:\n%s", stdout)
	}
	newRunCommand().Flags().VisitAll(func(f *pflag.Flag) {
		if n := strings.Count(list, "   --"+f.Name+" ") + strings.Count(list, ", --"+f.Name+" "); n != 1 {
			t.Errorf("--%s stands there %d times", f.Name, n)
		}
	})
}

// A pattern that matches nothing is a mistake: with --skip, all would be played.
func TestPatternsThatMatchNothing(t *testing.T) {
	for _, flag := range []string{"--skip", "--only"} {
		if _, stderr, code := spotdrill(t, "run", "--dry-run", flag, "coredns*,foo"); code != exitUsage || !strings.Contains(stderr, `"foo" matches no scenario`) {
			t.Errorf("%s: exit code %d: %s", flag, code, stderr)
		}
		if _, stderr, code := spotdrill(t, "run", "--dry-run", flag, "coredns*"); code != 0 {
			t.Errorf("%s: exit code %d: %s", flag, code, stderr)
		}
	}
}

// What broke with no code of its own is the harness's.
func TestErrorsWithoutACodeAreTheHarnesss(t *testing.T) {
	if code := codeOf(json.Unmarshal([]byte("{"), new(int))); code != exitHarness {
		t.Errorf("exit code %d", code)
	}
}

func TestEveryCommandIsDocumented(t *testing.T) {
	walk(newRoot(), func(cmd *cobra.Command) {
		if cmd.Short == "" {
			t.Errorf("%s shows nothing about itself", cmd.CommandPath())
		}
		if cmd.Args == nil && cmd.Runnable() && cmd.Name() != "run" && !strings.HasPrefix(cmd.CommandPath(), "spotdrill completion") {
			t.Errorf("%s takes arguments that it does not look at", cmd.CommandPath())
		}
	})
}

// help.txt repeats these names: they are not put together in code.
func TestHelpHasTheNamesOfTheCode(t *testing.T) {
	for command, names := range map[string][]string{
		"send":        history.Words(history.NoticeTypes()),
		"probe serve": {guard.Header},
	} {
		cmd, _, err := newRoot().Find(strings.Fields(command))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.Contains(cmd.Long, name) {
				t.Errorf("the help of %s lacks %s", command, name)
			}
		}
	}
}

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, visit)
	}
}

func TestJSONIsOneDocument(t *testing.T) {
	for name, args := range map[string][]string{
		"list":    {"list", "--json", "--profile", "DNS"},
		"version": {"version", "--json"},
		"explain": {"explain", "spot-notice-drains-node", "--json"},
		"compare": {"compare", "--json", savedReport},
		"judge":   {"judge", "--json", savedRun},
	} {
		stdout, stderr, _ := spotdrill(t, args...)
		if !json.Valid([]byte(stdout)) || len(stdout) < 20 {
			t.Errorf("%s: %s\nprinted %s", name, stderr, stdout)
		}
	}
}

func TestCompletionKnowsScenarios(t *testing.T) {
	stdout, _, code := spotdrill(t, "__complete", "explain", "spot-notice")
	if code != 0 || !strings.Contains(stdout, "spot-notice-drains-node\tA spot notice drains its node") {
		t.Errorf("exit code %d, printed %s", code, stdout)
	}
	if stdout, _, code := spotdrill(t, "__complete", "run", "--profile", ""); code != 0 || !strings.Contains(stdout, "QUEUE-HYGIENE\n") {
		t.Errorf("exit code %d, printed %s", code, stdout)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if cmd, _, err := newRoot().Find([]string{"completion", shell}); err != nil || cmd.Name() != shell {
			t.Errorf("no completion for %s: %v", shell, err)
		}
	}
}
