package coredns

import (
	_ "embed"
	"slices"
	"strings"
)

// The directives of CoreDNS, in its order: core/dnsserver/zdirectives.go of the version in the first
// line. Update them with go test ./framework/coredns -run TestDirectives -update.
//
//go:embed directives.txt
var directivesFile string

// Directives are the plugins that CoreDNS knows, as it is released.
func Directives() []string {
	return slices.DeleteFunc(strings.Split(directivesFile, "\n"), func(line string) bool { return line == "" || strings.HasPrefix(line, "#") })
}
