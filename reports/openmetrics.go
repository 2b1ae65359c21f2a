package reports

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/spotdrill/spotdrill/framework/foreign"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// WriteOpenMetrics writes the report as OpenMetrics text, for node_exporter's textfile collector or a
// push gateway: the outcome and time of each drill, and the numbers that its checks measured, whose
// names end in their unit. Every series has the handler and the set as labels.
// https://prometheus.io/docs/specs/om/open_metrics_spec/
func (r *Report) WriteOpenMetrics(w io.Writer) error {
	registry := prometheus.NewPedanticRegistry()
	of := prometheus.Labels{"handler": r.Handler.Name, "set": string(r.Set)}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "spotdrill", Name: name, Help: help, ConstLabels: of}, labels)
		registry.MustRegister(g)
		return g
	}
	info := gauge("run_info", "The run and the versions of its parts.", "run", "version", "kubernetes", "coredns", "kube_proxy")
	started := gauge("run_started_timestamp_seconds", "When the run began.")
	scenarios := gauge("scenarios", "Scenarios by outcome.", "outcome")
	outcome := gauge("drill_outcome", "1 for the outcome of the drill, 0 for the others.", "scenario", "profile", "outcome")
	took := gauge("drill_duration_seconds", "How long the drill took, all its attempts together.", "scenario", "profile")
	measured := gauge("drill_measured", "A number that a check of the drill measured; its name has the unit.", "scenario", "profile", "check", "subject", "number")

	env := r.Environment
	info.WithLabelValues(r.Run, r.Handler.Version, env["kubernetes"], env["coredns"], env["kube-proxy"]).Set(1)
	started.WithLabelValues().Set(float64(r.Started.Unix()))
	counts := map[verdict.Outcome]int{
		verdict.Pass: r.Summary.Passed, verdict.Fail: r.Summary.Failed, verdict.Unknown: r.Summary.Unknown, verdict.Skipped: r.Summary.Skipped,
	}
	for o, n := range counts {
		scenarios.WithLabelValues(string(o)).Set(float64(n))
	}
	for _, e := range r.Results {
		for o := range counts {
			is := 0.0
			if e.Outcome.Known() == o {
				is = 1
			}
			outcome.WithLabelValues(e.Scenario, e.Profile, string(o)).Set(is)
		}
		if e.Outcome.Known() == verdict.Skipped {
			continue
		}
		took.WithLabelValues(e.Scenario, e.Profile).Set(time.Duration(e.Measured).Seconds())
		for _, v := range e.Verdicts {
			for name, number := range v.Numbers {
				measured.WithLabelValues(e.Scenario, e.Profile, string(v.ID), v.Subject, name).Set(number)
			}
		}
	}
	families, err := registry.Gather()
	if err != nil {
		return fmt.Errorf("write OpenMetrics: %w", err)
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToOpenMetrics(&text, family); err != nil {
			return fmt.Errorf("write OpenMetrics: %w", err)
		}
	}
	if _, err := expfmt.FinalizeOpenMetrics(&text); err != nil {
		return fmt.Errorf("write OpenMetrics: %w", err)
	}
	_, err = io.WriteString(w, foreign.Page(text.String()))
	return wrap.Errorf(err, "write OpenMetrics")
}
