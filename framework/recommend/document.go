package recommend

import (
	"bytes"

	yamlnodes "go.yaml.in/yaml/v4"
)

// document is one of the documents of a file, in YAML or JSON, or a text within one.
type document struct {
	file string
	line int // of the file at which it begins, from 1
	// flat is set for a text whose ends of lines are escaped: all of it is in one line of the file.
	flat bool
	text []byte
	root *yamlnodes.Node // read when a line is looked for first
}

// mostLines is how large a document may be for lines to be looked for in it, in bytes.
const mostLines = 8 << 20

// documents are those of a file. What helm install --dry-run and helm get all print around the manifests is left
// out: their header, and the notes.
func documents(file string, text []byte) (out []*document) {
	var now *document
	notes, n := false, 0
	end := func() {
		if now == nil {
			return
		}
		if now.text = withoutHelm(now.text); len(bytes.TrimSpace(now.text)) > 0 {
			out = append(out, now)
		}
	}
	for line := range bytes.Lines(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))) {
		n++
		rest, separator := bytes.CutPrefix(line, []byte("---"))
		if separator = separator && (len(bytes.TrimSpace(rest)) == 0 || rest[0] == ' ' || rest[0] == '\t'); separator {
			end()
			now, notes, line = nil, false, append([]byte("   "), rest...)
		}
		if now == nil {
			now = &document{file: file, line: n}
		}
		bare := bytes.TrimRight(line, " \t\r\n")
		notes = notes || string(bare) == "NOTES:" && bytes.Contains(now.text, []byte("kind:"))
		if !notes && string(bare) != "..." {
			now.text = append(now.text, line...)
		} else {
			now.text = append(now.text, '\n')
		}
	}
	end()
	return out
}

// withoutHelm is a text without what Helm prints before the manifests of a release, and behind its hooks.
func withoutHelm(text []byte) []byte {
	trimmed := bytes.TrimRight(text, " \t\r\n")
	end := bytes.LastIndexByte(trimmed, '\n') + 1
	switch last := string(trimmed[end:]); {
	case last != "MANIFEST:" && last != "HOOKS:":
		return text
	case bytes.HasPrefix(trimmed, []byte("NAME:")):
		return nil
	}
	return trimmed[:end]
}

// node is the deepest one that there is on a path of keys and indexes; a text as an index is the item of that name. Whole
// reports whether it is the end of the path; line is that of its key, or of itself in a list.
func (d *document) node(path []any) (at *yamlnodes.Node, line int, whole bool) {
	if d.root == nil {
		d.root = &yamlnodes.Node{}
		if len(d.text) <= mostLines {
			if err := yamlnodes.Unmarshal(d.text, d.root); err != nil {
				d.root = &yamlnodes.Node{} // it is read by another reader, which may permit more
			}
		}
	}
	at = d.root
	if len(at.Content) == 0 {
		return at, 1, len(path) == 0
	}
	at = at.Content[0]
	line = at.Line
	for _, step := range path {
		if at.Kind == yamlnodes.AliasNode {
			at = at.Alias
		}
		child, key := childOf(at, step)
		if child == nil {
			return at, line, false
		}
		at, line = child, key
	}
	return at, line, true
}

// childOf is the child of a node, and the line of its key.
func childOf(at *yamlnodes.Node, step any) (child *yamlnodes.Node, line int) {
	switch at.Kind {
	case yamlnodes.SequenceNode:
		i, ok := step.(int)
		for n, item := range at.Content {
			if of, _ := childOf(item, "name"); !ok && of != nil && of.Value == step {
				i, ok = n, true
			}
		}
		if ok && i < len(at.Content) {
			return at.Content[i], at.Content[i].Line
		}
	case yamlnodes.MappingNode:
		for i := 0; i+1 < len(at.Content); i += 2 {
			if at.Content[i].Value == step {
				return at.Content[i+1], at.Content[i].Line
			}
		}
	}
	return nil, 0
}

// lineOf is the line of the file with the deepest part of a path that there is.
func (d *document) lineOf(path ...any) int {
	_, line, _ := d.node(path)
	return d.fileLine(line)
}

func (d *document) fileLine(line int) int {
	if d.flat {
		return d.line
	}
	return d.line + max(line, 1) - 1
}

// within is the text at a path as a document of its own.
func (d *document) within(text string, path ...any) *document {
	at, _, whole := d.node(path)
	out := &document{file: d.file, line: d.lineOf(path...), flat: true, text: []byte(text)}
	if whole && at.Style&yamlnodes.LiteralStyle != 0 {
		out.line, out.flat = d.fileLine(at.Line)+1, d.flat
	}
	return out
}
