package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/talos-provision/provision/bmc"
	"github.com/talos-provision/provision/inventory"
	"github.com/talos-provision/provision/provisioner"
	"github.com/talos-provision/provision/provisioner/store"
	"github.com/talos-provision/provision/provisioner/talos"
	"github.com/talos-provision/provision/pxe"
)

// session is one command at work: what was read before anything is done.
type session struct {
	*app
	asJSON   bool
	log      *slog.Logger
	config   config
	tree     *inventory.Tree
	selected []inventory.Node
	wiped    map[string]bool // cluster/name of the nodes named with --reinstall
}

// provision plans a run and, unless --dry-run is given, carries it out.
func (a *app) provision(ctx context.Context) error {
	s, err := a.begin()
	if err != nil {
		return err
	}
	if a.flags.dryRun {
		return s.dryRun(ctx)
	}
	return s.install(ctx)
}

// begin reads configuration and inventory, and selects the nodes.
func (a *app) begin() (*session, error) {
	s := &session{app: a}
	var err error
	if s.asJSON, err = a.json(); err != nil {
		return nil, err
	}
	if s.log, err = a.logger(); err != nil {
		return nil, err
	}
	if a.flags.cluster == "" {
		return nil, usageError("name the cluster: --cluster NAME")
	}
	if s.config, err = a.loadConfig(); err != nil {
		return nil, err
	}
	if s.tree, err = a.loadInventory(s.config); err != nil {
		return nil, err
	}
	if s.selected, err = s.selectNodes(a.flags.nodes); err != nil {
		return nil, err
	}
	s.wiped = map[string]bool{}
	if a.flags.reinstall == "" {
		return s, nil
	}
	wiped, err := s.selectNodes(a.flags.reinstall)
	for _, n := range wiped {
		s.wiped[n.Cluster+"/"+n.Name] = true
	}
	return s, err
}

// selectNodes picks nodes by a hostlist and by what else was said of the
// selection; an empty hostlist picks all.
func (s *session) selectNodes(hostlist string) ([]inventory.Node, error) {
	return s.chosenFrom(s.tree, hostlist)
}

func (s *session) dryRun(ctx context.Context) error {
	state, err := store.OpenReadOnly(s.config.stateFile())
	if errors.Is(err, store.ErrNoState) {
		state, err = nil, nil
	}
	if err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	if state != nil {
		defer func() { _ = state.Close() }()
	}
	controller, err := s.controller(state)
	if err != nil {
		return err
	}
	plan, err := s.plan(ctx, controller)
	if err != nil {
		return err
	}
	if err := s.printPlan(plan, s.asJSON); err != nil {
		return err
	}
	return planStatus(plan)
}

func (s *session) controller(state *store.Store) (*provisioner.Controller, error) {
	budgets, power := s.config.Budgets, s.config.Power
	bootURL, err := s.bootURL()
	if err != nil {
		return nil, err
	}
	return provisioner.New(provisioner.Options{
		Inventory: s.tree.Nodes,
		Selected:  s.selected,
		Reinstall: s.wiped,
		BootURL:   bootURL,
		Dial:      s.dial,
		Prober:    talos.Prober{},
		Store:     state,
		Power:     provisioner.Power{Parallel: power.Parallel, Window: power.Window, Jitter: power.Jitter},
		Budgets: provisioner.Budgets{
			Attempts: budgets.Attempts, MinRebootInterval: budgets.MinRebootInterval, BootTimeout: budgets.BootTimeout,
		},
		OnEvent: s.tell,
		Log:     s.log,
	})
}

// bootURL is where BMCs and nodes reach the boot services. Only nodes whose BMC
// is told a URI need it before anything is served.
func (s *session) bootURL() (string, error) {
	needed := slices.ContainsFunc(s.selected, func(n inventory.Node) bool { return n.BMC.Boot != "" && n.BMC.Boot != string(bmc.BootPXE) })
	if !needed {
		return "", nil
	}
	address, err := s.config.serverAddress()
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(s.config.HTTP.Listen)
	if err != nil {
		return "", usageError("http.listen %s: %v", s.config.HTTP.Listen, err)
	}
	return "http://" + net.JoinHostPort(address.String(), port), nil
}

// dial logs in to a node's BMC. The password is read at that moment and kept nowhere else (I9).
func (s *session) dial(ctx context.Context, n inventory.Node) (provisioner.BMC, error) {
	password, err := n.BMC.Password(ctx, inventory.Secrets{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", bmc.ErrUnauthorized, err)
	}
	client, err := bmc.Dial(ctx, bmc.Config{
		Address: n.BMC.Address, Username: n.BMC.Username, Password: password, Insecure: n.BMC.Insecure,
		CAFile: n.BMC.CAFile, Fingerprint: n.BMC.Fingerprint, LegacyTLS: n.BMC.LegacyTLS,
		System: n.BMC.System, BootMode: n.BMC.BootMode, Boot: bmc.BootKind(n.BMC.Boot), Expected: n.Facts(), Log: s.log,
	})
	if err != nil {
		return nil, err // not client: a nil *bmc.Client in the interface would not be nil
	}
	return client, nil
}

// install carries a run out. Everything that can fail without touching a
// machine is tried before the first machine is touched.
func (s *session) install(ctx context.Context) (err error) {
	state, err := store.Open(s.config.stateFile())
	if err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	controller, err := s.controller(state)
	if err != nil {
		return err
	}
	defer s.answerStatus(ctx, state)()
	cache, err := s.assetCache()
	if err != nil {
		return err
	}
	services, err := s.bootServices(controller, cache)
	if err != nil {
		return err
	}
	if err := services.Listen(ctx); err != nil {
		return &statusError{exitFailed, err.Error()}
	}
	defer services.Close()

	plan, err := s.plan(ctx, controller)
	if err != nil {
		return err
	}
	if !s.asJSON {
		if err := s.planTable(plan); err != nil {
			return err
		}
	}
	if err := s.confirm(ctx, plan); err != nil {
		return err
	}
	if err := s.pullImages(ctx, cache, plan); err != nil {
		return err
	}
	summary, err := carryOut(ctx, controller, services, plan)
	return s.conclude(summary, err)
}

// answerStatus lets `provision status` see this run while it lasts. A run goes
// on without it: a folder's name can be too long for a socket.
func (s *session) answerStatus(ctx context.Context, state *store.Store) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := serveLive(ctx, s.config.liveSocket(), state); err != nil {
			s.log.Warn("`provision status` cannot see this run", "error", err)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// carryOut runs the boot services for as long as the run takes. When one of
// them dies the run stops: nothing would answer the machines it starts.
func carryOut(ctx context.Context, c *provisioner.Controller, services *pxe.Services, plan provisioner.Plan) (provisioner.Summary, error) {
	group, running := errgroup.WithContext(ctx)
	serving, stopServing := context.WithCancel(running)
	defer stopServing()
	var summary provisioner.Summary
	group.Go(func() error { return services.Run(serving) })
	group.Go(func() error {
		defer stopServing()
		var err error
		summary, err = c.Run(running, plan)
		return err
	})
	err := group.Wait()
	if err == nil {
		err = ctx.Err()
	}
	return summary, err
}

// confirm asks the person whether the machines may be power cycled.
func (s *session) confirm(ctx context.Context, plan provisioner.Plan) error {
	var names []string
	for _, n := range plan.Nodes {
		if n.Action != provisioner.ActionInstall {
			continue
		}
		name := n.Node
		if s.wiped[n.Cluster+"/"+n.Node] {
			name += " (WIPED)"
		}
		names = append(names, name)
	}
	if len(names) == 0 || s.flags.yes {
		return nil
	}
	if !s.terminal {
		return &statusError{exitRefused, fmt.Sprintf("%d machines would be power cycled and nobody is here to ask: give --yes", len(names))}
	}
	say(s.errOut, "\nThese %d machines will be POWER CYCLED and booted from the network:\n  %s\nGo on? Type yes: ", len(names), strings.Join(names, ", "))
	return s.askYes(ctx)
}

// tell prints an event: a line of JSON for machines, a short line for people.
func (s *session) tell(e store.Event) {
	if s.asJSON {
		line, err := json.Marshal(e)
		if err == nil {
			say(s.out, "%s\n", line)
		}
		return
	}
	text := e.Message
	if e.Error != "" {
		text += ": " + e.Error
	}
	say(s.out, "%s  %-16s %-12s %s\n", e.Time.Local().Format(time.TimeOnly), e.Node, e.State, text)
}

// conclude tells how the run ended and gives the exit status.
func (s *session) conclude(summary provisioner.Summary, err error) error {
	if !s.asJSON {
		s.printSummary(summary)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &statusError{exitInterrupted, "interrupted: run the same command again to go on where it stopped"}
	case err != nil:
		return &statusError{exitFailed, err.Error()}
	case len(summary.Failed) > 0:
		return &statusError{status: exitFailed}
	case len(summary.Held) > 0:
		return &statusError{status: exitRefused}
	}
	return nil
}

func (s *session) printSummary(summary provisioner.Summary) {
	say(s.out, "\n%d done, %d failed, %d held, %d skipped", len(summary.Done), len(summary.Failed), len(summary.Held), len(summary.Skipped))
	if n := len(summary.Unfinished); n > 0 {
		say(s.out, ", %d not finished", n)
	}
	say(s.out, "\n")
	for _, n := range append(summary.Failed, summary.Held...) {
		say(s.out, "\n%s %s: %s\n  -> %s\n", n.Name, strings.ToLower(n.State), n.Error, n.Hint)
	}
	for _, n := range summary.Skipped {
		say(s.out, "\n%s skipped: %s\n", n.Node, n.Reason)
	}
}
