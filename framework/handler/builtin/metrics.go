package builtin

import "github.com/prometheus/client_golang/prometheus"

// metrics are the handler's own; their names start with spotdrill_handler_.
type metrics struct {
	messages    *prometheus.CounterVec // cause, result
	deletes     *prometheus.CounterVec // result
	drains      *prometheus.CounterVec // result
	draining    prometheus.Gauge
	evictions   *prometheus.CounterVec // result
	drainTime   prometheus.Histogram
	queueErrors *prometheus.CounterVec // action
	// metadataErrors are failed requests for instance metadata, by path.
	metadataErrors *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "spotdrill", Subsystem: "handler", Name: name, Help: help}, labels)
	}
	m := &metrics{
		messages:       counter("messages_total", "Messages handled, by cause and result.", "cause", "result"),
		deletes:        counter("deletes_total", "Attempts to delete a message from the queue, by result.", "result"),
		drains:         counter("drains_total", "Drains that ended, by result.", "result"),
		evictions:      counter("evictions_total", "Calls of the Eviction API, by result.", "result"),
		queueErrors:    counter("queue_errors_total", "SQS calls that failed, by action.", "action"),
		metadataErrors: counter("metadata_errors_total", "Requests for instance metadata that failed, by path.", "path"),
		draining: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "spotdrill", Subsystem: "handler", Name: "draining_nodes", Help: "Nodes that are currently being drained.",
		}),
		drainTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "spotdrill", Subsystem: "handler", Name: "drain_duration_seconds",
			Help:    "Time from the record of a drain to an empty node.",
			Buckets: []float64{1, 2, 5, 10, 20, 30, 45, 60, 90, 120, 300, 600},
		}),
	}
	registry.MustRegister(m.messages, m.deletes, m.drains, m.draining, m.evictions, m.drainTime, m.queueErrors, m.metadataErrors)
	return m
}
