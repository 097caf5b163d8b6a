package api_test

// exceptions is a list that may only get shorter: an exception that nothing needs any more fails the test.
var exceptions = []exception{
	{". TaskID", "an opaque name, which core makes"},
	{". JobID", "an opaque name, which core makes"},
	{". NodeID", "an opaque name, which core makes"},
	{". Table", "opaque to programs, which hand it on"},
	{". ObjectSize", "a number"},
	{"system Config.Inspect", "for testkit: strict mode"},
	{"system ClusterConfig.*", "for testkit: network, clock and faults become one field of an internal type"},
	{"testkit Cluster.Network", "a user of testkit asks the network for faults, which need methods of testkit"},
}
