package scenarios

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Message sends a message directly to the SQS queue, bypassing EventBridge's rules, also in a form that no
// rule gives. A check can require that a node which it names is drained for it, as for a notice.
// In the body, ${INSTANCE:name} stands for the instance id of a node, ${REPEAT:n:text}
// for n repetitions of a text, and ${NUMBER} for the message's number, from 1, as twelve
// digits.
type Message struct {
	// Name identifies the message in later steps and in checks.
	Name string `yaml:"name"`
	// Body is the text of the message, at most 256 KiB.
	Body string `yaml:"body"`
	// Times is how many of these messages are sent; left out, it is one.
	Times int `yaml:"times,omitempty"`
	// Every is the time from one message of a flood to the next.
	Every strict.Duration `yaml:"every,omitempty"`
	// For is how long the flood lasts. The step ends with it.
	For strict.Duration `yaml:"for,omitempty"`
}

// fastest is the shortest time between two messages of a flood.
const fastest = 10 * time.Millisecond

// maxBody is how large a message SQS takes by default, in bytes.
const maxBody = 256 << 10

var (
	// instancePlaceholder stands in a body for the instance id of a node.
	instancePlaceholder = regexp.MustCompile(`\$\{INSTANCE:([^}]*)\}`)
	// numberPlaceholder is replaced in a body by the message's number.
	numberPlaceholder = "${NUMBER}"
	// repeatPlaceholder stands in a body for a repeated text.
	repeatPlaceholder = regexp.MustCompile(`\$\{REPEAT:(\d+):([^}]+)\}`)
)

// Text is the message's body with its placeholders replaced. Instances maps the
// names of nodes in the scenario to instance ids; number is the message's, from 1.
func (m Message) Text(instances map[string]string, number int) (string, error) {
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
	body = strings.ReplaceAll(body, numberPlaceholder, fmt.Sprintf("%012d", number))
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
	body := strings.ReplaceAll(m.Body, numberPlaceholder, fmt.Sprintf("%012d", 0))
	size := len(body)
	for _, ref := range repeatPlaceholder.FindAllString(body, -1) {
		n, text := repeated(ref)
		if n > maxBody {
			return fmt.Errorf("${REPEAT:…} of more than %s: SQS refuses it", history.Count(maxBody, "byte"))
		}
		size += n*len(text) - len(ref)
	}
	if size > maxBody {
		return fmt.Errorf("%s are more than %d: SQS refuses it", history.Count(size, "byte"), maxBody)
	}
	return nil
}

// Count is how many messages are sent in all.
func (m Message) Count() int {
	if m.Every > 0 {
		return int(m.For / m.Every)
	}
	return max(1, m.Times)
}

// String is the message in words.
func (m Message) String() string {
	text := fmt.Sprintf("message %s straight into the queue", m.Name)
	switch {
	case m.Every > 0:
		text += fmt.Sprintf(", every %s for %s", m.Every.D(), m.For.D())
	case m.Times > 1:
		text += ", " + history.Count(m.Times, "time")
	}
	return text
}

func (m Message) validate(where string, in *scope, p *problems) {
	in.Sent.define(where, m.Name, p)
	if m.Body == "" {
		p.add(where+".body", "must not be empty: SQS refuses it")
	}
	p.atLeast0(where+".times", m.Times)
	p.onlyWith(where+".for", m.For > 0, m.Every > 0, "every")
	switch {
	case m.Every <= 0:
	case m.Every.D() < fastest:
		p.add(where+".every", "%s is less than %s", m.Every.D(), fastest)
	case m.Times > 0:
		p.add(where+".times", "is not given with every: a flood sends one message each time")
	case m.For < m.Every:
		p.add(where+".for", "%s is less than every, %s: no message would be sent", m.For.D(), m.Every.D())
	}
	for _, node := range m.nodes() {
		oneOf(p, where+".body", node, in.Nodes)
	}
	if m.Every > 0 {
		in.Floods[m.Name] = m.For.D()
	} else if nodes := m.nodes(); len(nodes) > 0 {
		in.Named[m.Name] = nodes
	}
	if err := m.fits(); err != nil {
		p.add(where+".body", "%v", err)
	}
}

func (m Message) effect() effect {
	e := effect{nodes: m.nodes(), takes: m.For.D()}
	if m.Every > 0 {
		e.alone = []Resource{HandlerQueue}
	}
	return e
}

// nodes are those whose instance ids are in the body, by their names.
func (m Message) nodes() []string {
	var out []string
	for _, found := range instancePlaceholder.FindAllStringSubmatch(m.Body, -1) {
		out = append(out, found[1])
	}
	return out
}

// NoticeIn are the nodes for which a check requires something because of the message, by their names: it is
// a notice in a form of its own.
func (s Scenario) NoticeIn(m Message) []string {
	required := slices.ContainsFunc(s.Checks, func(c Check) bool {
		if c.node == nil {
			return false
		}
		node := c.node
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		parameters := fieldOf(node, c.Kind)
		return parameters != nil && valueOf(parameters, "notice") == m.Name
	})
	if !required || m.Every > 0 {
		return nil
	}
	return m.nodes()
}

// FloodTime is for how long a message step sends its message, 0 if it sends one.
func (s Scenario) FloodTime(name string) time.Duration {
	for _, m := range stepsOf[Message](s) {
		if m.Name == name {
			return m.For.D()
		}
	}
	return 0
}
