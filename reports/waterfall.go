package reports

import "github.com/spotdrill/spotdrill/reports/timeline"

// Waterfall is how much of the time before its deadline each step of a notice took,
// in seconds since the notice was put into the queue.
type Waterfall struct {
	Notice     string  `yaml:"notice"` // the step's name
	Node       string  `yaml:"node"`
	Deadline   Seconds `yaml:"deadlineSeconds,omitempty"`
	LocalStack Seconds `yaml:"localstackSeconds"` // its share of the time until the notice was received
	// Steps are those that were seen.
	Steps []WaterfallStep `yaml:"steps,flow"`
}

// WaterfallStep is one step of a notice.
type WaterfallStep struct {
	Name  string  `yaml:"name"`
	After Seconds `yaml:"seconds"`
}

func waterfalls(t *timeline.Timeline) []Waterfall {
	if t == nil {
		return nil
	}
	var out []Waterfall
	for _, w := range t.Waterfalls {
		fall := Waterfall{Notice: w.Notice, Node: w.Node, LocalStack: Seconds(w.Queue)}
		if put := w.Steps[0]; w.Deadline > put.At {
			fall.Deadline = Seconds(w.Deadline - put.At)
		}
		for _, s := range w.Steps {
			if s.Seen {
				fall.Steps = append(fall.Steps, WaterfallStep{s.Name, Seconds(s.After)})
			}
		}
		out = append(out, fall)
	}
	return out
}
