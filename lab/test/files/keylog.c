/*
 * Preloaded into a program that uses OpenSSL: logs the keys of its sessions to the file that SSLKEYLOGFILE names, as programs
 * do that have this built in. What is decrypted live is compared with what these keys open.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void (*logger)(const void *ssl, const char *line);

static void append(const void *ssl, const char *line)
{
	const char *path = getenv("SSLKEYLOGFILE");
	size_t length = strlen(line);
	char text[512];
	int file;

	(void)ssl;
	if (!path || length + 1 > sizeof(text))
		return;
	memcpy(text, line, length);
	text[length] = '\n';
	file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (file < 0)
		return;
	if (write(file, text, length + 1) < 0) {
		/* The comparison will say what is missing. */
	}
	close(file);
}

void *SSL_CTX_new(const void *method)
{
	void *(*create)(const void *) = (void *(*)(const void *))dlsym(RTLD_NEXT, "SSL_CTX_new");
	void (*set)(void *, logger) = (void (*)(void *, logger))dlsym(RTLD_NEXT, "SSL_CTX_set_keylog_callback");
	void *context = create ? create(method) : NULL;

	if (context && set)
		set(context, append);
	return context;
}
