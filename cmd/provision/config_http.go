package main

import (
	"github.com/talos-provision/provision/pxe/assets"
)

// defaultMaxTransfers keeps a link of 10 Gbit/s busy several times over, since
// iPXE takes 20 to 110 MB/s, and bounds what clients can make this host hold.
const defaultMaxTransfers = 256

type httpConfig struct {
	Listen string `yaml:"listen"`
	// MaxTransfers bounds the kernels and initramfs files sent at one time; further
	// machines are told to come back in some seconds. 0 means no bound.
	MaxTransfers int `yaml:"maxTransfers"`
}

func (c httpConfig) check() error {
	if c.MaxTransfers < 0 {
		return usageError("http.maxTransfers is %d: it is a number of downloads at one time, or 0 for no bound", c.MaxTransfers)
	}
	return nil
}

type assetsConfig struct {
	Factory string `yaml:"factory"`
	Cache   string `yaml:"cache"`
	// Quota bounds what the cache takes on disk; 0 means the whole disk.
	Quota byteSize `yaml:"quota"`
}

// byteSize is written 50GiB, 800MB or as a number of bytes.
type byteSize int64

// UnmarshalText reads a size.
func (b *byteSize) UnmarshalText(text []byte) error {
	n, err := assets.ParseBytes(string(text))
	*b = byteSize(n)
	return err
}

// assetCache opens the cache that the configuration names.
func (c *config) assetCache(o assets.Options) (*assets.Cache, error) {
	o.Dir, o.Factory, o.Quota = c.Assets.Cache, c.Assets.Factory, int64(c.Assets.Quota)
	cache, err := assets.New(o)
	if err != nil {
		return nil, &statusError{exitUsage, err.Error()}
	}
	return cache, nil
}
