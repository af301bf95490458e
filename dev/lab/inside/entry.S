/* In place of a kernel's own decompressor: from the 32-bit entry of the Linux/x86 boot protocol
 * to startup_64 of a kernel that lies below us, packed by LZ4. ESI: boot_params.
 */
	.code32
	.globl	_start
_start:
	cli
	cld
	leal	0x1e8(%esi), %esp	/* the four bytes that boot_params has for this */
	call	1f
1:	popl	%ebp
	subl	$(1b - _start), %ebp

	/* Four GiB as they are, in pages of 2 MiB: the kernel has its own tables soon after. */
	leal	(end - _start + 0xfff)(%ebp), %ebx
	andl	$0xfffff000, %ebx
	movl	%ebx, %edi
	xorl	%eax, %eax
	movl	$(6 * 1024), %ecx
	rep stosl
	leal	0x1003(%ebx), %eax
	movl	%eax, (%ebx)
	leal	0x2003(%ebx), %eax
	leal	0x1000(%ebx), %edi
	movl	$4, %ecx
2:	movl	%eax, (%edi)
	addl	$0x1000, %eax
	addl	$8, %edi
	loop	2b
	leal	0x2000(%ebx), %edi
	movl	$0x83, %eax
	movl	$2048, %ecx
3:	movl	%eax, (%edi)
	addl	$0x200000, %eax
	addl	$8, %edi
	loop	3b

	leal	(gdt - _start)(%ebp), %eax
	movl	%eax, (gdtr + 2 - _start)(%ebp)
	lgdt	(gdtr - _start)(%ebp)
	movl	$0x18, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %fs
	movl	%eax, %gs
	movl	%eax, %ss

	movl	%cr4, %eax
	orl	$0x20, %eax		/* PAE */
	movl	%eax, %cr4
	movl	%ebx, %cr3
	movl	$0xc0000080, %ecx	/* EFER */
	rdmsr
	orl	$0x100, %eax		/* LME */
	wrmsr
	leal	(long - _start)(%ebp), %eax
	leal	(stack - _start)(%ebp), %esp
	pushl	$0x10
	pushl	%eax
	movl	%cr0, %eax
	orl	$0x80000001, %eax	/* PG, PE */
	movl	%eax, %cr0
	lret

	.code64
long:	/* The kernel is laid where its pages of 2 MiB begin, behind our tables. What is packed is
	 * of 32-bit counts and blocks of LZ4, to a count of zero: see lz4_Block_format.md.
	 */
	movl	%esi, %r15d
	movl	%ebp, %esi
	subl	below(%rip), %esi
	leal	(8 * 4096)(%ebx), %esp	/* not among code: each call would have it translated anew */
	leal	0x1fffff(%esp), %edi
	andl	$0xffe00000, %edi
	movl	%edi, %r14d
	/* QEMU's firmware device fills by DMA: what was translated before a reboot is forgotten by
	 * the page, and not by each word that is written there. Nobody answers elsewhere. Source:
	 * docs/specs/fw_cfg of QEMU; an item that is not there reads as zeros.
	 */
	leal	(6 * 4096)(%ebx), %eax
	movl	$0x0a00ffff, (%rax)	/* big endian: item FFFFh; select, read */
	movl	size(%rip), %ecx
	bswap	%ecx
	movl	%ecx, 4(%rax)
	movl	$0, 8(%rax)
	movl	%edi, %ecx
	bswap	%ecx
	movl	%ecx, 12(%rax)
	bswap	%eax
	movl	%eax, %ecx
	xorl	%eax, %eax
	movw	$0x514, %dx
	outl	%eax, %dx
	movl	%ecx, %eax
	movw	$0x518, %dx
	outl	%eax, %dx
block:	movl	(%rsi), %r8d
	addq	$4, %rsi
	testl	%r8d, %r8d
	jz	begin
	addq	%rsi, %r8
sequence:
	movzbl	(%rsi), %eax
	incq	%rsi
	movl	%eax, %ecx
	shrl	$4, %ecx
	call	more
	movq	%rsi, %rbx
	addq	%rcx, %rsi
	call	copy
	cmpq	%r8, %rsi
	jae	block
	movzwl	(%rsi), %r10d
	addq	$2, %rsi
	movq	%rdi, %rbx
	subq	%r10, %rbx
	movl	%eax, %ecx
	andl	$15, %ecx
	call	more
	addq	$4, %rcx
	cmpl	$8, %r10d
	jae	7f
	/* What repeats sooner than a word is long: byte by byte. */
6:	movb	(%rbx), %dl
	movb	%dl, (%rdi)
	incq	%rbx
	incq	%rdi
	decq	%rcx
	jnz	6b
	jmp	sequence
7:	call	copy
	jmp	sequence

	/* RCX: a length of which 15 says that more of it follows. */
more:	cmpl	$15, %ecx
	jne	9f
8:	movzbl	(%rsi), %edx
	incq	%rsi
	addq	%rdx, %rcx
	cmpl	$255, %edx
	je	8b
9:	ret

	/* RCX bytes from RBX to RDI, in words: up to seven more than asked are written. */
copy:	addq	%rdi, %rcx
10:	cmpq	%rcx, %rdi
	jae	11f
	movq	(%rbx), %r9
	movq	%r9, (%rdi)
	addq	$8, %rbx
	addq	$8, %rdi
	jmp	10b
11:	movq	%rcx, %rdi
	ret

begin:	movq	%r15, %rsi
	jmp	*%r14

	.balign	8
gdt:	.quad	0, 0
	.quad	0x00af9a000000ffff	/* 0x10: 64-bit code */
	.quad	0x00cf92000000ffff	/* 0x18: data */
gdtr:	.word	. - gdt - 1
	.long	0
	.skip	16
stack:
size:	.long	0			/* bytes of the kernel, unpacked */
below:	.long	0			/* the last four bytes: how far below us what is packed begins */
end:
