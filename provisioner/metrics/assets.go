package metrics

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Cache is the cache of boot files as it is now. *assets.Cache has it.
type Cache interface {
	// Usage is how many bytes it takes on disk, and its quota; 0 for none.
	Usage(ctx context.Context) (used, quota int64, err error)
	// Free is how many bytes its disk has left.
	Free() (int64, error)
}

// How a download ended.
const (
	downloadDone      = "done"
	downloadFailed    = "failed"
	downloadCancelled = "cancelled" // nobody waits for it any more
)

type assetMetrics struct {
	cache atomic.Pointer[Cache]

	opens, downloads *prometheus.CounterVec
	bytes            prometheus.Counter
}

func newAssets() *assetMetrics {
	m := &assetMetrics{
		opens:     counters("assets_opens_total", "Boot files that were asked of the cache: a hit was there, a miss had to be fetched or was refused.", "result"),
		downloads: counters("assets_downloads_total", "Downloads from the Image Factory that have ended, each with all its attempts, by outcome.", "outcome"),
		bytes:     counter("assets_downloaded_bytes_total", "Bytes of the boot files that were downloaded whole."),
	}
	for _, result := range []string{"hit", "miss"} {
		m.opens.WithLabelValues(result)
	}
	for _, outcome := range []string{downloadDone, downloadFailed, downloadCancelled} {
		m.downloads.WithLabelValues(outcome)
	}
	return m
}

func (m *assetMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.opens, m.downloads, m.bytes, m.now()}
}

// now are the gauges of the cache. What cannot be known is not told.
func (m *assetMetrics) now() now {
	size := desc("assets_size_bytes", "Bytes that the cache of boot files takes on disk.")
	limit := desc("assets_quota_bytes", "Bytes that the cache may take; 0 is as many as the disk has.")
	free := desc("assets_disk_free_bytes", "Bytes that the disk of the cache has left.")
	return now{
		descs: []*prometheus.Desc{size, limit, free},
		collect: func(to chan<- prometheus.Metric) {
			cache := m.cache.Load()
			if cache == nil {
				return
			}
			if used, quota, err := (*cache).Usage(context.Background()); err == nil {
				gauge(to, size, float64(used))
				gauge(to, limit, float64(quota))
			}
			if left, err := (*cache).Free(); err == nil {
				gauge(to, free, float64(left))
			}
		},
	}
}

// Caching says which cache is in use.
func (s *Set) Caching(c Cache) {
	if s != nil {
		s.assets.cache.Store(&c)
	}
}

// AssetOpened counts a file that was asked for: assets.Options.OnOpen.
func (s *Set) AssetOpened(hit bool) {
	if s == nil {
		return
	}
	result := "miss"
	if hit {
		result = "hit"
	}
	s.assets.opens.WithLabelValues(result).Inc()
}

// AssetFetched counts a download: assets.Options.OnFetch.
func (s *Set) AssetFetched(bytes int64, err error) {
	if s == nil {
		return
	}
	outcome := downloadDone
	switch {
	case errors.Is(err, context.Canceled):
		outcome = downloadCancelled
	case err != nil:
		outcome = downloadFailed
	}
	s.assets.downloads.WithLabelValues(outcome).Inc()
	s.assets.bytes.Add(float64(bytes))
}
