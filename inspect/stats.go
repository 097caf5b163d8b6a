package inspect

// ObjectStats are the figures of a node's object store. Sizes are in bytes.
type ObjectStats struct {
	Objects   int
	Budget    int64
	Used      int64 // memory of all forms of the objects, and of warm segments
	Reserved  int64 // promised to callers who are about to use it
	Warm      int64 // memory of segments that wait for an object, part of Used
	Disk      int64 // of spill files, with those that are being written
	Spilled   uint64
	Restored  uint64
	Dropped   uint64 // copies that went to make room
	Lost      uint64 // spill files that were gone or damaged
	Received  uint64
	Incoming  int
	OnlyFiles int // objects with no form in memory

	SpilledBytes  int64 // of objects that were written to files
	ReceivedBytes int64 // of objects that came from elsewhere
}

// TransferStats counts the transfers of objects between a node and others: since the node's start, and now.
type TransferStats struct {
	Flights, Feeds, Streams int // now: objects on their way here, conversations about them, and those about objects that others receive

	Fetched uint64 // transfers begun
	Failed  uint64 // that ended in an error
	Mapped  uint64 // objects that were mapped instead

	ChunksIn, BytesIn   uint64 // received, verified and stored
	ChunksOut, BytesOut uint64 // handed to the link
	Corrupt             uint64 // chunks whose checksum was wrong

	Struck    uint64 // sources that gave no more
	Resumed   uint64 // conversations that went on after a link broke
	Stalled   uint64 // times that a source stood still
	Redirects uint64 // times that this node went where a source sent it
	Returned  uint64 // and came back from there
	SentOn    uint64 // receivers that this node sent to others
	Shared    uint64 // receivers of the same machine that map the segment
}
