#!/usr/bin/env bash
# github.com/netresearch/go-cron 0.9.1 (the fork of robfig/cron that is kept up): what Next makes of a fixed hour where a zone's clocks change.
#
# Guess: as in Vixie's cron. A skipped 02:30 fires once, at 03:00; one that comes twice fires once; a midnight that is skipped fires right after.
# Seen:  a skipped 02:30 is 03:30 (01:30 UTC). One that comes twice fires twice. Where midnight itself is skipped (Havana, March 8) that day has no
#        firing at all.
#
# raysys takes the library's parser alone, and computes the moments itself: schedule/cron.go.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'END'
module finding

go 1.25

require github.com/netresearch/go-cron v0.9.1
END
cat >main.go <<'END'
package main

import (
	"fmt"
	"time"

	"github.com/netresearch/go-cron"
)

func main() {
	show := func(line string, after time.Time, n int) {
		s, err := cron.ParseStandard(line)
		if err != nil {
			panic(err)
		}
		fmt.Print(line, ":")
		for range n {
			after = s.Next(after)
			fmt.Print(" ", after.Format("01-02 15:04 MST"), ",")
		}
		fmt.Println()
	}
	show("CRON_TZ=Europe/Berlin 30 2 * * *", time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC), 2)
	show("CRON_TZ=Europe/Berlin 30 2 * * *", time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC), 3)
	show("CRON_TZ=America/Havana 0 0 * * *", time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC), 2)
}
END
cat >want <<'END'
CRON_TZ=Europe/Berlin 30 2 * * *: 03-29 01:30 UTC, 03-30 00:30 UTC,
CRON_TZ=Europe/Berlin 30 2 * * *: 10-25 00:30 UTC, 10-25 01:30 UTC, 10-26 01:30 UTC,
CRON_TZ=America/Havana 0 0 * * *: 03-09 04:00 UTC, 03-10 04:00 UTC,
END
GOWORK=off GOFLAGS=-mod=mod go run . 2>got.err >got || { cat got.err; exit 1; }
diff want got
cat got
