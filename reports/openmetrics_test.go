package reports

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func TestOpenMetrics(t *testing.T) {
	var b bytes.Buffer
	if err := sampleReport().WriteOpenMetrics(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "metrics.txt", b.Bytes())
	if !strings.HasSuffix(b.String(), "\n# EOF\n") {
		t.Error("it does not end as OpenMetrics does")
	}
	// Prometheus' own parser reads gauges of either format alike.
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&b)
	if err != nil {
		t.Fatal(err)
	}
	scenarios := 0.0
	for _, m := range families["spotdrill_scenarios"].GetMetric() {
		scenarios += m.GetGauge().GetValue()
	}
	outcomes := 0.0
	for _, m := range families["spotdrill_drill_outcome"].GetMetric() {
		outcomes += m.GetGauge().GetValue()
	}
	if total := float64(sampleReport().Summary.Total); scenarios != total || outcomes != total {
		t.Errorf("%g scenarios and %g outcomes, want %g of each", scenarios, outcomes, total)
	}
}
