package core

import (
	"fmt"
	"strings"
)

// maxListed bounds what Listed names.
const maxListed = 4

// Listed names the first of items, and says how many more there are: "a, b or c", "a, b, c, d and 5 more". or is before the last.
func Listed(items []string, or string) string {
	n := len(items)
	switch {
	case n > maxListed:
		return fmt.Sprintf("%s and %d more", strings.Join(items[:maxListed], ", "), n-maxListed)
	case n > 1:
		return strings.Join(items[:n-1], ", ") + or + items[n-1]
	}
	return strings.Join(items, "")
}
