package devices

// hardwareXids are the Xids after which NVIDIA's catalogue of them (docs.nvidia.com/deploy/xid-errors) has the GPU reset, its
// host restarted or the part looked at, before it computes again. What is not here is of a program (13, 31, 43, 45, 68, 69,
// 109), was contained and ended the program that it hit (94), or is a note (63, 154). Errors in memory are counted, too, and
// make a GPU sick by their count: see Sample.
var hardwareXids = map[uint64]string{
	46:  "GPU stopped processing",
	48:  "double-bit ECC error",
	54:  "auxiliary power is not connected",
	62:  "internal micro-controller halted",
	64:  "a row of memory could not be remapped",
	74:  "NVLink error",
	79:  "GPU has fallen off the bus",
	92:  "high rate of single-bit ECC errors",
	95:  "uncontained memory error",
	110: "security fault",
	119: "the GPU's system processor does not answer",
	120: "the GPU's system processor failed",
	122: "SPI failure of the power controller",
	123: "SPI failure of the power controller",
	136: "an NVLink cannot be trained",
	140: "unrecovered ECC error",
	143: "GPU initialization error",
	144: "NVLink error", 145: "NVLink error", 146: "NVLink error", 147: "NVLink error",
	148: "NVLink error", 149: "NVLink error", 150: "NVLink error",
	155: "NVLink error",
	157: "a part of the GPU could not be retired",
	158: "fatal timeout of the GPU",
}

// HardwareXid says what is broken when the NVIDIA driver reports this Xid of a GPU, and false when a program may have caused
// it: then the GPU goes on.
func HardwareXid(xid uint64) (what string, ok bool) {
	what, ok = hardwareXids[xid]
	return what, ok
}
