package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Seen is what a controller says of one node.
type Seen struct {
	// State is the state of the node's life, Cause the class of the failure of one that is Failed or Held.
	State string
	Cause string
}

// ReadStatus reads what `provision status -o json` prints, by cluster/node.
func ReadStatus(from io.Reader) (map[string]Seen, error) {
	var rows []struct{ Cluster, Node, State, Message string }
	if err := json.NewDecoder(from).Decode(&rows); err != nil {
		return nil, fmt.Errorf("read the status of the nodes, which is the output of `provision status -o json`: %w", err)
	}
	seen := make(map[string]Seen, len(rows))
	for _, row := range rows {
		one := Seen{State: row.State}
		if row.State == stateFailed || row.State == stateHeld {
			one.Cause = row.Message
		}
		seen[row.Cluster+"/"+row.Node] = one
	}
	return seen, nil
}

// Rule is a rule that a controller can break.
type Rule string

// The rules. The first four hold at any moment, the others at the end of a run.
const (
	RuleOutside   Rule = "outside the plan" // never powered, never served an install
	RuleConfirmed Rule = "confirmed"        // only what is up in maintenance and is the right machine
	RuleBudget    Rule = "power budget"     // no more power-ons than attempts
	RuleUntouched Rule = "untouched"        // not powered at all where that is not safe or of no use
	RuleGood      Rule = "good node"        // ends up where the run takes it
	RuleBad       Rule = "bad node"         // ends Failed or Held
	RuleCause     Rule = "cause"            // of a class that says what is wrong
	RuleSession   Rule = "session"          // none is left open on a BMC
)

// Violation is one rule that was broken for one machine.
type Violation struct {
	Node   string `json:"node"` // cluster/name
	Rule   Rule   `json:"rule"`
	Detail string `json:"detail"`
}

// String is the violation on one line.
func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Node, v.Rule, v.Detail) }

// Check is what a controller broke, at the end of its run: none when it did
// well. Plan names the nodes, as cluster/name, that the run was over; nil is every
// node that the inventory marks install: true.
func (o Oracle) Check(seen map[string]Seen, plan []string) []Violation {
	found, planned := o.Safety(seen, plan), planned(plan)
	for _, t := range o.Machines {
		if planned(t) {
			found = append(found, t.judgeEnd(seen[t.ID()])...)
		}
		open := 0
		for _, opened := range t.Sessions {
			if !opened.Before(o.Since) {
				open++
			}
		}
		if open > 0 {
			found = append(found, Violation{t.ID(), RuleSession, fmt.Sprintf("%d sessions are open on its BMC", open)})
		}
	}
	return found
}

// Safety is what a controller broke of the rules that hold at any moment, also
// in the middle of a run and after it was killed.
func (o Oracle) Safety(seen map[string]Seen, plan []string) []Violation {
	var found []Violation
	planned := planned(plan)
	for _, t := range o.Machines {
		one := seen[t.ID()]
		if !planned(t) {
			found = append(found, t.judgeOutside(one)...)
			continue
		}
		found = append(found, t.judgePower(o.Attempts)...)
		if one.State == stateMaintenance && t.Up != "maintenance" && t.Expected.State != stateReady {
			found = append(found, Violation{t.ID(), RuleConfirmed, "it is said to be up in maintenance, and its own system " + serves(t.Up)})
		}
		if one.State == stateReady && t.Up != "configured" {
			found = append(found, Violation{t.ID(), RuleConfirmed, "it is said to be ready, and its own system " + serves(t.Up)})
		}
	}
	return found
}

// planned tells whether a run over this plan was over a machine.
func planned(plan []string) func(Truth) bool {
	named := make(map[string]bool, len(plan))
	for _, id := range plan {
		named[id] = true
	}
	return func(t Truth) bool { return t.InPlan && (plan == nil || named[t.ID()]) }
}

func serves(up string) string {
	if up == "" {
		return "does not run"
	}
	return "is " + up
}

// judgeOutside: a machine that is nobody's business is left alone.
func (t Truth) judgeOutside(one Seen) []Violation {
	var found []Violation
	broken := func(format string, args ...any) {
		found = append(found, Violation{t.ID(), RuleOutside, fmt.Sprintf(format, args...)})
	}
	if t.PowerOns > 0 || t.PowerOffs > 0 {
		broken("its BMC switched it on %d and off %d times", t.PowerOns, t.PowerOffs)
	}
	if t.Scripts > 0 || t.Kernels > 0 || t.Configs > 0 {
		broken("it was served %d install scripts, %d kernels and %d machine configs", t.Scripts, t.Kernels, t.Configs)
	}
	if one.State == stateMaintenance || one.State == stateReady {
		broken("it is said to be %s", one.State)
	}
	return found
}

func (t Truth) judgePower(attempts int) []Violation {
	switch {
	case t.Expected.PowerOns == 0 && t.PowerOns+t.PowerOffs > 0:
		return []Violation{{t.ID(), RuleUntouched, fmt.Sprintf("with %v it must not be touched, and was switched on %d and off %d times", t.Faults, t.PowerOns, t.PowerOffs)}}
	case t.PowerOns > attempts:
		return []Violation{{t.ID(), RuleBudget, fmt.Sprintf("switched on %d times, with a budget of %d", t.PowerOns, attempts)}}
	}
	return nil
}

// judgeEnd compares how a node ended with how it had to.
func (t Truth) judgeEnd(one Seen) []Violation {
	rule := RuleBad
	if len(t.Expected.Causes) == 0 {
		rule = RuleGood
	}
	said := one.State
	if one.Cause != "" {
		said += " (" + one.Cause + ")"
	}
	switch {
	case one.State == "":
		return []Violation{{t.ID(), rule, "nothing is said of it, want " + t.Expected.State}}
	case rule == RuleGood && one.State != t.Expected.State:
		return []Violation{{t.ID(), rule, fmt.Sprintf("ended %s, want %s; faults %v", said, t.Expected.State, t.Faults)}}
	case rule == RuleBad && one.State != stateFailed && one.State != stateHeld:
		return []Violation{{t.ID(), rule, fmt.Sprintf("ended %s, want %s; faults %v", said, t.Expected.State, t.Faults)}}
	case rule == RuleBad && (one.State != t.Expected.State || !slices.Contains(t.Expected.Causes, one.Cause)):
		return []Violation{{t.ID(), RuleCause, fmt.Sprintf("ended %s, want %s with one of %q; faults %v", said, t.Expected.State, t.Expected.Causes, t.Faults)}}
	}
	return nil
}
