// Package balance says which grains leave a node so that the nodes of a cluster have even shares of the work of grains.
//
//	loads of all nodes ── Gifts ──▶ how much this node gives to each ── Choose ──▶ which of its grains
//	numbers of standing grains ── Hand ──▶ how many of them it gives to each
//
// There is no coordinator: each node computes what it gives itself, from what all nodes report. From the same reports
// all nodes compute parts of one plan.
//
// Invariants, of a plan that is carried out:
//
//	a node below the mean    gets at most what it lacks
//	a node above the mean    keeps at least the mean
//	each single move         leaves the giver with no less than the receiver, for each CPU  ⇒  no grain comes back
//	a balanced cluster       moves nothing
package balance
