package consul

import "fmt"

// Policy returns the least that a node's ACL token must allow, in Consul's language: its keys, the catalog nodes of its
// sessions, the sessions, and its entry in the catalog. service is Service.Name, raysys-CLUSTER.
func Policy(prefix, service string) string {
	return fmt.Sprintf(`key_prefix %q {
  policy = "write"
}
node_prefix %q {
  policy = "write"
}
session_prefix %q {
  policy = "write"
}
service %q {
  policy = "write"
}
`, escape(prefix), service+"-", service+"-", service)
}
