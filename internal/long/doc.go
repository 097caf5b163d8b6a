// Package long gives tests two sizes: a short form, which every run of the tests has, and a long form behind the flag
// -long, whose figures docs/reliability.md quotes.
//
//	rounds := long.Form(12, 200)
//
//	make test         the short forms
//	make test-long    the long forms of the packages that import this one, and of those that draw with rapid
//
// What a test draws at random is the same in each short form: [Seed] and [Seeds] say from which seeds. No short form has a
// limit at the worst time that was once seen: a limit there follows from the protocol, or is so wide that only a hang
// exceeds it. Tighter limits belong into the long form, which has the machine to itself.
package long
