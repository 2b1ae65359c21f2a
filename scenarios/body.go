package scenarios

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxBody is how large a message SQS takes by default, in bytes.
const maxBody = 256 << 10

var (
	// instancePlaceholder stands in a message's body for the instance of a node.
	instancePlaceholder = regexp.MustCompile(`\$\{INSTANCE:([^}]*)\}`)
	// repeatPlaceholder stands for a text many times over.
	repeatPlaceholder = regexp.MustCompile(`\$\{REPEAT:(\d+):([^}]+)\}`)
)

// Text is the message's body with its placeholders filled in; instances maps
// the scenario's names of nodes to instance ids.
func (m Message) Text(instances map[string]string) (string, error) {
	if err := m.tooLarge(); err != nil {
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

// Names is true where the body has the instance of the scenario's node of that name.
func (m Message) Names(node string) bool {
	return strings.Contains(m.Body, "${INSTANCE:"+node+"}")
}

// repeated reads a placeholder; n is above maxBody where the number is beyond
// reason.
func repeated(ref string) (n int, text string) {
	found := repeatPlaceholder.FindStringSubmatch(ref)
	n, err := strconv.Atoi(found[1])
	if err != nil {
		n = maxBody + 1
	}
	return n, found[2]
}

// tooLarge measures the body without making it.
func (m Message) tooLarge() error {
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

func (m Message) validate(where string, nodes []string, p *problems) {
	if m.Body == "" {
		p.add(where+".body", "must not be empty: SQS refuses it")
	}
	if m.Times < 0 {
		p.add(where+".times", "%d is less than 0", m.Times)
	}
	for _, name := range instancePlaceholder.FindAllStringSubmatch(m.Body, -1) {
		p.oneOf(where+".body", name[1], nodes)
	}
	if err := m.tooLarge(); err != nil {
		p.add(where+".body", "%v", err)
	}
}
