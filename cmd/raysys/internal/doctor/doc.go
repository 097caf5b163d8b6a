// Package doctor looks for what keeps a cluster from working, in the order in which one thing needs another, and says
// for each what to do.
//
// A Doctor has what the checks look at; a Finding is what one of them saw.
//
//	consul ──► acl ──► connections ──► clock          limits, certificates (need nothing)
//	   ├─────► cluster ──► ports, both ways ──► version
//	   └─────► nats (needs nothing where RAYSYS_NATS is set)
//
// A check whose ground did not hold is skipped: one cause gives one failure, not seven.
//
//	findings := d.Examine(ctx)
//	err := doctor.Table(os.Stdout, findings)
//
// It changes nothing but a key of its own, which it takes away again.
package doctor
