package scenarios

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Message sends a message directly to the SQS queue, bypassing EventBridge's rules.
// In the body, ${INSTANCE:name} stands for the instance id of a node, and
// ${REPEAT:n:text} for n repetitions of a text.
type Message struct {
	// Name identifies the message in later steps and in checks.
	Name string `yaml:"name"`
	// Body is the text of the message, at most 256 KiB.
	Body string `yaml:"body"`
	// Times is how many of these messages are sent; left out, it is one.
	Times int `yaml:"times,omitempty"`
}

// maxBody is how large a message SQS takes by default, in bytes.
const maxBody = 256 << 10

var (
	// instancePlaceholder stands in a body for the instance id of a node.
	instancePlaceholder = regexp.MustCompile(`\$\{INSTANCE:([^}]*)\}`)
	// repeatPlaceholder stands in a body for a repeated text.
	repeatPlaceholder = regexp.MustCompile(`\$\{REPEAT:(\d+):([^}]+)\}`)
)

// Text is the message's body with its placeholders replaced. Instances maps the
// names of nodes in the scenario to instance ids.
func (m Message) Text(instances map[string]string) (string, error) {
	if err := m.fits(); err != nil {
		return "", err
	}
	unknown := ""
	body := instancePlaceholder.ReplaceAllStringFunc(m.Body, func(ref string) string {
		name := instancePlaceholder.FindStringSubmatch(ref)[1]
		id, ok := instances[name]
		if !ok {
			unknown = name
		}
		return id
	})
	if unknown != "" {
		return "", fmt.Errorf("${INSTANCE:%s} names no node of the scenario", unknown)
	}
	return repeatPlaceholder.ReplaceAllStringFunc(body, func(ref string) string {
		n, text := repeated(ref)
		return strings.Repeat(text, n)
	}), nil
}

// Names reports whether the body contains the instance id of the node with that name
// in the scenario.
func (m Message) Names(node string) bool {
	return strings.Contains(m.Body, "${INSTANCE:"+node+"}")
}

// repeated parses a repeatPlaceholder. A number that cannot be represented is above
// maxBody.
func repeated(ref string) (n int, text string) {
	found := repeatPlaceholder.FindStringSubmatch(ref)
	n, err := strconv.Atoi(found[1])
	if err != nil {
		n = maxBody + 1
	}
	return n, found[2]
}

// fits computes the size of the text without building it.
func (m Message) fits() error {
	size := len(m.Body)
	for _, ref := range repeatPlaceholder.FindAllString(m.Body, -1) {
		n, text := repeated(ref)
		if n > maxBody {
			return fmt.Errorf("${REPEAT:…} of more than %d bytes: SQS refuses it", maxBody)
		}
		size += n*len(text) - len(ref)
	}
	if size > maxBody {
		return fmt.Errorf("%d bytes are more than %d: SQS refuses it", size, maxBody)
	}
	return nil
}

// String is the message in words.
func (m Message) String() string {
	text := fmt.Sprintf("message %s straight into the queue", m.Name)
	if m.Times > 1 {
		text += fmt.Sprintf(", %d times", m.Times)
	}
	return text
}

func (m Message) validate(where string, in *scope, p *problems) {
	in.sent.define(where, m.Name, p)
	if m.Body == "" {
		p.add(where+".body", "must not be empty: SQS refuses it")
	}
	p.atLeast0(where+".times", m.Times)
	for _, node := range m.nodes() {
		oneOf(p, where+".body", node, in.nodes)
	}
	if err := m.fits(); err != nil {
		p.add(where+".body", "%v", err)
	}
}

func (m Message) effect() effect { return effect{nodes: m.nodes()} }

// nodes are those whose instance ids are in the body, by their names.
func (m Message) nodes() []string {
	var out []string
	for _, found := range instancePlaceholder.FindAllStringSubmatch(m.Body, -1) {
		out = append(out, found[1])
	}
	return out
}
