package dhcp

import (
	"context"
	"net"
	"time"
)

// syncLeases brings confirmed leases to the disk once a second; a kill loses
// nothing, a power cut at most that second.
func (s *Server) syncLeases(ctx context.Context, j *journal) {
	if j == nil {
		return
	}
	everySecond(ctx, func() {
		if err := j.sync(); err != nil {
			s.log.Warn("leases are not yet safe against a power cut", "error", err)
		}
	})
}

func interfaceIndex(name string) int {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return 0
	}
	return device.Index
}

func everySecond(ctx context.Context, do func()) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}
