package talos

import (
	"context"
	"errors"
	"fmt"
)

// Kubeconfig fetches an administrator's kubeconfig from a control-plane node.
// It is a secret: the caller neither logs nor stores it but where it was asked
// to (I9). On a worker the error is an ErrNotSupported.
func (a Admin) Kubeconfig(ctx context.Context, host string) ([]byte, error) {
	var kubeconfig []byte
	err := a.call(ctx, host, func(ctx context.Context, c *session) (err error) {
		if kubeconfig, err = c.Kubeconfig(ctx); err != nil {
			return callError(ctx, "fetching the kubeconfig", host, err)
		}
		if len(kubeconfig) == 0 {
			return errors.New("is empty")
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return kubeconfig, nil
}
