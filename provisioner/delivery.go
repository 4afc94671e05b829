package provisioner

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/netip"
	"strings"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/pxe/httpboot"
)

// Delivery is how a machine config reaches its node.
type Delivery string

// The ways of delivery.
const (
	// DeliverByAPI applies the config over the maintenance API, once the machine there is
	// proven to be the node and its disks were seen. The default.
	DeliverByAPI Delivery = "api"
	// DeliverByURL has Talos fetch the config at boot, by talos.config= and a one-time token.
	DeliverByURL Delivery = "url"
)

// ParseDelivery reads the value of talos.delivery; "" is api.
func ParseDelivery(text string) (Delivery, error) {
	switch d := Delivery(text); d {
	case "":
		return DeliverByAPI, nil
	case DeliverByAPI, DeliverByURL:
		return d, nil
	}
	return "", fmt.Errorf("talos.delivery %q is unknown: use %s or %s", text, DeliverByAPI, DeliverByURL)
}

// fetches says whether the node is to fetch its config: a medium and a signed
// image take no argument that would tell it where.
func (c *Controller) fetches(n inventory.Node, goal Goal) bool {
	return c.opts.Delivery == DeliverByURL && goal.Installs() && bootKind(n) != bmc.BootMedia && !n.SecureBoot
}

// checkDelivery refuses arguments that would fetch another config in ours' place.
func (c *Controller) checkDelivery(n inventory.Node, goal Goal, args string) *Failure {
	if !c.fetches(n, goal) || !strings.Contains(" "+args, " "+httpboot.ConfigArg) {
		return nil
	}
	return failed(CauseArguments, "kernelArgs hold %s, and so would the config's delivery by URL: remove one", httpboot.ConfigArg)
}

// renewToken makes the token that the next boot of the node fetches its config
// with. It is kept in memory alone (I9): a controller that was killed makes a
// new one, and a node that booted with the old one is booted again.
func (n *node) renewToken() {
	if !n.c.fetches(n.Node, n.goal) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.token = rand.Text()
}

func (n *node) currentToken() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.token
}

// HandOut gives the config behind a token to the armed node that the token was
// made for, once. It implements httpboot.HandOuter.
func (c *Controller) HandOut(token string, source netip.Addr) (httpboot.Handout, bool) {
	n := c.byToken(token)
	if n == nil || !n.armed() {
		return httpboot.Handout{}, false
	}
	if !n.mayCallFrom(source) {
		n.report(fmt.Sprintf("its machine config was asked for from %s, which is not known to be its address, and was not given", source))
		return httpboot.Handout{}, false
	}
	if !n.takeToken(token) {
		return httpboot.Handout{}, false
	}
	return httpboot.Handout{Data: n.config.Data(), Done: func(sent bool) { n.handedOut(token, sent) }}, true
}

func (c *Controller) byToken(token string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		current := n.currentToken()
		if current != "" && subtle.ConstantTimeCompare([]byte(current), []byte(token)) == 1 {
			return n
		}
	}
	return nil
}

// mayCallFrom says whether an address is the node's: its static one, or where it was last seen.
func (n *node) mayCallFrom(source netip.Addr) bool {
	return source.IsValid() && (source.String() == n.IP || source == n.sighted().source)
}

// takeToken takes the token while its config is sent; false when another request has.
func (n *node) takeToken(token string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.token != token {
		return false
	}
	n.token, n.seen.handedOut = "", true
	return true
}

// handedOut ends a token whose config reached the node whole, and gives any other
// back: Talos asks again after a broken download.
func (n *node) handedOut(token string, sent bool) {
	n.mu.Lock()
	if sent {
		n.seen.fetched = true
	} else {
		n.token = token
	}
	n.mu.Unlock()
	n.wake()
}

// mayHaveFetched is the transition of a node that may have its config, although
// that was not seen to reach it: from here on it is looked at as one that
// installs itself, and is not booted anew (I2).
func (n *node) mayHaveFetched() transition {
	n.lastMiss = ""
	return transition{state: Configured, step: stepUnsure, message: "was handed its machine config, or some of it, and is taken to install itself"}
}

// fetchedBefore says whether a configured Talos that answers at host can be this
// node with the config that it fetched: one that was handed out in this run, or by
// a controller that died before it could write that down. The cluster's
// certificate proves it; another installation on its disk does not know it.
func (n *node) fetchedBefore(ctx context.Context, host string) bool {
	if !n.c.fetches(n.Node, n.goal) || !n.resumed && !n.sighted().handedOut {
		return false
	}
	running := n.admin.Inspect(ctx, host)
	return running.Reached && n.c.fleet.isNode(n.Node, running.Facts)
}
