#include "textflag.h"

// FOLD moves one accumulator over 256 bytes and takes in the 64 that lie there: both halves of each 128 bits are
// multiplied by their constant, and the three terms added.
#define FOLD(acc, at) \
	VPCLMULQDQ $0x00, Z8, acc, Z4 \
	VPCLMULQDQ $0x11, Z8, acc, acc \
	VPTERNLOGQ $0x96, at(SI), Z4, acc

// func foldBlocks(p *byte, blocks int, crc uint32, by *[2]uint64) uint32
TEXT ·foldBlocks(SB), NOSPLIT, $256-36
	MOVQ p+0(FP), SI
	MOVQ blocks+8(FP), CX
	MOVL crc+16(FP), AX
	MOVQ by+24(FP), DX

	VMOVDQU64 0(SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	VMOVD     AX, X4
	VPXORQ    Z4, Z0, Z0
	VBROADCASTI32X4 (DX), Z8
	ADDQ      $256, SI
	DECQ      CX
	JZ        done

loop:
	FOLD(Z0, 0)
	FOLD(Z1, 64)
	FOLD(Z2, 128)
	FOLD(Z3, 192)
	ADDQ $256, SI
	DECQ CX
	JNZ  loop

done:
	// What is left is divided by the processor's own instruction.
	LEAQ      rest-256(SP), DI
	VMOVDQU64 Z0, 0(DI)
	VMOVDQU64 Z1, 64(DI)
	VMOVDQU64 Z2, 128(DI)
	VMOVDQU64 Z3, 192(DI)
	VZEROUPPER
	XORL AX, AX
	MOVL $32, CX

divide:
	CRC32Q (DI), AX
	ADDQ   $8, DI
	DECQ   CX
	JNZ    divide
	MOVL   AX, ret+32(FP)
	RET
