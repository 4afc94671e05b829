package inventory

import "strings"

// passwordFields are the ways to a BMC's password.
var passwordFields = []string{"bmc.passwordEnv", "bmc.passwordFile", "bmc.passwordCommand"}

// passwordWays are those of them that the node has.
func (n Node) passwordWays() []string {
	var ways []string
	for i, given := range []bool{n.BMC.PasswordEnv != "", n.BMC.PasswordFile != "", len(n.BMC.PasswordCommand) > 0} {
		if given {
			ways = append(ways, passwordFields[i])
		}
	}
	return ways
}

// passwordOnce: which of two passwords is meant cannot be guessed, and a wrong
// one locks the account.
func passwordOnce(n Node) Findings {
	ways := n.passwordWays()
	if len(ways) < 2 {
		return nil
	}
	key := strings.TrimPrefix(ways[0], "bmc.")
	return n.report(RuleTwoPasswords, ways[1], "unset one, for example with \""+key+": null\"",
		"%s has both %s (%s) and %s", n.Name, ways[0], n.Origin(ways[0]), ways[1])
}

func bmcComplete(n Node) Findings {
	if n.BMC.Address == "" || len(n.passwordWays()) > 0 {
		return nil
	}
	return n.report(RuleNoPassword, "bmc.address", "give "+waysToPassword, "%s has a BMC, but no way to its password", n.Name)
}
