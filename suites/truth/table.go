package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// row writes a line of a Markdown table.
func row(cells ...string) { fmt.Println("| " + strings.Join(cells, " | ") + " |") }

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

// table compares the prober with each peer, with the ratio of their figures.
func (b bencher) table(c costs, highest []rates) {
	heads := []string{"", "spotdrill probe"}
	for _, p := range b.peers {
		heads = append(heads, p.name, "ratio")
	}
	row(heads...)
	row(append([]string{"---"}, slices.Repeat([]string{"---:"}, len(heads)-1)...)...)
	// theirs formats a peer's figure and the prober's share of it; 0 for none.
	line := func(what, ours string, theirs func(i int) (has string, share float64)) {
		cells := []string{what, ours}
		for i := range b.peers {
			has, share := theirs(i)
			ratio := ""
			if share > 0 {
				ratio = fmt.Sprintf("%.2f", share)
			}
			cells = append(cells, has, ratio)
		}
		row(cells...)
	}
	all := func(say string) func(int) (string, float64) {
		return func(int) (string, float64) { return say, 0 }
	}
	us := func(c cost) string { return fmt.Sprintf("%.1f µs", float64(c.perQuery.Nanoseconds())/1000) }
	mib := func(c cost) string { return fmt.Sprintf("%d MiB", c.memory>>20) }
	perSecond := func(rate float64) string { return fmt.Sprintf("%.0f/s", rate) }

	line("processor time a query, 20,000/s, fixed ports", us(c.fixed), func(i int) (string, float64) {
		return us(c.peers[i]), float64(c.fixed.perQuery) / float64(c.peers[i].perQuery)
	})
	line("processor time a query, 20,000/s, a fresh port each", us(c.fresh), func(i int) (string, float64) {
		return us(c.peers[i]) + " (fixed)", float64(c.fresh.perQuery) / float64(c.peers[i].perQuery)
	})
	line("the same, the prober alone", us(c.alone.fresh), func(i int) (string, float64) {
		return us(c.peers[i]) + " (fixed)", float64(c.alone.fresh.perQuery) / float64(c.peers[i].perQuery)
	})
	line("processor time a query, 1,000/s, a fresh port each", us(c.slow), all(""))
	line("lost of "+strconv.Itoa(int(benchRate*b.seconds.Seconds())), fmt.Sprintf("%d fixed, %d fresh", c.fixed.lost, c.fresh.lost), func(i int) (string, float64) {
		return strconv.Itoa(c.peers[i].lost), 0
	})
	for n, s := range servings {
		if why := highest[n].skipped; why != nil {
			line(s.as, "skipped: "+why.Error(), all(""))
			continue
		}
		line(s.as, perSecond(highest[n].ours), func(i int) (string, float64) {
			return perSecond(highest[n].peers[i]), highest[n].ours / highest[n].peers[i]
		})
	}
	line("sent late, p99, 1,000/s", ms(c.slow.latest), all("not printed"))
	line("sent late, p99, 20,000/s", ms(c.fixed.latest), all("not printed"))
	for _, m := range []struct {
		what string
		cost
	}{
		{"memory at 20,000/s, fixed ports", c.fixed},
		{"the same, a fresh port each", c.fresh},
		{"memory at 20,000/s, the prober alone, fixed ports", c.alone.fixed},
		{"the same, a fresh port each", c.alone.fresh},
	} {
		line(m.what, mib(m.cost), func(i int) (string, float64) {
			return mib(c.peers[i]), float64(m.memory) / float64(c.peers[i].memory)
		})
	}
}
