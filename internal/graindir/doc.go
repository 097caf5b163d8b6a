// Package graindir says what the grains of a node ask of a cluster: where a grain is, and what is stored of it. It is a vocabulary: the
// grain engine asks in it, and registry, objects and system answer, so that these need not know the engine.
//
//	grainengine ──► Cluster     where is it?            registry, the peers; system joins them
//	            ──► States      read, write, commit     registry, in shards
//	            ──► Retainer    references in a State   objects
//
// The nouns:
//
//   - An [ID] names a grain. A [Token] names one placement of it, which is of one [Place]; [Placed] is its record.
//   - [Wanted] is what the grain asks of the node that it is placed on.
//   - A [Record] is what is stored of one State; its [ETag] names the version.
//   - A [Commit] is what turns of a durable grain changed, with the replies to their calls. The [Counter] names the last.
//
// A Token and an ETag are of one shape and two types: where one is taken for the other, an old activation could write (rule C19).
package graindir
