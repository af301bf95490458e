/* In place of a kernel's own decompressor: from the 32-bit entry of the Linux/x86 boot protocol
 * to startup_64 of a kernel that lies below us as it is to run. ESI: boot_params.
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
long:	/* It runs where it lies if that is a multiple of 2 MiB, as with GRUB; QEMU's own loader
	 * puts it at 1 MiB: then it goes behind our tables.
	 */
	movl	%esi, %esi
	movl	%ebp, %eax
	subl	below(%rip), %eax
	testl	$0x1fffff, %eax
	jz	5f
	movl	%eax, %edx
	leal	(6 * 4096 + 0x1fffff)(%ebx), %edi
	andl	$0xffe00000, %edi
	movl	%edi, %eax
	movl	below(%rip), %ecx
	shrl	$3, %ecx
4:	movq	(%rdx), %r8
	movq	%r8, (%rdi)
	addl	$8, %edx
	addl	$8, %edi
	decl	%ecx
	jnz	4b
5:	jmp	*%rax

	.balign	8
gdt:	.quad	0, 0
	.quad	0x00af9a000000ffff	/* 0x10: 64-bit code */
	.quad	0x00cf92000000ffff	/* 0x18: data */
gdtr:	.word	. - gdt - 1
	.long	0
	.skip	16
stack:
below:	.long	0			/* the last four bytes: how far below us the kernel begins */
end:
