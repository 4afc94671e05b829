package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The kinds of failure that a caller acts on; found with errors.Is. Each says
// what to do.
var (
	// ErrKubeconfig: the text is no kubeconfig, or lacks a part.
	ErrKubeconfig = errors.New("it is no kubeconfig with a server, its authority and a user: fetch it from a control plane again")
	// ErrUnreachable: nothing answers at the server of the kubeconfig.
	ErrUnreachable = errors.New("the Kubernetes API does not answer: check that its address can be reached from here and that a control plane is up")
	// ErrUnauthorized: the API does not know who asks.
	ErrUnauthorized = errors.New("the Kubernetes API does not accept the kubeconfig's user: it has expired or is of another cluster, fetch it from a control plane again")
	// ErrForbidden: the user may not do that.
	ErrForbidden = errors.New("the kubeconfig's user may not do that: take an administrator's, as a control plane gives it")
	// ErrWrongAuthority: what answers has no certificate of the kubeconfig's authority.
	ErrWrongAuthority = errors.New("the certificate of what answers is not good for the kubeconfig: it is of another cluster, or does not name the address; fetch the kubeconfig from a control plane again")
	// ErrNoNode: there is no Node object of that name.
	ErrNoNode = errors.New("there is no Node object of that name: look at `kubectl get nodes`")
)

// refusals are the kinds of the API's own answers.
var refusals = []struct {
	is   func(error) bool
	kind error
}{
	{apierrors.IsUnauthorized, ErrUnauthorized},
	{apierrors.IsForbidden, ErrForbidden},
}

// failure says what a failed request was about, and of which kind it is.
func (c *Cluster) failure(ctx context.Context, what string, err error) error {
	for _, refusal := range refusals {
		if refusal.is(err) {
			return fmt.Errorf("%s: %w (%w)", what, refusal.kind, err)
		}
	}
	switch status := apierrors.APIStatus(nil); {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s: %w (%w)", what, ErrUnreachable, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: cut short: %w", what, context.Cause(ctx))
	case wrongAuthority(err):
		return fmt.Errorf("%s: %w (%w)", what, ErrWrongAuthority, err)
	case errors.As(err, &status):
		return fmt.Errorf("%s: the Kubernetes API answers: %w", what, err)
	case unreachable(err):
		return fmt.Errorf("%s: %w (%w)", what, ErrUnreachable, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func wrongAuthority(err error) bool {
	var (
		unknown     x509.UnknownAuthorityError
		name        x509.HostnameError
		invalid     x509.CertificateInvalidError
		certificate *tls.CertificateVerificationError
	)
	return errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &invalid) || errors.As(err, &certificate)
}

func unreachable(err error) bool {
	var timeout net.Error // *url.Error is one too: whatever kept the request from its answer
	return errors.As(err, &timeout)
}
