package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/talos-provision/provision/provisioner/store"
)

// Plan asks what a run would do.
func (c *Client) Plan(ctx context.Context, r RunRequest) (PlanAnswer, error) {
	var answer PlanAnswer
	err := c.ask(ctx, planTimeout, http.MethodPost, Prefix+"/plans", r, &answer)
	return answer, err
}

// Start begins the run of a plan that was confirmed: r.Digest is the plan's. With
// ErrPlanChanged the error's Plan is the new one, with ErrBusy its Busy says who has the nodes.
func (c *Client) Start(ctx context.Context, r RunRequest) (RunInfo, error) {
	var info RunInfo
	err := c.ask(ctx, planTimeout, http.MethodPost, Prefix+"/runs", r, &info)
	return info, err
}

// Runs are the runs that the daemon knows, the newest first.
func (c *Client) Runs(ctx context.Context) ([]RunInfo, error) {
	var runs []RunInfo
	err := c.ask(ctx, callTimeout, http.MethodGet, Prefix+"/runs", nil, &runs)
	return runs, err
}

// Run is one run by its id.
func (c *Client) Run(ctx context.Context, id string) (RunInfo, error) {
	var info RunInfo
	err := c.ask(ctx, callTimeout, http.MethodGet, Prefix+"/runs/"+url.PathEscape(id), nil, &info)
	return info, err
}

// Wait asks for a run until it is over, through restarts of the daemon. It gives
// up when ctx ends, or when nothing has answered for a minute.
func (c *Client) Wait(ctx context.Context, id string) (info RunInfo, err error) {
	err = c.await(ctx, func() (over bool, err error) {
		info, err = c.Run(ctx, id)
		return !info.Finished.IsZero(), err
	})
	return info, err
}

// waitPatience is how long a daemon that is waited for may not answer: as long as a restart takes.
const waitPatience = time.Minute

// await looks until look says that it is over, or until nothing has answered for long.
func (c *Client) await(ctx context.Context, look func() (over bool, err error)) error {
	retry := c.pace.begin()
	silent := time.Now()
	for {
		over, err := look()
		switch {
		case err == nil && over:
			return nil
		case err == nil:
			silent, retry = time.Now(), c.pace.begin()
			if err := pause(ctx, c.pace.poll); err != nil {
				return err
			}
			continue
		case !retryable(err) || time.Since(silent) > waitPatience:
			return err
		}
		if err := retry.wait(ctx); err != nil {
			return err
		}
	}
}

// Stop interrupts the runs of a cluster.
func (c *Client) Stop(ctx context.Context, cluster string) error {
	return c.ask(ctx, callTimeout, http.MethodPost, Prefix+"/runs/"+url.PathEscape(cluster)+"/stop", nil, nil)
}

// Nodes are the last known states of a cluster's nodes, of all nodes with an empty name.
func (c *Client) Nodes(ctx context.Context, cluster string) ([]store.Node, error) {
	var nodes []store.Node
	err := c.ask(ctx, callTimeout, http.MethodGet, Prefix+"/nodes?"+url.Values{"cluster": {cluster}}.Encode(), nil, &nodes)
	return nodes, err
}

// Fleet are the nodes of the daemon's inventory, of one cluster or of all with an empty name.
func (c *Client) Fleet(ctx context.Context, cluster string) ([]InventoryNode, error) {
	var nodes []InventoryNode
	err := c.ask(ctx, callTimeout, http.MethodGet, Prefix+"/inventory/nodes?"+url.Values{"cluster": {cluster}}.Encode(), nil, &nodes)
	return nodes, err
}

// Detail is all that is known of a node.
func (c *Client) Detail(ctx context.Context, cluster, node string) (NodeDetail, error) {
	var d NodeDetail
	err := c.ask(ctx, callTimeout, http.MethodGet, Prefix+"/nodes/"+url.PathEscape(cluster)+"/"+url.PathEscape(node), nil, &d)
	return d, err
}

// Collisions are the values that several nodes show.
func (c *Client) Collisions(ctx context.Context) ([]Collision, error) {
	var all []Collision
	err := c.ask(ctx, callTimeout, http.MethodGet, Prefix+"/collisions", nil, &all)
	return all, err
}

// Upgrades are the newest rolling upgrade of every cluster that had one.
func (c *Client) Upgrades(ctx context.Context) ([]UpgradeInfo, error) {
	var all []UpgradeInfo
	err := c.ask(ctx, callTimeout, http.MethodGet, Prefix+"/upgrades", nil, &all)
	return all, err
}

// Unknown are the machines that asked for a boot script and are no node of the inventory.
func (c *Client) Unknown(ctx context.Context) ([]store.Unknown, error) {
	var machines []store.Unknown
	err := c.ask(ctx, callTimeout, http.MethodGet, Prefix+"/unknown", nil, &machines)
	return machines, err
}

// Holds are the nodes that no run may touch.
func (c *Client) Holds(ctx context.Context) ([]store.Hold, error) {
	var holds []store.Hold
	err := c.ask(ctx, callTimeout, http.MethodGet, Prefix+"/holds", nil, &holds)
	return holds, err
}

// Hold keeps runs off a node. The daemon notes for whom.
func (c *Client) Hold(ctx context.Context, cluster, node, reason string) (store.Hold, error) {
	var h store.Hold
	err := c.ask(ctx, callTimeout, http.MethodPost, nodePath(cluster, node)+"/hold", holdRequest{Reason: reason}, &h)
	return h, err
}

// Release ends a hold.
func (c *Client) Release(ctx context.Context, cluster, node string) error {
	return c.ask(ctx, callTimeout, http.MethodPost, nodePath(cluster, node)+"/release", nil, nil)
}

func nodePath(cluster, node string) string {
	return Prefix + "/nodes/" + url.PathEscape(cluster) + "/" + url.PathEscape(node)
}

// Inventory says which generation of the inventory is in use.
func (c *Client) Inventory(ctx context.Context) (InventoryInfo, error) {
	var info InventoryInfo
	err := c.ask(ctx, callTimeout, http.MethodGet, Prefix+"/inventory", nil, &info)
	return info, err
}

// Login makes a link that lets one browser into the dashboard, once. role is read or admin.
func (c *Client) Login(ctx context.Context, role string) (LoginLink, error) {
	var link LoginLink
	err := c.ask(ctx, callTimeout, http.MethodPost, Prefix+"/logins", loginRequest{Role: role}, &link)
	return link, err
}

// Reload has the daemon read its tokens and certificates anew and look at its inventory.
func (c *Client) Reload(ctx context.Context) error {
	return c.ask(ctx, callTimeout, http.MethodPost, Prefix+"/reload", nil, nil)
}

// Alive asks /healthz: whether the daemon does not need to be started anew.
func (c *Client) Alive(ctx context.Context) (Health, error) { return c.health(ctx, "/healthz") }

// Ready asks /readyz: whether the daemon may begin runs.
func (c *Client) Ready(ctx context.Context) (Health, error) { return c.health(ctx, "/readyz") }

func (c *Client) health(ctx context.Context, path string) (Health, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := c.send(ctx, http.MethodGet, path, nil, "")
	if err != nil {
		return Health{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusServiceUnavailable {
		if err := c.refusal(response); err != nil {
			return Health{}, err
		}
	}
	var h Health
	return h, c.read(ctx, response, &h)
}

// Backup writes a copy of the daemon's state. After an error w holds a part of it
// at most, which is of no use.
func (c *Client) Backup(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := c.send(ctx, http.MethodGet, Prefix+"/backup", nil, "")
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if err := c.refusal(response); err != nil {
		return err
	}
	watch := newWatchdog(c.pace.silence, cancel)
	defer watch.stop()
	body := &watched{r: response.Body, watchdog: watch}
	_, err = io.Copy(w, body)
	if body.err != nil {
		return watch.explain(c.unreachable(ctx, fmt.Errorf("the copy was cut off: %w", body.err)))
	}
	return err
}
