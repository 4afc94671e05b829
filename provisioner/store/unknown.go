package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/talos-provision/provision/inventory/identity"
)

// Unknown is a machine that asked for a boot script and was nobody's, or not
// to be told apart.
type Unknown struct {
	// Seen is when it asked last, Times how often it asked.
	Seen   time.Time      `json:"seen"`
	Times  int            `json:"times"`
	Source string         `json:"source"`
	Facts  identity.Facts `json:"facts"`
	// Arch and Platform are as the images and iPXE name them: amd64, efi.
	Arch         string `json:"arch,omitempty"`
	Platform     string `json:"platform,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Product      string `json:"product,omitempty"`
	Asset        string `json:"asset,omitempty"`
	// NICs are the MACs of all cards that iPXE drives, those of Facts among them.
	NICs []string `json:"nics,omitempty"`
	// Reason says why it is nobody's.
	Reason string `json:"reason"`
}

// maxUnknown bounds what anybody in the boot network can make us keep.
const maxUnknown = 1000

// RecordUnknown notes that a machine asked. When there are more than a thousand
// of them, new ones are not kept: the boot network is open to anybody.
func (s *Store) RecordUnknown(m Unknown) error {
	key := unknownKey(m.Facts)
	err := s.db.batch(func(tx writer) error {
		var known Unknown
		found, err := getJSON(tx, bucketUnknown, key, &known)
		if err != nil {
			return err
		}
		if !found {
			// None is ever removed, so that the count only grows.
			count := 0
			if _, err := getJSON(tx, bucketMeta, []byte(keyUnknown), &count); err != nil || count >= maxUnknown {
				return err
			}
			if err := putJSON(tx, bucketMeta, []byte(keyUnknown), count+1); err != nil {
				return err
			}
		}
		seen := m
		seen.Times = known.Times + 1
		return putJSON(tx, bucketUnknown, key, seen)
	})
	if err != nil {
		return fmt.Errorf("write an unknown machine to the state %s: %w", s.path, err)
	}
	return nil
}

// UnknownMachines returns the machines that were nobody's.
func (s *Store) UnknownMachines() ([]Unknown, error) {
	machines, err := listJSON[Unknown](s.db, bucketUnknown, nil)
	if err != nil {
		return nil, fmt.Errorf("read the unknown machines of the state %s: %w", s.path, err)
	}
	return machines, nil
}

// unknownKey tells unknown machines apart by all that they said of themselves:
// none of it is trusted.
func unknownKey(f identity.Facts) []byte {
	key, err := json.Marshal(f)
	if err != nil {
		return []byte("{}") // facts are strings: it cannot fail
	}
	return key
}
