#!/usr/bin/env bash
# github.com/netresearch/go-cron 0.9.1: lines with odd parts that its parser takes, and what robfig/cron 3.0.1 makes of them, from
# which it comes.
#
# Guess: both refuse an empty part of a list, a range that runs backwards, a star with a range, and a sign.
# Seen:  both pass over an empty part and take a sign. Of "*-5" both take the star alone. A range that runs backwards wraps around in go-cron
#        ("58-2" is the minutes 58, 59, 0, 1 and 2) and is an error in robfig/cron.
#
# raysys refuses empty parts, "*-5" and signs, and lets ranges wrap: schedule/cron.go.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'END'
module finding

go 1.25

require (
	github.com/netresearch/go-cron v0.9.1
	github.com/robfig/cron/v3 v3.0.1
)
END
cat >main.go <<'END'
package main

import (
	"fmt"
	"time"

	"github.com/netresearch/go-cron"
	robfig "github.com/robfig/cron/v3"
)

func main() {
	for _, line := range []string{"1,,2 * * * *", "58-2 * * * *", "*-5 * * * *", "+7 * * * *"} {
		a, errA := cron.ParseStandard(line)
		b, errB := robfig.ParseStandard(line)
		fmt.Println(line, "| go-cron:", times(a, errA), "| robfig:", times(b, errB))
	}
}

func times(s interface{ Next(time.Time) time.Time }, err error) string {
	if err != nil {
		return "error"
	}
	at, text := time.Date(2026, 6, 1, 0, 0, 30, 0, time.UTC), ""
	for range 4 {
		at = s.Next(at)
		text += at.Format(" 15:04")
	}
	return text[1:]
}
END
cat >want <<'END'
1,,2 * * * * | go-cron: 00:01 00:02 01:01 01:02 | robfig: 00:01 00:02 01:01 01:02
58-2 * * * * | go-cron: 00:01 00:02 00:58 00:59 | robfig: error
*-5 * * * * | go-cron: 00:01 00:02 00:03 00:04 | robfig: 00:01 00:02 00:03 00:04
+7 * * * * | go-cron: 00:07 01:07 02:07 03:07 | robfig: 00:07 01:07 02:07 03:07
END
GOWORK=off GOFLAGS=-mod=mod go run . 2>got.err >got || { cat got.err; exit 1; }
diff want got
cat got
