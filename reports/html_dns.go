package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/reports/timeline"
)

// streamHeight is that of a DNS stream's row in pixels.
const streamHeight = 44

// columns is the number of columns in which sent queries are drawn; losses are drawn
// for each bin.
const columns = 240

// streamPart is a stream's row: the queries that were sent, that were lost, and that
// never left, as outlines over the axis in milliseconds.
type streamPart struct {
	timeline.AnswerRow
	Height         int
	Sent           string // path data of the queries that were sent
	Broken, Held   string // path data of those that were lost, and that never left
	Bins           string // "first ms,width ms;bin:lost/asked/unsent;…" for the script
	Windows        []windowPart
	Share, Latency string
}

func newStreamPart(t *timeline.Timeline, s timeline.AnswerRow) streamPart {
	p := streamPart{AnswerRow: s, Height: streamHeight, Share: share(s.Measured)}
	if s.Measured.P99 > 0 {
		p.Latency = fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", s.Measured.P50.Seconds()*1000, s.Measured.P99.Seconds()*1000)
	}
	usual := p.asked(t, s)
	p.lost(t, s, usual)
	longest, _ := s.Measured.Longest()
	windows := slices.Clone(s.Measured.Windows)
	slices.SortStableFunc(windows, func(a, b history.Window) int { return cmp.Compare(b.Length(), a.Length()) })
	for _, w := range windows[:min(len(windows), windowsMax)] {
		p.Windows = append(p.Windows, windowPart{
			At: axisTime(t, w.From), Width: width(w.Length()), Label: windowLength(w), Text: windowText(w), Key: w == longest,
		})
	}
	return p
}

// windowsMax is the most windows that are shaded; the list has the others too.
const windowsMax = 200

// asked draws how many queries were sent, and returns the usual number in a bin: the
// median of the columns.
func (p *streamPart) asked(t *timeline.Timeline, s timeline.AnswerRow) float64 {
	per := max(1, (len(s.Bins)+columns-1)/columns)
	var counts []float64
	for i := 0; i < len(s.Bins); i += per {
		n := 0
		bins := s.Bins[i:min(i+per, len(s.Bins))]
		for _, b := range bins {
			n += b.Asked
		}
		counts = append(counts, float64(n)/float64(len(bins)))
	}
	sorted := slices.Sorted(slices.Values(counts))
	if len(sorted) == 0 || sorted[len(sorted)-1] == 0 {
		return 1
	}
	usual := sorted[len(sorted)/2]
	if usual == 0 {
		usual = sorted[len(sorted)-1]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "M%s %d", axisTime(t, t.From), streamHeight)
	y := -1
	for i, n := range counts {
		// A ceiling at nine tenths leaves room for more than usual.
		next := streamHeight - int(math.Round(min(1, 0.9*n/usual)*streamHeight))
		if next != y {
			fmt.Fprintf(&b, "H%sV%d", axisTime(t, t.From+time.Duration(i*per)*s.Width), next)
			y = next
		}
	}
	fmt.Fprintf(&b, "H%sV%dZ", axisTime(t, t.To), streamHeight)
	p.Sent = b.String()
	return usual
}

// lost draws each bin with a loss, from the bottom up, and each bin with queries that
// never left, from the top down. Neighbours of the same height are one shape.
func (p *streamPart) lost(t *timeline.Timeline, s timeline.AnswerRow, usual float64) {
	var lost, unsent, bins strings.Builder
	fmt.Fprintf(&bins, "%s,%s", axisTime(t, t.From), width(s.Width))
	height := func(n int) int {
		if n == 0 {
			return 0
		}
		return max(minHeight, int(math.Round(min(1, float64(n)/usual)*0.9*streamHeight)))
	}
	bars := func(b *strings.Builder, count func(timeline.Bin) int, from, sign int) {
		for i := 0; i < len(s.Bins); {
			h, n := height(count(s.Bins[i])), 1
			for i+n < len(s.Bins) && height(count(s.Bins[i+n])) == h {
				n++
			}
			if h > 0 {
				fmt.Fprintf(b, "M%s %dv%dh%sv%dz", axisTime(t, t.From+time.Duration(i)*s.Width), from, sign*h, width(time.Duration(n)*s.Width), -sign*h)
			}
			i += n
		}
	}
	bars(&lost, func(b timeline.Bin) int { return b.Lost }, streamHeight, -1)
	bars(&unsent, func(b timeline.Bin) int { return b.Unsent }, 0, 1)
	for i, b := range s.Bins {
		if b.Lost > 0 || b.Unsent > 0 {
			fmt.Fprintf(&bins, ";%d:%d/%d/%d", i, b.Lost, b.Asked, b.Unsent)
		}
	}
	p.Broken, p.Held, p.Bins = lost.String(), unsent.String(), bins.String()
}

// minHeight makes a single lost query among hundreds visible.
const minHeight = 7

// fallPart is a waterfall on a logarithmic axis: a handler needs milliseconds of the
// minutes that it has, and both must be visible.
type fallPart struct {
	timeline.Waterfall
	Rows  []fallRow
	Ticks []fallTick
	Limit string // the time between the notice and its deadline
	Share string // LocalStack's part of the time until the notice was received
	// Place is where the deadline is on the axis, in percent.
	Place float64
}

// Text is the waterfall in one sentence.
func (p fallPart) Text() string {
	steps := make([]string, len(p.Rows))
	for i, r := range p.Rows {
		steps[i] = r.Name + " " + r.Took
	}
	return fmt.Sprintf("Notice %s for %s: %s.", p.Notice, p.Node, strings.Join(steps, ", "))
}

type fallRow struct {
	timeline.Station
	Took  string // since the notice
	Place float64
	At    string // on the timeline's axis
	Late  bool   // after the instance was taken
}

type fallTick struct {
	Place float64
	Text  string
}

func newFallPart(t *timeline.Timeline, w timeline.Waterfall) fallPart {
	p := fallPart{Waterfall: w}
	begin, end := w.Steps[0].At, w.Deadline
	for _, s := range w.Steps {
		if s.Seen {
			end = max(end, s.At)
		}
	}
	whole := max(end-begin, time.Second)
	if w.Deadline > begin {
		p.Limit, p.Place = took(w.Deadline-begin), logPlace(w.Deadline-begin, whole)
	}
	for unit := 10 * time.Millisecond; unit < whole; unit *= 10 {
		if place := logPlace(unit, whole); p.Limit == "" || place < p.Place-tickRoom {
			p.Ticks = append(p.Ticks, fallTick{place, took(unit)})
		}
	}
	if w.Queue > 0 {
		p.Share = took(w.Queue)
	}
	for _, s := range w.Steps {
		row := fallRow{Station: s, Took: "not seen"}
		if s.Seen {
			row.Took, row.Place, row.At = took(s.After), logPlace(s.After, whole), axisTime(t, s.At)
			row.Late = w.Deadline > 0 && s.At > w.Deadline
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}

// tickRoom is the smallest distance, in percent, between a tick and the deadline's.
const tickRoom = 14

// logPlace is where a duration is on an axis from one millisecond to the whole,
// in percent.
func logPlace(d, whole time.Duration) float64 {
	if d <= time.Millisecond {
		return 0
	}
	place := 100 * math.Log(float64(d)/float64(time.Millisecond)) / math.Log(float64(whole)/float64(time.Millisecond))
	return math.Round(place*100) / 100
}

// took is a duration for people: milliseconds below a second.
func took(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	}
	return strings.TrimSuffix(fmt.Sprintf("%.3f", d.Seconds()), ".000") + " s"
}
