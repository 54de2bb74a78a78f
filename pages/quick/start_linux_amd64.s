#include "textflag.h"

// The entry of the process. The kernel has put arguments and environment on the stack.
TEXT ·start(SB),NOSPLIT|NOFRAME,$0
	// With C in the program, and so under the race detector, FS is the C library's, and compiled code may call it.
	CMPB	runtime·iscgo(SB), $0
	JNE	usual
	MOVQ	SP, DX
	SUBQ	$64, SP
	ANDQ	$~15, SP
	MOVQ	DX, 32(SP)
	// arch_prctl(ARCH_SET_FS): compiled code looks for its goroutine in the word below FS.
	LEAQ	·idle(SB), CX
	MOVQ	CX, ·thread(SB)
	MOVQ	$158, AX
	MOVQ	$0x1002, DI
	LEAQ	·thread+8(SB), SI
	SYSCALL
	MOVQ	32(SP), DX
	MOVQ	DX, 0(SP)
	LEAQ	·given(SB), DX
	MOVQ	DX, 8(SP)
	LEAQ	·answer(SB), DX
	MOVQ	DX, 16(SP)
	CALL	·quick(SB)
	MOVQ	32(SP), SP
usual:
	JMP	_rt0_amd64_linux(SB)
