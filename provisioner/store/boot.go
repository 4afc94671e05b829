package store

import (
	"fmt"
	"time"

	"github.com/talos-provision/provision/inventory/identity"
)

// Boot is how a node's machine asked for its last boot script, and what it was
// given. It holds no secret: the token of a machine config is not part of Script (I9).
type Boot struct {
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
	Time    time.Time `json:"time"`
	Source  string    `json:"source"` // address that it asked from
	// Facts are what the firmware said of the machine.
	Facts identity.Facts `json:"facts,omitzero"`
	// Arch and Platform are as the images and iPXE name them: amd64, efi.
	Arch         string `json:"arch,omitempty"`
	Platform     string `json:"platform,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Product      string `json:"product,omitempty"`
	// NICs are the MACs of all cards that iPXE drives.
	NICs []string `json:"nics,omitempty"`
	// Kind is what it was told to boot: "install" or "local boot"; Reason says why.
	Kind   string `json:"kind"`
	Reason string `json:"reason,omitempty"`
	// Script is the answer, word for word but for secrets; "" when none was written for it.
	Script string `json:"script,omitempty"`
}

// RecordBoot keeps the node's last boot, in the place of the one before.
func (s *Store) RecordBoot(b Boot) error {
	err := s.db.batch(func(tx writer) error { return putJSON(tx, bucketBoots, nodeKey(b.Cluster, b.Node), b) })
	if err != nil {
		return fmt.Errorf("write the boot of %s/%s to the state %s: %w", b.Cluster, b.Node, s.path, err)
	}
	return nil
}

// Boot returns a node's last boot; false when none was seen.
func (s *Store) Boot(cluster, node string) (b Boot, found bool, err error) {
	err = s.db.view(func(tx reader) (err error) {
		found, err = getJSON(tx, bucketBoots, nodeKey(cluster, node), &b)
		return err
	})
	if err != nil {
		return Boot{}, false, fmt.Errorf("read the boot of %s/%s from the state %s: %w", cluster, node, s.path, err)
	}
	return b, found, nil
}
