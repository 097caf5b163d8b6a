package member

import "fmt"

// VoteText is who was voted out, and why.
func VoteText(value []byte) string {
	v := decodeVote(value)
	return fmt.Sprintf("%s: %s", v.Node, v.Why)
}
