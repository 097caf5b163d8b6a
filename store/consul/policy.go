package consul

import "fmt"

// Policy returns the least that a node's ACL token must allow, in Consul's language: its keys, sessions on the agent it
// talks to, and its entry in the catalog. service is Service.Name.
func Policy(prefix, service string) string {
	return fmt.Sprintf(`key_prefix %q {
  policy = "write"
}
session_prefix "" {
  policy = "write"
}
service %q {
  policy = "write"
}
`, prefix, service)
}
