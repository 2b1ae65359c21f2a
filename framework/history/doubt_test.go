package history

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestDoubts(t *testing.T) {
	control := func(at, done int, outcome Outcome) Query {
		return Query{Target: Echo, Mode: Fixed, Intended: ms(at), Sent: ms(at), Done: ms(done), Outcome: outcome}
	}
	for name, c := range map[string]struct {
		controls []Query
		sent     []int // ms
		unsent   []int // ms
		want     []Doubt
	}{
		"nothing asked":            {},
		"prompt answers, no holes": {controls: []Query{control(0, 1, Answered), control(100, 125, Answered)}, sent: []int{0, 10, 20}},
		"a late answer": {
			controls: []Query{control(100, 126, Answered)},
			want:     []Doubt{{ms(80), ms(146), "echo: answered after more than 25ms"}},
		},
		"a lost one": {
			controls: []Query{control(100, 2100, Timeout)},
			want:     []Doubt{{ms(80), ms(120), "echo: timeout"}},
		},
		"late ones in a row are one": {
			controls: []Query{control(100, 150, Answered), control(110, 150, Answered), control(120, 151, Answered)},
			want:     []Doubt{{ms(80), ms(171), "echo: answered after more than 25ms"}},
		},
		"late ones apart are two": {
			controls: []Query{control(100, 150, Answered), control(300, 350, Answered)},
			want:     []Doubt{{ms(80), ms(170), "echo: answered after more than 25ms"}, {ms(280), ms(370), "echo: answered after more than 25ms"}},
		},
		"an unsent one reports nothing": {controls: []Query{control(100, 400, Unsent)}},
		"a hole in what was sent":       {sent: []int{0, 10, 21, 30}, want: []Doubt{{ms(10), ms(21), "nothing was sent"}}},
		"unsent ones between":           {sent: []int{0, 30}, unsent: []int{5, 10, 15, 20, 25}, want: []Doubt{{0, ms(30), "nothing was sent"}}},
		"unsent ones at the start":      {sent: []int{20, 25}, unsent: []int{0, 5, 10, 15}, want: []Doubt{{0, ms(20), "nothing was sent"}}},
		"unsent ones at the end":        {sent: []int{0, 5}, unsent: []int{10, 15, 20}, want: []Doubt{{ms(5), ms(20), "nothing was sent"}}},
		"nothing but unsent ones":       {unsent: []int{0, 5, 10, 15}, want: []Doubt{{0, ms(15), "nothing was sent"}}},
		"too few to make a hole":        {sent: []int{5, 15}, unsent: []int{0, 10, 20, 25}},
	} {
		t.Run(name, func(t *testing.T) {
			d := Doubter{Lag: 25 * time.Millisecond, Reach: 20 * time.Millisecond, Hole: 10 * time.Millisecond}
			for _, q := range c.controls {
				d.Control(q)
			}
			var stream []Query
			for _, at := range c.sent {
				stream = append(stream, Query{Intended: ms(at), Sent: ms(at), Outcome: Answered})
			}
			for _, at := range c.unsent {
				stream = append(stream, Query{Intended: ms(at), Done: ms(at + 250), Outcome: Unsent})
			}
			slices.SortFunc(stream, func(a, b Query) int { return cmp.Compare(a.Intended, b.Intended) })
			for _, q := range stream {
				d.Sent(q)
			}
			if got := d.Doubts(); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			for _, w := range c.want {
				for at, want := range map[time.Duration]bool{w.From: false, w.From + 1: true, w.To - 1: true, w.To: false} {
					if d.Doubtful(at) != want {
						t.Errorf("%v is doubtful: %t, want %t", at, !want, want)
					}
				}
			}
		})
	}
}
