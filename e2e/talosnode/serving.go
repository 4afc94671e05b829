package talosnode

// Serving is what the node's open port serves now, seen from inside the node:
// "maintenance" or "configured", and "" while the port is closed.
func (n *Node) Serving() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running == nil {
		return ""
	}
	return n.running.mode.String()
}
