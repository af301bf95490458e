// SPDX-License-Identifier: GPL-2.0
/*
 * First process of a guest: loads what the disk needs, mounts it, runs one script there, tells
 * its exit status, and turns the machine off. Linked statically: nothing else is in its RAM disk.
 *
 * /modules/NN.ko are loaded in order; /script is the script; what it says goes to the second
 * serial port, where the last line is "gdr-status N".
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define SCRIPT "/run/gdr-script"

static void stop(const char *what)
{
	printf("gdr-init: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
}

static void load(const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0 || (syscall(SYS_finit_module, file, "", 0) && errno != EEXIST))
		stop(path);
	close(file);
}

static void load_all(void)
{
	struct dirent **found;
	int count = scandir("/modules", &found, NULL, alphasort);
	char path[300];

	for (int at = 0; at < count; at++) {
		if (found[at]->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/modules/%s", found[at]->d_name);
		load(path);
	}
}

static void at(const char *kind, const char *folder)
{
	mkdir(folder, 0755);
	if (mount(kind, folder, kind, 0, ""))
		stop(folder);
}

static void mount_disk(void)
{
	/* The disk is found a moment after its driver is loaded. */
	for (int tries = 0; tries < 1000 && access("/dev/vda", F_OK); tries++)
		usleep(10000);
	if (mount("/dev/vda", "/root", "ext4", 0, ""))
		stop("/dev/vda");
}

static void copy_script(void)
{
	static char text[65536];
	int from = open("/script", O_RDONLY), to = open("/root" SCRIPT, O_WRONLY | O_CREAT, 0700);
	ssize_t length;

	if (from < 0 || to < 0)
		stop("the script");
	while ((length = read(from, text, sizeof(text))) > 0)
		if (write(to, text, length) != length)
			stop("the script");
	close(from);
	close(to);
}

static int serial(void)
{
	struct termios line;
	int file = open("/dev/ttyS1", O_RDWR | O_NOCTTY);

	if (file < 0 || tcgetattr(file, &line))
		stop("the second serial port");
	cfmakeraw(&line);
	cfsetspeed(&line, B115200);
	tcsetattr(file, TCSANOW, &line);
	return file;
}

static int run_script(int out)
{
	static char *environment[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", NULL,
	};
	static char *words[] = { "/bin/sh", SCRIPT, NULL };
	int status;
	pid_t child = fork();

	if (child == 0) {
		dup2(open("/dev/null", O_RDONLY), 0);
		dup2(out, 1);
		dup2(out, 2);
		execve(words[0], words, environment);
		_exit(127);
	}
	while (waitpid(child, &status, 0) < 0)
		;
	kill(-1, SIGKILL); /* nobody else may write after the last line */
	while (wait(NULL) > 0)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(void)
{
	int out, status;

	mkdir("/dev", 0755);
	mkdir("/root", 0755);
	at("devtmpfs", "/dev");
	load_all();
	mount_disk();
	at("devtmpfs", "/root/dev");
	at("proc", "/root/proc");
	at("sysfs", "/root/sys");
	at("tmpfs", "/root/run");
	mount("efivarfs", "/root/sys/firmware/efi/efivars", "efivarfs", 0, ""); /* with EFI alone */
	mount("securityfs", "/root/sys/kernel/security", "securityfs", 0, "");
	copy_script();
	if (chroot("/root") || chdir("/"))
		stop("chroot");
	out = serial();
	status = run_script(out);
	dprintf(out, "gdr-status %d\n", status);
	tcdrain(out);
	sync();
	reboot(RB_POWER_OFF);
	return 0;
}
