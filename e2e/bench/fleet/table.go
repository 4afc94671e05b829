package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
)

// report is the JSON form.
type report struct {
	Load   string        `json:"load"` // the host's load average at the end
	Rounds int           `json:"rounds"`
	Sizes  []measurement `json:"sizes"`
}

// median has the median of each figure.
func median(all []measurement) measurement {
	m := measurement{
		Nodes: all[0].Nodes,
		Wall:  middle(all, func(m measurement) time.Duration { return m.Wall }), Plan: middle(all, func(m measurement) time.Duration { return m.Plan }),
		CPUPerNode:  middle(all, func(m measurement) float64 { return m.CPUPerNode }),
		PlanPerNode: middle(all, func(m measurement) float64 { return m.PlanPerNode }),
		PeakRSS:     middle(all, func(m measurement) int64 { return m.PeakRSS }), State: middle(all, func(m measurement) int64 { return m.State }),
		Events: middle(all, func(m measurement) int { return m.Events }), Again: middle(all, func(m measurement) int { return m.Again }),
		EventsPerSecond: middle(all, func(m measurement) float64 { return m.EventsPerSecond }),
	}
	for i, l := range all[0].Latency {
		l.P50 = middle(all, func(m measurement) float64 { return m.Latency[i].P50 })
		l.P99 = middle(all, func(m measurement) float64 { return m.Latency[i].P99 })
		m.Latency = append(m.Latency, l)
	}
	return m
}

// middle is the lower of the two in the middle of an even number.
func middle[T cmp.Ordered](all []measurement, of func(measurement) T) T {
	values := make([]T, 0, len(all))
	for _, m := range all {
		values = append(values, of(m))
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// table prints Markdown.
func table(w io.Writer, sizes []measurement) error {
	print := func(format string, args ...any) {
		_, _ = fmt.Fprintf(w, format, args...)
	}
	print("load average at the end: %s\n\n", load())
	print("| nodes | wall time | of it the plan | CPU ms a node | of it the plan | peak RSS MB | state MB | events | events/s | boots tried again |\n")
	print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, m := range sizes {
		print("| %d | %s | %s | %.1f | %.1f | %.0f | %.1f | %d | %.0f | %d |\n", m.Nodes, m.Wall.Round(time.Second), m.Plan.Round(time.Second),
			m.CPUPerNode, m.PlanPerNode, float64(m.PeakRSS)/1e6, float64(m.State)/1e6, m.Events, m.EventsPerSecond, m.Again)
	}
	if first, last := sizes[0], sizes[len(sizes)-1]; first.Nodes != last.Nodes {
		print("\nCPU a node, %d : %d nodes: %.2f\n", last.Nodes, first.Nodes, last.CPUPerNode/first.CPUPerNode)
	}
	print("\n| added to a step, ms |")
	for _, m := range sizes {
		print(" p50, %d | p99, %d |", m.Nodes, m.Nodes)
	}
	print("\n| --- |")
	for range sizes {
		print(" --- | --- |")
	}
	for i, l := range sizes[0].Latency {
		print("\n| %s |", l.Step)
		for _, m := range sizes {
			print(" %.0f | %.0f |", m.Latency[i].P50, m.Latency[i].P99)
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}
