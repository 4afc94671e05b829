//go:build !linux

package fleet

import (
	"context"
	"errors"
	"net"
)

func tooManyListeners(int) bool { return false }

func listenOnLoopback(context.Context) (net.Listener, error) {
	return nil, errors.New("one listener for all BMCs needs Linux: start a smaller fleet")
}
