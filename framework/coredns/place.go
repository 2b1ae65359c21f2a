package coredns

// Place is where a Corefile has a plugin, or the property lameduck: the imported file, or "" for the Corefile itself, and
// the line, from 1. What it does not have would be in its first server block, whose first line that is.
func (c Corefile) Place(what string) (file string, line int) {
	if c.parser == nil || len(c.parser.blocks) == 0 {
		return "", 1
	}
	plugin := what
	if what == string(atLameduck) {
		plugin = "health"
	}
	for _, b := range c.parser.blocks {
		switch tokens := b.plugins[plugin]; {
		case len(tokens) == 0:
		case plugin == what:
			return tokens[0].File, tokens[0].Line
		default:
			p := lameduckPlace(tokens)
			return p.file, p.line
		}
	}
	return c.parser.blocks[0].start.File, c.parser.blocks[0].start.Line
}
