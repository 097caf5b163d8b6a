// Package limit bounds work by key, over all nodes of a cluster: how much of it is done at once, or how often it
// begins.
//
//	task ── Take: waits ──► gate "partner/shop-7": a grain ──► *Permit ── the work ── Release ──► who is next
//
// AtMost and Rate make a limit, a value. Take takes units of it for a key, whose gate is made by the first call.
//
//	var partner = limit.AtMost("partner", 4) // 4 requests at once to each shop
//
//	p, err := limit.Take(ctx, partner, shop, 1)
//	if err != nil {
//		return err
//	}
//	defer p.Release()
//	return fetch(p.Context(), shop)
//
// Rules for the user:
//
//  1. The calls bring their limit: two programs that give a name other numbers each keep to their own. A limit for
//     the whole cluster is one with a single key, such as "".
//  2. Of one tenant (For) the first that came is the first that gets its units, also where a later one would fit
//     beside. Tenants that wait get theirs in turn. Without For all are one tenant.
//  3. A permit ends with Release, and with the ctx of its Take: with the task, the grain's turn or the driver whose
//     context that is. Those of a node that dies come back 2 s after the others know of its death.
//  4. When the gate's node dies, drains or is cut off, a new gate hears from those that hold permits. It grants
//     nothing in its first 2 s, so that it hears from all. A holder that cannot reach it in that time, though its
//     node lives, is not counted, and its permit's Context ends when its calls are given up. So AtMost protects what
//     bears one too many in such a moment; what does not bear it asks for p.Context().Err() before it acts, and
//     checks again on the other side.
//  5. Rate lets n units begin at once, and then one after each n-th part of its time. After the death of
//     the gate's node the new gate begins without a burst, and after a drain as the old one was, by the nodes' clocks.
//  6. A grain has 1 State for each key while its gate is in use: until 15 minutes after the last permit. 100,000 may
//     hold or wait for units of a key. Beyond that Take fails with raysys.ErrOverloaded.
//
// In the code: Take and Permit (take.go) are the holder's side; gate (gate.go) is the grain; line (line.go) is who is
// next.
package limit
