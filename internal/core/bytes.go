package core

import "fmt"

// Bytes shows a number of bytes in the largest unit that leaves a figure before the point, to four digits: "4 GiB".
func Bytes(n int64) string {
	f, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if f < 1<<10 {
			break
		}
		f, unit = f/(1<<10), next
	}
	return fmt.Sprintf("%.4g %s", f, unit)
}
