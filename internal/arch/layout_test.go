package arch_test

import "slices"

// layer says all that a package may import. The first layer whose pkg matches decides; a package without a layer is
// itself an offence, so that a new folder comes with a line here.
//
// Paths are relative to the module; "." is the root package, "x/..." is x and everything below it. Three words stand
// for what lies outside: std (the standard library, without cgo), third (any other module, and cgo) and any; a module
// can also be named by its whole path.
type layer struct {
	pkg string
	may []string
	why string
}

// fence says where a dependency may be imported, whatever the layers allow.
type fence struct {
	dependency string
	only       []string
	why        string
}

// leaves are shared by the siblings, which import no other internal package. They know none of each other, but for wire, which is made of the codec.
var leaves = []string{"internal/backoff/...", "internal/forwarding/...", "internal/core/...", "internal/codec/...", "internal/wheel/...", "internal/queue/...", "internal/goroutines/...", "internal/crc32c/...", "internal/wire/...", "internal/ledger/...", "internal/inherited/...", "internal/ordered/...", "internal/ownfiles/..."}

var layers = []layer{
	{"internal/core/...", words("std"), "futures and turns: everything is made of them, so they know nothing else"},
	{".", words("std internal/core"), "the vocabulary: whoever imports it, gets nothing else with it"},

	{"tools/internal/figures", words("std"), "what the tools that measure in turns share"},
	{"tools/internal/countload", words("std tools/internal/figures"), "it loads and compares systems of others: what they are is nothing to it"},
	{"tools/benchdurable", words("std third . internal/childserver internal/consulserver grains system tools/internal/countload tools/internal/figures"), "a tool of the developers: it measures what a user can write, beside programs of others"},
	{"tools/benchbuild", words("std"), "a tool of the developers: it generates programs, and builds them"},
	{"tools/benchold", words("std tools/internal/figures"), "a tool of the developers: it builds binaries of two commits, and has them measure"},
	{"tools/benchnats", words("std third . internal/consulserver internal/natsserver grains stream system tools/internal/figures"), "a tool of the developers: it measures what a user can write, beside nats.go as it comes"},
	{"tools/benchmpi", words("std . internal/consulserver grains/collective system tasks tools/internal/figures"), "a tool of the developers: it measures what a user can write, beside programs of others"},
	{"tools/browser", words("std github.com/chromedp/... . grains inspect store/embedded system tasks"), "a tool of the developers: it looks at what a user can write in a browser"},
	{"tools/door", words("std github.com/getkin/kin-openapi/... . door grains/... system tasks/..."), "a tool of the developers: it reads the document of a door as a program of others does"},
	{"tools/deploy", words("std"), "a tool of the developers: its tests read the files of deploy as systemd, Prometheus and Kubernetes do"},
	{"tools/benchreverb", words("std . internal/consulserver grains/replay system tools/internal/figures"), "a tool of the developers: it measures what a user can write, beside Reverb as it comes"},
	{"tools/benchrl", words("std rl/... tools/internal/figures"), "a tool of the developers: it measures what a user can write, beside programs of others"},
	{"tools/testenvs", words("std . grains grains/process system tools/internal/figures"), "a tool of the developers: it steps environments as a user does, beside Python alone"},
	{"tools/benchproto", words("std third . internal/consulserver grains system/... tools/internal/figures"), "a tool of the developers: it measures what a user can write, beside proto.Actor as it comes"},

	{"internal/codec/...", words("std third . internal/core/... internal/codec/..."), "a leaf: all siblings share it, so it may know none of them"},
	{"internal/backoff/...", words("std internal/backoff/..."), "a leaf: pauses between attempts; at what, is nothing to it"},
	{"internal/balance/...", words("std internal/balance/..."), "a leaf: it knows numbers alone"},
	{"internal/items/...", words("std . internal/codec internal/items/..."), "a leaf: items as bytes; what carries them is nothing to it"},
	{"internal/wheel/...", words("std third . internal/core/... internal/wheel/..."), "a leaf: all siblings share it, so it may know none of them"},
	{"internal/queue/...", words("std third . internal/core/... internal/queue/..."), "a leaf: all siblings share it, so it may know none of them"},
	{"internal/goroutines/...", words("std third . internal/core/... internal/goroutines/..."), "a leaf: all siblings share it, so it may know none of them"},
	{"internal/forwarding/...", words("std internal/forwarding/..."), "a leaf: the task engine and the simulator decide by it, each with what it knows"},
	{"internal/crc32c/...", words("std third internal/crc32c/..."), "a leaf: all siblings share it, so it may know none of them"},
	{"internal/printable/...", words("std internal/printable/..."), "a leaf: text for terminals; whose it is, is nothing to it"},
	{"internal/ownfiles/...", words("std third internal/ownfiles/..."), "a leaf: files in folders that others share; what is in them is nothing to it"},
	{"internal/ordered/...", words("std internal/ordered/..."), "a leaf: a set in order"},
	{"internal/ledger/...", words("std third . internal/core/... internal/ledger/..."), "a leaf: all siblings share it, so it may know none of them"},

	{"internal/wire/...", words("std third . internal/core/... internal/codec/... internal/wire/..."), "a leaf above the codec: tasks and grains share it, so it may know neither"},

	{"internal/graindir/...", words("std . internal/core internal/wire internal/graindir/..."), "a leaf: what grains ask of a cluster; the engine asks, registry and objects answer, and neither need know the other"},
	{"internal/replies/...", words("std . internal/core internal/wire internal/graindir internal/replies/..."), "a leaf: a book of outcomes; the engine locks it and commits what changes, the registry asks whose a record is"},
	{"internal/entries/...", words("std . internal/core internal/codec internal/wire internal/graindir internal/staterecord internal/entries/..."), "a leaf: entries of maps as bytes, with what a turn has changed; the engine commits that, and the commands count them"},
	{"internal/outbox/...", words("std . internal/core internal/goroutines internal/wire internal/graindir internal/outbox/..."), "a leaf: what is to arrive, and when it is sent again; the engine stores and delivers it"},
	{"internal/staterecord/...", words("std . internal/core internal/codec internal/wire internal/graindir internal/staterecord/..."), "a leaf: a State as bytes; the engine writes and reads it, the registry asks what it retains"},

	{"internal/grainengine/...", sibling("internal/grainengine", "internal/detour", "internal/entries", "internal/graindir", "internal/outbox", "internal/replies", "internal/staterecord", "internal/tally"), "siblings are blind to each other: system joins them"},
	{"internal/taskwire/...", words("std internal/core internal/ledger internal/wire internal/taskwire/..."), "a leaf: frames of tasks as bytes; what is sent, and when, is the engine's"},
	{"internal/loadreport/...", words("std internal/core internal/ledger internal/wire internal/loadreport/..."), "a leaf: how busy a node is, as values and bytes; the engine says it, and system believes it"},

	{"internal/tally/...", words("std internal/core internal/tally/..."), "a leaf: numbers of runs and texts of failures; the engines count, and what shows them asks"},

	{"internal/detour/...", words("std . internal/core internal/detour/..."), "a leaf: what work passes before its function; which work that is the engines know"},

	{"internal/timeline/...", words("std internal/core internal/timeline/..."), "a leaf: it writes what it is given; who records that is nothing to it"},

	{"internal/runqueue/...", words("std internal/core internal/queue internal/ledger internal/runqueue/..."), "a leaf: which task is next; who runs it is nothing to it"},

	{"internal/taskengine/...", sibling("internal/taskengine", "internal/detour", "internal/jsonfit", "internal/runqueue", "internal/taskwire", "internal/loadreport", "internal/tally"), "siblings are blind to each other: system joins them"},
	{"grains/process/...", words("std . grains system internal/core internal/subprocess grains/process/..."), "it is a user of grains; of the node it has the log"},
	{"grains/replay/...", words("std . grains system internal/core internal/codec internal/items grains/replay/..."), "it is a user of grains; it keeps steps as bytes of the codec"},
	{"grains/feed/...", words("std . grains internal/items grains/feed/..."), "it is a user of grains"},
	{"grains/queue/...", words("std . grains system internal/core internal/items internal/tally grains/queue/..."), "it is a user of grains; of the node it has the log, and its end is no failure to the counters"},
	{"grains/limit/...", words("std . grains grains/internal/promise internal/core internal/tally grains/limit/..."), "it is a user of grains; a limit that is reached is no failure to the counters"},
	{"grains/internal/gather", words("std . internal/core internal/graindir internal/grainengine internal/wire"), "it gathers calls before the engine has them; an error of one of them travels as the errors of calls do"},
	{"grains/...", words("std . internal/backoff internal/core internal/entries internal/grainengine internal/graindir grains/..."), "what a program reads of grains: the work is its engine's"},
	{"tasks/generator/...", words("std . grains internal/core internal/items tasks tasks/generator/..."), "it is a user of tasks and grains; of core it waits for futures of several types"},
	{"tasks/...", words("std . internal/core internal/taskengine tasks/..."), "what a program reads of tasks: the work is its engine's"},
	{"groups/...", words("std . internal/core internal/groupengine placement groups/..."), "what a program reads of placement groups: the work is their engine's"},
	{"internal/groupengine/...", words("std . internal/core internal/wire/... internal/ledger/... internal/runner/... store internal/shardlog placement internal/groupengine/..."), "a record, what its leader does with it, and what a node does: registry and system join them to shards and links"},
	{"store/...", sibling("store"), "siblings are blind to each other: the store returns ErrObjectLost, system re-runs the task"},
	{"placement/...", sibling("placement"), "siblings are blind to each other: system hands placement a plain View"},

	{"progress/...", words("std . internal/nodelog progress/..."), "a live line, and what clears it: rl shows one, and the node's logger writes beside it"},

	{"inspect/...", words("std . placement inspect/..."), "the types of what a cluster says of itself: data, which a node fills"},

	{"internal/childserver/...", words("std internal/subprocess internal/childserver/..."), "a leaf: how a server is built, found and signalled; what it serves is nothing to it"},
	{"internal/inherited/...", words("std internal/inherited/..."), "a leaf: pipes of the process, and nothing of what is said there"},
	{"internal/pipe/...", words("std internal/pipe/..."), "a leaf: bytes from one goroutine to another"},
	{"internal/link/...", words("std third . internal/backoff internal/pipe/... internal/wire/... internal/link/..."), "it carries frames: it knows their classes and kinds, and neither members nor what a frame says"},
	{"internal/linktest/...", words("std third . internal/pipe/... internal/wire/... internal/link/... internal/linktest/..."), "a transport for tests: what it carries is nothing to it"},
	{"internal/member/...", words("std third . store/... internal/backoff internal/shardlog internal/member/..."), "it knows who is alive from the store and the clock, and sends nothing"},
	{"internal/hostmemory/...", words("std internal/hostmemory/..."), "a leaf: what the system says of memory; what is done for want of it is nothing to it"},
	{"internal/pressure/...", words("std third . internal/hostmemory internal/loadreport internal/pressure/..."), "it decides when grains go; the engine that has them it is given as functions"},
	{"internal/objectstore/...", words("std third . internal/crc32c/... internal/hostmemory internal/ownfiles internal/objectstore/..."), "a leaf: the store moves bytes, and knows neither nodes nor links"},
	{"internal/transfer/...", words("std third . internal/core/... internal/wire/... internal/objectstore/... internal/transfer/..."), "it moves objects between stores; it sends frames through an interface, and knows neither links nor members"},

	{"internal/shardlog/...", words("std third . store internal/backoff internal/ordered internal/crc32c/... internal/shardlog/..."), "tables over a store: what their records say is nothing to it"},
	{"internal/runner/...", words("std . internal/backoff internal/core internal/runner/..."), "a leaf: what runs in it is nothing to it"},
	{"internal/mesh/...", words("std third . internal/backoff internal/core internal/wire/... internal/link/... internal/member/... internal/runner/... internal/mesh/..."), "nodes ask each other: what about is nothing to it"},
	{"internal/refs/...", words("std . internal/core internal/codec internal/wire/... internal/mesh/... internal/runner/... internal/refs/..."), "references know nodes and futures; of objects they know three methods, and of the directory nothing"},
	{"internal/due/...", words("std . internal/core internal/wire/... internal/due/..."), "a leaf: what is due is nothing to it, and where it lies neither"},
	{"internal/registry/...", words("std third . internal/core internal/due internal/wire/... internal/mesh/... internal/runner/... internal/graindir internal/replies internal/staterecord internal/groupengine store internal/shardlog placement internal/registry/..."), "records lie in shards and are placed; of grains it knows how they are named, of nodes the connections, and of objects their records"},
	{"internal/objects/...", words("std third . internal/backoff internal/core internal/codec internal/wire internal/link internal/member internal/runner internal/mesh internal/objectstore internal/transfer internal/refs internal/registry internal/graindir store internal/shardlog internal/objects/..."), "objects know references, records and nodes, and of grains the names of their States; how a node is assembled is nothing to them"},
	{"internal/lineage/...", words("std . internal/core internal/codec internal/wire internal/runner internal/refs internal/registry internal/taskengine internal/lineage/..."), "it joins recipes, references and records, which know nothing of each other"},

	{"internal/nodelog/...", words("std third . internal/printable internal/nodelog/..."), "a logger, and what a node writes with it; what happened is nothing to it"},

	{"internal/worklog/...", words("std . inspect internal/core internal/nodelog internal/ownfiles internal/printable internal/worklog/..."), "it carries lines; how a node asks another is nothing to it"},
	{"internal/metrics/...", words("std third internal/tally internal/metrics/..."), "it shows a sample; who makes that, and how a node is assembled, is nothing to it"},
	{"internal/nodedevices/...", words("std third . internal/ledger internal/member placement placement/devices internal/nodedevices/..."), "it knows devices by what a program gives, and by their source; what holds them is nothing to it"},
	{"internal/operate/...", words("std third . inspect internal/core internal/due internal/entries internal/graindir internal/wire internal/listed internal/link internal/member internal/runner internal/mesh internal/objects internal/objectstore internal/refs internal/registry internal/lineage internal/taskengine internal/grainengine internal/groupengine internal/staterecord internal/tally internal/timeline internal/metrics internal/node internal/worklog internal/hostmemory internal/pressure placement/... internal/operate/..."), "it reads what all below it know, for operators; how a node is assembled is nothing to it"},
	{"internal/thishost/...", words("std internal/thishost/..."), "a leaf: where a request over HTTP comes from; what it asks for is nothing to it"},
	{"internal/jsonfit/...", words("std internal/jsonfit/..."), "a leaf: where a text does not fit a type; whose type it is, is nothing to it"},
	{"internal/page/...", words("std . inspect internal/metrics internal/operate internal/thishost internal/page/..."), "it shows what it is given to browsers and commands; what asks nodes, and how a node is assembled, is nothing to it"},
	{"internal/placing/...", words("std . internal/core internal/forwarding internal/wire internal/wheel internal/goroutines internal/ledger internal/loadreport internal/graindir internal/member internal/runner internal/mesh internal/refs internal/registry internal/nodedevices internal/taskengine internal/grainengine internal/groupengine placement internal/placing/..."), "it joins what placement decides by to who asks: engines, leaders and groups; how a node is assembled is nothing to it"},
	{"internal/remote/...", words("std third . internal/core internal/codec internal/wire internal/mesh internal/refs internal/remote/..."), "PIDs of other nodes: what an actor is, and which nodes there are, is nothing to it"},
	{"internal/tlsfiles/...", words("std third internal/link internal/tlsfiles/..."), "it looks at files: what a node writes to its record, and which sessions end, it is given"},
	{"internal/node/...", words("std third . inspect internal/backoff internal/core internal/due internal/wire internal/wheel internal/goroutines internal/graindir internal/standins internal/link internal/tlsfiles internal/member internal/runner internal/mesh internal/remote internal/transfer internal/objects internal/refs internal/registry internal/lineage internal/nodedevices internal/taskengine internal/grainengine internal/placing internal/balance internal/waitcycles store store/consul store/embedded internal/shardlog placement internal/node/..."), "it joins the parts of a node to its cluster: how they are made, and what operators ask, is nothing to it"},
	{"internal/waitcycles/...", words("std . internal/core internal/wire internal/mesh internal/refs internal/runner internal/waitcycles/..."), "it asks nodes what work waits for; of the engines it declares the three methods that it needs"},
	{"system/protoactor/...", words("std third . system grains internal/grainengine internal/codec"), "it is a user of the node: what it needs beside that are the codec, and the options of a kind"},
	{"system/traces", words("std third . internal/core system"), "it is a user of the node: what it needs beside that is where work runs"},
	{"system/...", words("std third . internal/... grains/... tasks/... store/... placement/... inspect progress system/..."), "system knows everybody below it and nobody who uses it"},
	{"internal/...", words("std third . internal/... grains/... tasks/... store/... placement/... inspect system/..."), "internal packages serve the module and not its users: testkit, cmd and examples"},

	{"stream/...", words("std third . grains inspect system internal/backoff internal/core internal/codec internal/grainengine internal/listed internal/natskey stream/..."), "it is a user of grains and of the node; of the engine it asks whether a turn is a transaction, whose messages it delivers; it reads the URLs that the node reads"},

	{"schedule/...", words("std third . grains tasks inspect system internal/core internal/due internal/graindir internal/grainengine internal/taskengine schedule/..."), "it is a user of grains, tasks and the node; it makes calls and tasks of bytes, which the engines do, delivers messages of turns, and of the registry it knows the records of what is due"},

	{"door/internal/front", words("std"), "a leaf: what other protocols ask of a door; how that answers is its own"},
	{"door/mcp/...", words("std github.com/modelcontextprotocol/go-sdk/... door door/internal/front system"), "another protocol for a door: calls, callers and bounds are the door's"},
	{"door/...", words("std github.com/google/jsonschema-go/... . grains/... tasks/... system internal/codec internal/core internal/graindir internal/grainengine internal/jsonfit internal/metrics internal/taskengine internal/thishost door/..."), "it is a user of grains, tasks and the node; it makes calls and tasks of values whose types it learns from handles, which the engines do"},

	{"rl/net/...", words("std gonum.org/v1/gonum/... rl/net/..."), "numbers alone: who wants a small net gets nothing of the runtime with it"},
	{"rl/internal/descent", words("std rl/net"), "numbers alone, as rl/net: what two agents do with the parameters of a net"},
	{"rl/internal/plot", words("std"), "it draws numbers with labels: what a run is, rl says"},
	{"rl/internal/events", words("std"), "it writes numbers as TensorBoard reads them: what they are of, rl says"},
	{"rl/...", words("std gonum.org/v1/gonum/... . grains/... tasks/... groups/... store/... placement/... inspect system/... progress stream rl/..."), "it is a program on raysys, which its users could have written: the public surface only"},

	{"testkit/...", words("std third . internal/... grains/... tasks/... store/... placement/... inspect system/... testkit/..."), "the testkit assembles a system, and users' tests import it without a command or an example"},
	{"docs/...", words("std third . door door/mcp grains/... tasks/... groups/... store/... placement/... inspect system/... testkit/... schedule stream progress rl/... docs/..."), "the guide shows what a user can write"},
	{"examples/...", words("std third . door door/mcp grains/... tasks/... store/... placement/... inspect system/... testkit/... schedule stream progress rl/... examples/..."), "an example shows what a user can write: the public surface only"},
	{"cmd/...", words("any"), "a command assembles everything"},
}

var fences = []fence{
	{"github.com/asynkron/protoactor-go/...", words("internal/grainengine/... internal/taskengine/... internal/registry/... internal/remote/... internal/node/... internal/actortest system/... docs/... tools/benchproto/..."), "actors stay behind raysys' own API"},
	{"github.com/hashicorp/consul/api/...", words("store/consul/... system/..."), "the store is an interface; system registers in the catalog"},
	{"github.com/nats-io/...", words("stream/... tools/benchnats/..."), "NATS carries events and what is foreign, never a Go-to-Go call; who does not import stream does not link it"},
	{"github.com/NVIDIA/go-nvml/...", words("placement/nvml/..."), "it needs cgo and a driver; elsewhere a stub stands in"},
	{"github.com/netresearch/go-cron/...", words("schedule/..."), "lines of cron are read in one place; who does not import schedule does not link it"},
	{"github.com/prometheus/...", words("internal/metrics/..."), "numbers are shown in one place, at a scrape; who counts knows nothing of Prometheus. protoactor-go brings its client into every binary anyhow"},
	{"github.com/dbos-inc/...", words("tools/benchdurable"), "a peer is measured by a tool in a module of its own, so that no user of raysys gets its library"},
	{"github.com/restatedev/...", words("tools/benchdurable"), "a peer is measured by a tool in a module of its own, so that no user of raysys gets its library"},
	{"github.com/google/jsonschema-go/...", words("door"), "schemas of Go types are made in one place, for the document of a door; who does not import door does not link it. MCP's SDK has the same"},
	{"go.opentelemetry.io/...", words("system/traces docs/..."), "spans are made in one place; protoactor-go brings the library into every binary anyhow, at this version"},
	{"github.com/modelcontextprotocol/...", words("door/mcp/... tools/door"), "a protocol of agents is spoken in one place; who does not import door/mcp does not link its library"},
	{"github.com/getkin/kin-openapi/...", words("tools/door"), "a document is read as others read it by a test in a module of its own, so that no user of raysys gets that"},
	{"github.com/chromedp/...", words("tools/browser"), "a browser is driven by a test in a module of its own, so that no user of raysys gets that"},
	{module + "/placement/nvml/...", words("placement/nvml/... cmd/... examples/..."), "a program decides whether it has cgo and a driver's library in it: nothing that every program imports decides for it"},
	{"github.com/ebitengine/purego/...", words("examples/gpu/..."), "a program calls its GPU; raysys hands out devices. The example is a module of its own, so that no user of raysys gets it"},
	{"github.com/spf13/cobra/...", words("cmd/..."), "a library has no flags"},
	{"github.com/spf13/pflag/...", words("cmd/..."), "a library has no flags"},
	{module + "/testkit/...", words("testkit/... examples/... cmd/raysys-lab/..."), "the command that runs nodes has no tests in it: it is small, and soon built"},
	{module + "/internal/linktest/...", words("internal/linktest/... testkit/..."), "it is for tests: a node in production listens at a socket"},
	{"go.uber.org/zap/...", words("system/... cmd/... internal/mesh/... internal/objects/... internal/nodelog/... internal/nodedevices/... internal/operate/... internal/node/... internal/remote/... internal/tlsfiles/..."), "logging is handed in where a node is assembled"},
}

// sibling is what a sibling may import: itself, the leaves of all, and leaves that are its own.
func sibling(name string, own ...string) []string {
	return slices.Concat(words("std third . "+name+"/..."), leaves, own)
}
