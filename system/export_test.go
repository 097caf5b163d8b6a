package system

// References returns how many futures of n other nodes hold, and how many of other nodes n holds.
func References(n *Node) (exports, imports int) {
	c := n.others
	if c == nil {
		return 0, 0
	}
	return c.exports.size(), c.imports.size()
}

// Members returns how many nodes n believes to be in its cluster.
func Members(n *Node) int { return len(n.others.member.View().Nodes()) }

// Connected returns how many nodes n is connected to.
func Connected(n *Node) int { return len(n.others.connected()) }
