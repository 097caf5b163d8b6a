// Package long gives tests two sizes: a short form, which every run of the tests has, and a long form behind the flag
// -long, whose figures docs/reliability.md quotes.
//
//	rounds := long.Form(12, 200)
//
//	make test         the short forms
//	make test-long    the long forms of the packages that import this one
package long

import "flag"

var form = flag.Bool("long", false, "run the long forms of the tests")

// Form is the size of a test: the short one, or the full one with -long.
func Form[T any](short, full T) T {
	if *form {
		return full
	}
	return short
}
