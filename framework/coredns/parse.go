package coredns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coredns/caddy/caddyfile"
)

// Source is a Corefile with what its pods read next to it. Nothing is read from this machine.
type Source struct {
	Text string
	// Import returns the files that a pattern of `import` matches in the pods. An error is why
	// that is unknown. nil: it is unknown of every pattern.
	Import func(pattern string) ([]File, error)
	// Env returns an environment variable of the pods, and whether it is known. nil: none is.
	Env func(name string) (value string, known bool)
	// Tag is that of CoreDNS's image, by which its plugins are known; empty for the latest version.
	Tag string
}

// File is an imported file.
type File struct{ Path, Text string }

// block is a server block: its addresses, and its plugins with all their tokens, as CoreDNS hands
// them to each plugin at once.
type block struct {
	keys    []string
	plugins map[string][]caddyfile.Token
	start   caddyfile.Token // its opening brace, or the last address of a block without braces
}

// has reports whether the block has a plugin.
func (b block) has(plugin string) bool { return len(b.plugins[plugin]) > 0 }

// parser groups the tokens of CoreDNS's own lexer as its parser does
// (github.com/coredns/caddy/caddyfile), of which it is a copy; a fuzz test compares them. But it
// takes imported files and the environment from the pods, and after what CoreDNS refuses, it goes on
// as far as the grammar permits.
type parser struct {
	source   Source
	known    []string // the plugins of CoreDNS
	surely   bool     // those of this version
	tokens   []caddyfile.Token
	at       int // the current token
	eof      bool
	snippets map[string][]caddyfile.Token
	imports  int // that were expanded
	copied   int // tokens, by imports

	block   block
	blocks  []block
	refused string   // why CoreDNS does not start; the first reason
	doubt   string   // why it may not start; the first reason
	unread  []string // the imported files that are unknown, each with the reason
	nothing []string // the patterns of imports that match no file
}

// The limits of what is expanded. CoreDNS itself has the first one.
const (
	importsMost   = 10_000
	tokensMost    = 1 << 27 // that all imports together copy
	variablesMost = 1_000   // in one token: a variable may contain itself
)

func tokensOf(file, text string) []caddyfile.Token {
	var out []caddyfile.Token
	for d := caddyfile.NewDispenser(file, strings.NewReader(text)); d.Next(); {
		out = append(out, caddyfile.Token{File: file, Line: d.Line(), Text: d.Val()})
	}
	return out
}

// parse reads as much as can be read. The error is what ended it early.
func parse(s Source) (*parser, error) {
	p := &parser{source: s, at: -1, tokens: tokensOf("", s.Text), snippets: map[string][]caddyfile.Token{}}
	p.known, p.surely = Directives(s.Tag)
	for p.next() {
		p.block = block{plugins: map[string][]caddyfile.Token{}}
		err := p.serverBlock()
		if len(p.block.keys) > 0 {
			p.blocks = append(p.blocks, p.block)
		}
		if err != nil {
			p.refuse(err)
			return p, err
		}
	}
	return p, nil
}

// refuse keeps the first reason; nil is none.
func (p *parser) refuse(why error) {
	if why != nil && p.refused == "" {
		p.refused = why.Error()
	}
}

func (p *parser) next() bool {
	if p.at < len(p.tokens)-1 {
		p.at++
		return true
	}
	return false
}

func (p *parser) val() string {
	if p.at < 0 || p.at >= len(p.tokens) {
		return ""
	}
	return p.tokens[p.at].Text
}

// newLine reports whether the current token begins a line.
func (p *parser) newLine() bool {
	return p.at < 1 || !sameLine(p.tokens[p.at-1], p.tokens[p.at], false)
}

// sameLine reports whether a token is on the line on which the one before it ends. CoreDNS counts
// lines of imported snippets, which may be earlier ones: exactly is for arguments.
func sameLine(before, t caddyfile.Token, exactly bool) bool {
	end := before.Line + strings.Count(before.Text, "\n")
	return before.File == t.File && (end == t.Line || !exactly && end > t.Line)
}

func (p *parser) nextArg() bool {
	if p.at < len(p.tokens)-1 && sameLine(p.tokens[p.at], p.tokens[p.at+1], true) {
		p.at++
		return true
	}
	return false
}

func (p *parser) errorf(format string, args ...any) error {
	if p.at < 0 || p.at >= len(p.tokens) {
		return fmt.Errorf(format, args...)
	}
	return lineError(p.tokens[p.at], fmt.Errorf(format, args...))
}

func lineError(at caddyfile.Token, err error) error {
	if at.File != "" {
		return fmt.Errorf("%s, line %d: %w", at.File, at.Line, err)
	}
	return fmt.Errorf("line %d: %w", at.Line, err)
}

func (p *parser) serverBlock() error {
	err := p.addresses()
	if n := len(p.tokens); n > 0 { // an import may have taken the last one
		p.block.start = p.tokens[min(p.at, n-1)]
	}
	if err != nil || p.eof {
		return err
	}
	if keys := p.block.keys; len(keys) == 1 && strings.HasPrefix(keys[0], "(") && strings.HasSuffix(keys[0], ")") {
		p.block.keys = nil
		return p.snippet(strings.TrimSuffix(keys[0][1:], ")"))
	}
	braces := p.val() == "{"
	if !braces {
		p.at-- // a single server block needs no braces
	}
	p.block.start = p.tokens[max(0, p.at)]
	if err = p.directives(); err != nil {
		return err
	}
	if braces && p.val() != "}" {
		return p.errorf("an opening brace has no closing one")
	}
	return nil
}

func (p *parser) addresses() error {
	another := false
	for {
		t := p.env(p.val())
		if t == "import" && p.newLine() {
			if err := p.importTokens(); err != nil {
				return err
			}
			p.at++
			continue
		}
		if t == "{" {
			if another {
				return p.errorf("a comma is followed by no address, but by %q", t)
			}
			return nil
		}
		if t != "" {
			t, another = strings.CutSuffix(t, ",")
			p.block.keys = append(p.block.keys, t)
		}
		switch more := p.next(); {
		case !more && another:
			return p.errorf("a comma is followed by no address")
		case !more:
			p.eof = true
			return nil
		case !another && p.newLine():
			return nil
		}
	}
}

func (p *parser) snippet(name string) error {
	if p.snippets[name] != nil {
		return p.errorf("the snippet (%s) is defined twice", name)
	}
	if p.val() != "{" {
		return p.errorf("the snippet (%s) has no opening brace on its line", name)
	}
	tokens := []caddyfile.Token{}
	for depth := 1; p.next(); tokens = append(tokens, p.tokens[p.at]) {
		switch p.val() {
		case "{":
			depth++
		case "}":
			depth--
		}
		if depth > 0 {
			continue
		}
		for i, t := range tokens[:max(0, len(tokens)-1)] {
			if first := i == 0 || tokens[i-1].File != t.File || tokens[i-1].Line != t.Line; first && t.Text == "import" && p.env(tokens[i+1].Text) == name {
				return lineError(t, fmt.Errorf("the snippet (%s) imports itself", name))
			}
		}
		p.snippets[name] = tokens
		return nil
	}
	return p.errorf("the snippet (%s) has no closing brace", name)
}

func (p *parser) directives() error {
	for p.next() {
		switch p.val() {
		case "}":
			return nil
		case "import":
			if err := p.importTokens(); err != nil {
				return err
			}
			continue
		}
		if err := p.directive(); err != nil {
			return err
		}
	}
	return nil
}

// directive collects the tokens of a plugin: the rest of its line, or up to its closing brace.
func (p *parser) directive() error {
	name, depth := p.env(p.val()), 0
	switch {
	case slices.Contains(p.known, name) || isUnknown(name):
	case p.surely:
		p.refuse(p.errorf("%q is no plugin of CoreDNS %s", name, p.source.Tag))
	case p.doubt == "":
		p.doubt = p.errorf("%q is no plugin of the CoreDNS versions that are known here, and this one is not known by its tag %s", name, p.source.Tag).Error()
	}
	add := func(t caddyfile.Token) { p.block.plugins[name] = append(p.block.plugins[name], t) }
	add(p.tokens[p.at])
	for p.next() {
		switch t := p.val(); {
		case t == "{":
			depth++
		case p.newLine() && depth == 0:
			p.at--
			return nil
		case t == "}" && depth > 0:
			depth--
		case t == "}":
			return p.errorf("a closing brace without an opening one: a block needs a line of its own for each plugin, and for its closing brace")
		case t == "import" && p.newLine():
			if err := p.importTokens(); err != nil {
				return err
			}
			continue
		}
		t := p.tokens[p.at]
		t.Text = p.env(t.Text)
		add(t)
	}
	if depth > 0 {
		return p.errorf("%s has an opening brace, and no closing one follows", name)
	}
	return nil
}

// importTokens puts the tokens of a snippet or of files in the place of the import. The next token
// is then the first of them.
func (p *parser) importTokens() error {
	start := p.at
	if !p.nextArg() {
		return p.errorf("import names no file and no snippet")
	}
	pattern := p.env(p.val())
	if pattern == "" {
		return p.errorf("import names no file and no snippet")
	}
	if p.nextArg() {
		return p.errorf("import has more than one argument: %s %s", pattern, p.val())
	}
	if p.imports, p.copied = p.imports+1, p.copied+len(p.tokens); p.imports > importsMost || p.copied > tokensMost {
		return p.errorf("import %s: snippets or files import each other endlessly", pattern)
	}
	imported, isSnippet := p.snippets[pattern]
	if !isSnippet {
		var err error
		if imported, err = p.files(pattern); err != nil {
			return err
		}
	}
	// A new list: the tokens of a snippet are used again.
	rest := p.tokens[p.at+1:]
	p.tokens = append(append(p.tokens[:start:start], imported...), rest...)
	p.at = start - 1
	return nil
}

// files are the tokens of the files that a pattern matches; none if they are unknown.
func (p *parser) files(pattern string) ([]caddyfile.Token, error) {
	if strings.Count(pattern, "*") > 1 || strings.Count(pattern, "?") > 1 || strings.Contains(pattern, "[") && strings.Contains(pattern, "]") {
		return nil, p.errorf("import %s: a pattern may have only one wildcard", pattern)
	}
	if isUnknown(pattern) || p.source.Import == nil {
		p.unread = append(p.unread, pattern)
		return nil, nil
	}
	files, err := p.source.Import(pattern)
	switch {
	case err != nil:
		p.unread = append(p.unread, fmt.Sprintf("%s (%v)", pattern, err))
	case len(files) == 0 && !strings.ContainsAny(pattern, "*?[]"):
		return nil, p.errorf("import %s: there is no such file in the pods", pattern)
	case len(files) == 0:
		p.nothing = append(p.nothing, pattern)
	}
	var out []caddyfile.Token
	for _, f := range files {
		out = append(out, tokensOf(f.Path, f.Text)...)
	}
	return out, nil
}

// env replaces the environment variables of a token, {$NAME} or {%NAME%}. Those that are unknown
// stay.
func (p *parser) env(text string) string {
	if !isUnknown(text) || p.source.Env == nil {
		return text
	}
	for _, ref := range []struct{ start, end string }{{"{%", "%}"}, {"{$", "}"}} {
		from := 0 // what stands before it stays
		for range variablesMost {
			name, _, closed := cutBetween(text[from:], ref.start, ref.end)
			if !closed || name == "" {
				break
			}
			at := from + strings.Index(text[from:], ref.start)
			whole := ref.start + name + ref.end
			value, ok := p.source.Env(name)
			if ok || strings.Contains(name, ":") { // there are no default values: {$NAME:5s} is empty
				text, from = strings.ReplaceAll(text, whole, value), 0
			} else {
				from = at + len(whole)
			}
		}
	}
	return text
}

// cutBetween returns what stands between two texts, and behind them.
func cutBetween(text, start, end string) (between, after string, found bool) {
	if _, text, found = strings.Cut(text, start); !found {
		return "", "", false
	}
	return strings.Cut(text, end)
}

// isUnknown reports whether a text contains an environment variable that is unknown.
func isUnknown(text string) bool { return strings.Contains(text, "{$") || strings.Contains(text, "{%") }
