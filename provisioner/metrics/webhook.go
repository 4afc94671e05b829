package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/talos-provision/provision/provisioner/webhook"
)

// webhookOther is any outcome that is not one of package webhook.
const webhookOther webhook.Outcome = "other"

var webhookOutcomes = []webhook.Outcome{webhook.Delivered, webhook.Retried, webhook.GivenUp}

// webhookBuckets are in seconds.
var webhookBuckets = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

type webhookMetrics struct {
	deliveries *prometheus.CounterVec
	durations  prometheus.Histogram
}

func newWebhooks() *webhookMetrics {
	m := &webhookMetrics{
		deliveries: counters("webhook_deliveries_total", "Attempts to deliver a webhook, by outcome: delivered, retried, given up.", "outcome"),
		durations:  histogram("webhook_delivery_duration_seconds", "How long the receivers of webhooks took to answer, or not to.", webhookBuckets),
	}
	for _, outcome := range webhookOutcomes {
		m.deliveries.WithLabelValues(string(outcome))
	}
	return m
}

func (m *webhookMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.deliveries, m.durations}
}

// Webhook counts an attempt to deliver a webhook, and how long it took.
func (s *Set) Webhook(outcome webhook.Outcome, took time.Duration) {
	if s == nil {
		return
	}
	if !slices.Contains(webhookOutcomes, outcome) {
		outcome = webhookOther
	}
	s.webhooks.deliveries.WithLabelValues(string(outcome)).Inc()
	s.webhooks.durations.Observe(took.Seconds())
}
