package main

import (
	"regexp"
	"slices"
	"strings"
)

// plainWord is an argument that a report shows, such as drain, deployment/coredns or an option: nothing that
// is written like a token. A report is published, and the command line that was observed may have secrets.
var (
	plainWord  = regexp.MustCompile(`^[a-z0-9._:/,-]{1,80}$`)
	likeAToken = regexp.MustCompile(`[a-z0-9]{20}|:[^/]*@`)
	// secretOption is the name of an option, or of a variable, whose value is not shown.
	secretOption = regexp.MustCompile(`(?i)pass|secret|token|key|cred|auth|cookie|bearer|pin\b|^-+p$|^-+u(ser)?$|^-+h(eader)?$`)
)

// hidden stands for what is not shown of a command line.
const hidden = "…"

// shownCommand is a command line in one line for reports, without what may be secret.
func shownCommand(command []string) string {
	words := slices.Clone(command)
	secret := false
	for i, word := range words {
		name, value, hasValue := strings.Cut(word, "=")
		option := strings.HasPrefix(word, "-")
		switch {
		case i == 0:
		case hasValue && (secretOption.MatchString(name) || !isPlain(value)):
			if !isPlain(strings.ToLower(name)) {
				name = hidden
			}
			words[i] = name + "=" + hidden
		case hasValue && isPlain(strings.ToLower(name)):
		case secret && !option, !option && !isPlain(word), option && !isPlain(strings.ToLower(word)):
			words[i] = hidden
		}
		secret = option && !hasValue && secretOption.MatchString(word)
	}
	return strings.Join(words, " ")
}

func isPlain(word string) bool { return plainWord.MatchString(word) && !likeAToken.MatchString(word) }
