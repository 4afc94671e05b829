package web

import (
	"context"
	"net/http"
	"net/url"
)

// PlanUpgrade asks what an upgrade would do.
func (c *Client) PlanUpgrade(ctx context.Context, r UpgradeRequest) (UpgradePlanAnswer, error) {
	var answer UpgradePlanAnswer
	err := c.ask(ctx, planTimeout, http.MethodPost, Prefix+"/upgrades/plans", r, &answer)
	return answer, err
}

// StartUpgrade begins the upgrade of a plan that was confirmed: r.Digest is the plan's.
func (c *Client) StartUpgrade(ctx context.Context, r UpgradeRequest) (UpgradeInfo, error) {
	var info UpgradeInfo
	err := c.ask(ctx, planTimeout, http.MethodPost, Prefix+"/upgrades", r, &info)
	return info, err
}

// StopUpgrade interrupts the upgrade of a cluster.
func (c *Client) StopUpgrade(ctx context.Context, cluster string) error {
	return c.ask(ctx, callTimeout, http.MethodPost, Prefix+"/upgrades/"+url.PathEscape(cluster)+"/stop", nil, nil)
}

// AbandonUpgrade ends an unfinished upgrade without going on with it.
func (c *Client) AbandonUpgrade(ctx context.Context, cluster string) (UpgradeInfo, error) {
	var info UpgradeInfo
	err := c.ask(ctx, callTimeout, http.MethodPost, Prefix+"/upgrades/"+url.PathEscape(cluster)+"/abandon", nil, &info)
	return info, err
}

// WaitUpgrade asks for an upgrade until the daemon works on it no longer, as Wait
// does for a run. A daemon that was started anew has forgotten how it ended: then
// Outcome is empty.
func (c *Client) WaitUpgrade(ctx context.Context, cluster, id string) (info UpgradeInfo, err error) {
	err = c.await(ctx, func() (over bool, err error) {
		info, err = c.upgrade(ctx, cluster, id)
		return !info.Active, err
	})
	return info, err
}

func (c *Client) upgrade(ctx context.Context, cluster, id string) (UpgradeInfo, error) {
	all, err := c.Upgrades(ctx)
	if err != nil {
		return UpgradeInfo{}, err
	}
	for _, u := range all {
		if u.Cluster == cluster && u.ID == id {
			return u, nil
		}
	}
	return UpgradeInfo{}, NotFound("there is no upgrade %q of %s any more: another one was begun", id, cluster)
}
