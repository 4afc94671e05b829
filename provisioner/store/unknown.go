package store

import (
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

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

const (
	bucketUnknown = "unknown"
	// maxUnknown bounds what anybody in the boot network can make us keep.
	maxUnknown = 1000
)

// RecordUnknown notes that a machine asked. When there are more than a thousand
// of them, new ones are not kept: the boot network is open to anybody.
func (s *Store) RecordUnknown(m Unknown) error {
	err := s.db.Batch(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte(bucketUnknown))
		if err != nil {
			return err
		}
		key := unknownKey(m.Facts)
		before := bucket.Get(key)
		if before == nil {
			// The sequence counts the machines; none is ever removed.
			if bucket.Sequence() >= maxUnknown {
				return nil
			}
			m.Times = 1
			if _, err := bucket.NextSequence(); err != nil {
				return err
			}
			return putJSON(bucket, key, m)
		}
		var known Unknown
		if err := json.Unmarshal(before, &known); err != nil {
			return err
		}
		m.Times = known.Times + 1
		return putJSON(bucket, key, m)
	})
	if err != nil {
		return fmt.Errorf("write an unknown machine to the state %s: %w", s.path, err)
	}
	return nil
}

// UnknownMachines returns the machines that were nobody's.
func (s *Store) UnknownMachines() ([]Unknown, error) {
	machines := []Unknown{}
	err := s.db.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte(bucketUnknown))
		if bucket == nil {
			return nil
		}
		return bucket.ForEach(func(_, raw []byte) error {
			var m Unknown
			if err := json.Unmarshal(raw, &m); err != nil {
				return err
			}
			machines = append(machines, m)
			return nil
		})
	})
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
