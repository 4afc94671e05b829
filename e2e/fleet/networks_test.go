package fleet

import "net/netip"

// Every test has a network of its own: fleets on one would meet.
func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func secondNetwork() netip.Prefix { return prefix("127.42.0.0/16") }
