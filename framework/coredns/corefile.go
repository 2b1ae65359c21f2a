// Package coredns has the settings of CoreDNS that matter when its pods terminate, and reads
// and changes them in a Corefile. The lexer is CoreDNS's own. What only the pods have, imported files
// and environment variables, must be given to it.
package coredns

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coredns/caddy/caddyfile"
)

// Corefile is what a Corefile sets for the termination of CoreDNS.
type Corefile struct {
	// Health are the addresses at which plugins health serve /health, one for each server block
	// that has the plugin.
	Health []Address
	// Ready are those at which plugins ready serve /ready.
	Ready []Address
	// Lameduck is how long a terminating CoreDNS continues to answer: the sum over the server
	// blocks with a health plugin, which wait one after the other, or 0 if none has a lameduck.
	Lameduck time.Duration
	// LameduckUnknown is why Lameduck is not known; empty if it is.
	LameduckUnknown string
	// Refused is why CoreDNS does not start with this Corefile, the first reason with its line;
	// empty if none is known. What could still be read is in the other fields.
	Refused string
	// Doubt is why CoreDNS may not start with it; empty if nothing is known.
	Doubt string
	// Unread are what could not be read, and may contain what seems to be missing: imported files,
	// each with the reason, and what follows a syntax error.
	Unread []string
	// Nothing are the patterns of imports that match no file.
	Nothing []string
	// Default is set if there is no server block: CoreDNS then only has the plugins whoami and log.
	Default bool

	parser *parser
}

// Address is where a plugin listens.
type Address struct {
	// Host is empty if it listens on every address of the pod. It may have variables that are unknown, such as
	// {$POD_IP}.
	Host string
	// Port is empty if it is unknown.
	Port string
}

// String is the address as in a Corefile.
func (a Address) String() string {
	if a.Port == "" {
		return "an unknown port"
	}
	return net.JoinHostPort(a.Host, a.Port)
}

// The addresses of plugins without one of their own.
const (
	healthAddress = ":8080"
	readyAddress  = ":8181"
)

// Parse reads a Corefile whose imported files and environment are unknown. The error is why CoreDNS
// does not start with it.
func Parse(text string) (Corefile, error) {
	c := Read(Source{Text: text})
	if c.Refused != "" {
		return Corefile{}, errors.New(c.Refused)
	}
	return c, nil
}

// Read reads a Corefile. There is no error: what cannot be known is unknown in that field alone.
func Read(s Source) Corefile {
	p, err := parse(s)
	c := Corefile{Unread: p.unread, Nothing: p.nothing, Default: len(p.blocks) == 0 && err == nil, parser: p}
	if err != nil {
		c.Unread = append(slices.Clone(c.Unread), "what follows the error in "+err.Error())
	}
	keys := map[string]string{}
	for _, b := range p.blocks {
		c.add(b)
		p.twice(again(b, keys))
	}
	c.Refused, c.Doubt = p.refused, p.doubt
	if len(c.Unread) > 0 {
		c.LameduckUnknown = "it may be set in " + strings.Join(c.Unread, ", ")
	}
	return c
}

// add adds what a server block sets, as the set-up of each plugin reads it. A plugin that is repeated
// within a block is set up once.
func (c *Corefile) add(b block) {
	if b.has("health") {
		lameduck := time.Duration(0)
		at, err := listens(b.plugins["health"], healthAddress, func(line caddyfile.Token, name string, args []string) error {
			if name != "lameduck" {
				return fmt.Errorf("health has no property %q", name)
			}
			d, err := lameduckOf(args)
			if lameduck = max(0, d); err != nil { // the last one counts
				c.LameduckUnknown = lineError(line, err).Error()
			}
			if len(args) == 1 && isUnknown(args[0]) {
				return nil
			}
			return err
		})
		c.parser.refuse(err)
		if err != nil && c.LameduckUnknown == "" {
			c.LameduckUnknown = err.Error()
		}
		c.Health, c.Lameduck = append(c.Health, at), c.Lameduck+lameduck
	}
	if b.has("ready") {
		at, err := listens(b.plugins["ready"], readyAddress, func(_ caddyfile.Token, name string, args []string) error {
			text := strings.Join(append([]string{name}, args...), " ")
			if !slices.Contains([]string{"monitor until-ready", "monitor continuously"}, text) && !isUnknown(text) {
				return fmt.Errorf("ready has no property %q", text)
			}
			return nil
		})
		if n := times(b.plugins["ready"]); err == nil && n > 1 {
			err = fmt.Errorf("ready is there %d times in one server block", n)
		}
		c.parser.refuse(err)
		c.Ready = append(c.Ready, at)
	}
}

func lameduckOf(args []string) (time.Duration, error) {
	switch text := strings.Join(args, " "); {
	case isUnknown(text):
		return 0, fmt.Errorf("lameduck %s: the value of this environment variable is unknown", text)
	case len(args) == 1:
		if d, err := time.ParseDuration(text); err == nil {
			return d, nil
		}
		if text == "" {
			return 0, errors.New("lameduck is empty: CoreDNS has no default values of environment variables, such as {$NAME:5s}")
		}
		return 0, fmt.Errorf("lameduck %q is not a duration; write a number with its unit, such as 5s", text)
	case strings.HasSuffix(text, "}"):
		return 0, fmt.Errorf("lameduck %s: write the property and the closing brace on a line each", text)
	default:
		return 0, fmt.Errorf("lameduck has %d values instead of one", len(args))
	}
}

// listens reads the tokens of a plugin that listens: its address, the last of them if it is repeated,
// and the properties. Errors have the line.
func listens(tokens []caddyfile.Token, usual string, property func(line caddyfile.Token, name string, args []string) error) (Address, error) {
	text := usual
	d := caddyfile.NewDispenserTokens("", tokens)
	for d.Next() {
		at, plugin, args := tokenAt(d), d.Val(), d.RemainingArgs()
		if len(args) > 1 {
			return Address{}, lineError(at, fmt.Errorf("%s has more than one address: %s", plugin, strings.Join(args, " ")))
		}
		if len(args) == 1 {
			text = args[0]
			_, port, err := net.SplitHostPort(text)
			if err != nil && !isUnknown(text) {
				return Address{}, lineError(at, fmt.Errorf("%s %s is no address with a port, such as %s", plugin, text, usual))
			}
			if n, err := strconv.Atoi(port); err == nil && (n < 0 || n > mostPort) {
				return Address{}, lineError(at, fmt.Errorf("%s %s: there is no such port", plugin, text))
			}
		}
		for d.NextBlock() {
			at := tokenAt(d)
			if err := property(at, d.Val(), d.RemainingArgs()); err != nil {
				return addressOf(text), lineError(at, err)
			}
		}
	}
	return addressOf(text), nil
}

// mostPort is the last port.
const mostPort = 1<<16 - 1

// addressOf reads an address. A port that depends on an unknown variable is unknown, and so is the one that
// the system chooses for 0.
func addressOf(text string) Address {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return Address{}
	}
	if net.ParseIP(host).IsUnspecified() {
		host = ""
	}
	if n, err := strconv.Atoi(port); err != nil || n == 0 {
		port = ""
	}
	return Address{Host: host, Port: port}
}

func tokenAt(d caddyfile.Dispenser) caddyfile.Token {
	return caddyfile.Token{File: d.File(), Line: d.Line()}
}

// times counts how often a plugin is in the tokens of a server block.
func times(tokens []caddyfile.Token) (n int) {
	d := caddyfile.NewDispenserTokens("", tokens)
	for d.Next() {
		n++
		d.RemainingArgs()
		for d.NextBlock() {
			d.RemainingArgs()
		}
	}
	return n
}

// transports are the ports of an address without one, by what it begins with.
var transports = map[string]string{"dns": "53", "tls": "853", "quic": "853", "grpc": "443", "https": "443", "https3": "443"}

// again is an error if an address of a server block is none, or one that another block has, if only in another case.
// Blocks with bind or view may share one.
func again(b block, seen map[string]string) (err error, otherCase bool) {
	for _, key := range b.keys {
		at := serverAddressOf(key)
		zone := at.zone
		if n, _ := strconv.Atoi(at.port); n > mostPort {
			return fmt.Errorf("the address %s: there is no such port", key), false
		}
		if isUnknown(key) || strings.Contains(zone, "/") { // a network may be several zones
			continue
		}
		if zone = strings.TrimSuffix(zone, "."); zone == "" && !strings.Contains(key, ".") || strings.HasPrefix(zone, ".") || strings.Contains(zone, "..") {
			return fmt.Errorf("the address %q has no zone; before a comma is no blank", key), false
		}
		address := at.transport + "://" + zone + ".:" + at.port
		if b.has("bind") || b.has("view") {
			continue
		}
		folded := strings.ToLower(address)
		if was, found := seen[folded]; found {
			return fmt.Errorf("the address %s is defined twice", key), was != address
		}
		seen[folded] = address
	}
	return nil, false
}

// ignoresCase is the first CoreDNS to which A.test and a.test are the same zone.
const ignoresCase = "v1.14.7"

// twice refuses the Corefile for an address that it has again; for one in another case by the version, if that is known.
func (p *parser) twice(err error, otherCase bool) {
	version, known := versionOf(cmp.Or(p.source.Tag, ignoresCase)) // without a tag, it is the latest
	since, _ := versionOf(ignoresCase)
	switch {
	case err == nil || !otherCase || known && slices.Compare(version, since) >= 0:
		p.refuse(err)
	case !known:
		p.doubt = cmp.Or(p.doubt, fmt.Sprintf("%v, in another case, which CoreDNS refuses since %s", err, ignoresCase))
	}
}

var delayBlock = regexp.MustCompile(`(?s)\ndelayed\.spotdrill\.test:\d+ \{.*?\n\}\n`)

// WithDelay returns the Corefile with a server block that answers for DelayedName after d, in
// place of a former one; 0 for none.
func WithDelay(text string, d time.Duration) string {
	text = delayBlock.ReplaceAllString(text, "")
	if d == 0 {
		return text
	}
	return text + fmt.Sprintf(`
%s:%d {
    erratic {
        delay 1 %s
    }
}
`, strings.TrimSuffix(DelayedName, "."), Read(Source{Text: text}).Port(), d)
}
