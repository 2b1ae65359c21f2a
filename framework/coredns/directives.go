package coredns

import (
	_ "embed"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The directives of CoreDNS, in its order: core/dnsserver/zdirectives.go of the version in the first
// line. Update them with go test ./framework/coredns -run TestDirectives -update.
//
//go:embed directives.txt
var directivesFile string

//go:embed directives-since.txt
var sinceFile string

// Directives are the plugins of a released CoreDNS, by the tag of its image, such as v1.12.1-eksbuild.2.
// Known is false if they are those of another version, the latest that is known here. The version "" is
// that one itself.
func Directives(tag string) (names []string, known bool) {
	head, list, _ := strings.Cut(directivesFile, "\n")
	names = strings.Fields(list)
	if tag == "" {
		return names, true
	}
	version, known := versionOf(tag)
	if latest, _ := versionOf(head); !known || slices.Compare(version, latest) > 0 {
		return names, false
	}
	for line := range strings.Lines(sinceFile) {
		field := strings.Fields(line)
		since, ok := versionOf(field[1])
		if field[0] == "#" || !ok {
			continue
		}
		has := slices.Compare(version, since) >= 0
		if len(field) > 2 {
			until, _ := versionOf(field[2])
			has = has && slices.Compare(version, until) < 0
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == field[0] })
		if has {
			names = append(names, field[0])
		}
	}
	return names, true
}

var versionNumbers = regexp.MustCompile(`(?:^|[^\d.])v?(\d+)\.(\d+)\.(\d+)`)

// versionOf are the three numbers of a version in a tag.
func versionOf(tag string) (numbers []int, ok bool) {
	m := versionNumbers.FindStringSubmatch(tag)
	if m == nil {
		return nil, false
	}
	for _, digits := range m[1:] {
		n, err := strconv.Atoi(digits)
		if err != nil {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, true
}
