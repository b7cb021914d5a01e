/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * serve HOW PATH: serves one connection after the other on the UNIX socket PATH, and answers each line "N\n" with N bytes
 * and a line end, as Redis answers (`$N`): requests are inline commands of RESP. HOW is the pair of calls that it reads
 * and writes by: `vectors` (readv, writev), `messages` (recvmsg, sendmsg), `many` (recvmmsg, sendmmsg), `file` (read,
 * sendfile), `splice` (read, splice out of a pipe), or io_uring's requests: `ring` (recv, send), and with the same recv
 * `ring-write`, `ring-writev`, `ring-sendmsg`, `ring-splice`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* A ring of one request at a time. */
static struct {
	int fd;
	unsigned *tail, *mask, *array, *head, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *requests;
	struct io_uring_cqe *results;
} ring;

static void *at(void *base, unsigned offset)
{
	return (char *)base + offset;
}

static void open_ring(void)
{
	struct io_uring_params params = {0};
	void *memory;

	ring.fd = syscall(SYS_io_uring_setup, 8, &params);
	if (ring.fd < 0)
		fail("io_uring_setup");
	memory = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
	ring.requests = mmap(0, 8 * sizeof(*ring.requests), PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQES);
	if (memory == MAP_FAILED || ring.requests == MAP_FAILED)
		fail("mmap");
	ring.head = at(memory, params.sq_off.head);
	ring.tail = at(memory, params.sq_off.tail);
	ring.mask = at(memory, params.sq_off.ring_mask);
	ring.array = at(memory, params.sq_off.array);
	ring.cq_head = at(memory, params.cq_off.head);
	ring.cq_tail = at(memory, params.cq_off.tail);
	ring.cq_mask = at(memory, params.cq_off.ring_mask);
	ring.results = at(memory, params.cq_off.cqes);
}

static ssize_t by_ring(int opcode, int fd, int from, void *bytes, size_t length)
{
	unsigned tail = *ring.tail, index = tail & *ring.mask, head;
	struct io_uring_sqe *request = &ring.requests[index];
	ssize_t result;

	memset(request, 0, sizeof(*request));
	request->opcode = opcode;
	request->fd = fd;
	request->addr = (unsigned long)bytes;
	request->len = length;
	if (opcode == IORING_OP_SPLICE) {
		request->addr = request->off = -1UL;
		request->splice_fd_in = from;
	}
	ring.array[index] = index;
	atomic_store_explicit((_Atomic unsigned *)ring.tail, tail + 1, memory_order_release);
	if (syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0)
		fail("io_uring_enter");
	head = *ring.cq_head;
	while (head == atomic_load_explicit((_Atomic unsigned *)ring.cq_tail, memory_order_acquire))
		;
	result = ring.results[head & *ring.cq_mask].res;
	atomic_store_explicit((_Atomic unsigned *)ring.cq_head, head + 1, memory_order_release);
	if (result < 0)
		errno = -result, result = -1;
	return result;
}

static ssize_t take(const char *how, int fd, char *bytes, size_t length)
{
	struct iovec parts[2] = {{bytes, length / 2}, {bytes + length / 2, length - length / 2}};
	struct mmsghdr many = {.msg_hdr = {.msg_iov = parts, .msg_iovlen = 2}};

	switch (*how) {
	case 'v':
		return readv(fd, parts, 2);
	case 'r':
		return by_ring(IORING_OP_RECV, fd, 0, bytes, length);
	case 'f':
	case 's':
		return read(fd, bytes, length);
	default:
		if (strcmp(how, "many"))
			return recvmsg(fd, &many.msg_hdr, 0);
		return recvmmsg(fd, &many, 1, 0, 0) == 1 ? (ssize_t)many.msg_len : -1;
	}
}

/* Writes what two parts hold by one request of io_uring after another. */
static void give_by_ring(const char *how, int fd, struct iovec *parts)
{
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	size_t left = parts[0].iov_len + parts[1].iov_len, part;
	ssize_t done;

	while (left) {
		if (!strcmp(how, "ring-writev"))
			done = by_ring(IORING_OP_WRITEV, fd, 0, parts, 2);
		else
			done = by_ring(IORING_OP_SENDMSG, fd, 0, &message, 1);
		if (done <= 0)
			fail(how);
		left -= done;
		for (int i = 0; i < 2; i++) {
			part = (size_t)done < parts[i].iov_len ? (size_t)done : parts[i].iov_len;
			parts[i].iov_base = (char *)parts[i].iov_base + part;
			parts[i].iov_len -= part;
			done -= part;
		}
	}
}

/* Writes bytes out of a pipe, which holds some of them at a time. */
static void give_by_pipe(const char *how, int fd, char *bytes, size_t length)
{
	ssize_t held, done;
	int ends[2];

	if (pipe(ends))
		fail("pipe");
	while (length) {
		held = write(ends[1], bytes, length < 4096 ? length : 4096);
		if (held <= 0)
			fail("pipe");
		bytes += held;
		length -= held;
		for (; held; held -= done) {
			done = *how == 's' ? splice(ends[0], 0, fd, 0, held, 0) : by_ring(IORING_OP_SPLICE, fd, ends[0], 0, held);
			if (done <= 0)
				fail(how);
		}
	}
	close(ends[0]);
	close(ends[1]);
}

/* Writes all of two parts, or of a file. */
static void give(const char *how, int fd, char *first, size_t first_length, char *second, size_t second_length)
{
	struct iovec parts[2] = {{first, first_length}, {second, second_length}};
	struct mmsghdr many[2] = {{.msg_hdr = {.msg_iov = parts, .msg_iovlen = 1}},
				  {.msg_hdr = {.msg_iov = parts + 1, .msg_iovlen = 1}}};
	size_t left = first_length + second_length, length = left;
	char *all, *next;
	ssize_t done;
	FILE *file;

	if (!strcmp(how, "many")) {
		/* Small enough to be taken whole. */
		if (sendmmsg(fd, many, 2, 0) != 2)
			fail("sendmmsg");
		return;
	}
	if (*how == 'v' || *how == 'm') {
		done = *how == 'v' ? writev(fd, parts, 2) : sendmsg(fd, &many[0].msg_hdr, 0);
		if (*how == 'm' && done == (ssize_t)first_length)
			done += sendmsg(fd, &many[1].msg_hdr, 0);
		if (done != (ssize_t)length)
			fail("short");
		return;
	}
	if (!strcmp(how, "ring-writev") || !strcmp(how, "ring-sendmsg")) {
		give_by_ring(how, fd, parts);
		return;
	}
	all = malloc(length);
	memcpy(all, first, first_length);
	memcpy(all + first_length, second, second_length);
	if (strstr(how, "splice")) {
		give_by_pipe(how, fd, all, length);
	} else if (*how == 'f') {
		file = tmpfile();
		fwrite(all, 1, length, file);
		fflush(file);
		off_t from = 0;
		while (left && (done = sendfile(fd, fileno(file), &from, left)) > 0)
			left -= done;
		fclose(file);
	} else {
		for (next = all; left; next += done, left -= done) {
			done = by_ring(strcmp(how, "ring") ? IORING_OP_WRITE : IORING_OP_SEND, fd, 0, next, left);
			if (done <= 0)
				fail("send");
		}
	}
	free(all);
}

int main(int count, char **words)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), fd;
	char line[4096], head[64], *end;
	size_t held, length, value;
	ssize_t got;

	if (count != 3)
		return fprintf(stderr, "usage: serve vectors|messages|many|file|splice|ring|ring-write|ring-writev|ring-sendmsg|ring-splice PATH\n"), 2;
	strncpy(name.sun_path, words[2], sizeof(name.sun_path) - 1);
	unlink(words[2]);
	if (*words[1] == 'r')
		open_ring();
	if (bind(listener, (struct sockaddr *)&name, sizeof(name)) || listen(listener, 16))
		fail(words[2]);
	while ((fd = accept(listener, 0, 0)) >= 0) {
		held = 0;
		while ((got = take(words[1], fd, line + held, sizeof(line) - 1 - held)) > 0) {
			held += got;
			line[held] = 0;
			while ((end = memchr(line, '\n', held))) {
				value = strtoul(strchr(line, ' ') ? strchr(line, ' ') + 1 : "0", 0, 10);
				char *body = malloc(value + 2);
				memset(body, 'v', value);
				memcpy(body + value, "\r\n", 2);
				length = sprintf(head, "$%zu\r\n", value);
				give(words[1], fd, head, length, body, value + 2);
				free(body);
				held -= end + 1 - line;
				memmove(line, end + 1, held);
			}
		}
		close(fd);
	}
	return 0;
}
