/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * serve PORT CERTIFICATE KEY LOG: serves one connection after the other on 127.0.0.1:PORT by TLS, and answers each line `GET N`
 * with N bytes as Redis answers, each other line with `+PONG`. Secrets go to LOG. Of OpenSSL or of BoringSSL, as it is linked.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *secrets;

static void keep(const SSL *ssl, const char *line)
{
	(void)ssl;
	fprintf(secrets, "%s\n", line);
	fflush(secrets);
}

static int fail(const char *what)
{
	fprintf(stderr, "serve: %s\n", what);
	return 1;
}

static void answer(SSL *ssl, const char *line)
{
	int value = strncmp(line, "GET ", 4) ? 0 : atoi(line + 4), length;
	char *text;

	/* As many zeros as the value is long. */
	length = value ? asprintf(&text, "$%d\r\n%0*d\r\n", value, value, 0) : asprintf(&text, "+PONG\r\n");
	SSL_write(ssl, text, length);
	free(text);
}

static void serve(SSL *ssl)
{
	char line[4096], *end;
	size_t held = 0;
	int got;

	if (SSL_accept(ssl) != 1)
		return;
	while ((got = SSL_read(ssl, line + held, sizeof(line) - held - 1)) > 0) {
		held += got;
		while ((end = memchr(line, '\n', held))) {
			*end = 0;
			answer(ssl, line);
			held -= end + 1 - line;
			memmove(line, end + 1, held);
		}
	}
	SSL_shutdown(ssl);
}

int main(int count, char **words)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd, one = 1;
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	SSL *ssl;

	if (count != 5)
		return fail("usage: serve PORT CERTIFICATE KEY LOG");
	secrets = fopen(words[4], "w");
	name.sin_port = htons(atoi(words[1]));
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!secrets || SSL_CTX_use_certificate_file(context, words[2], SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_use_PrivateKey_file(context, words[3], SSL_FILETYPE_PEM) != 1)
		return fail("the files cannot be used");
	SSL_CTX_set_keylog_callback(context, keep);
	if (bind(listener, (struct sockaddr *)&name, sizeof(name)) || listen(listener, 16))
		return fail("the port cannot be had");
	while ((fd = accept(listener, 0, 0)) >= 0) {
		ssl = SSL_new(context);
		SSL_set_fd(ssl, fd);
		serve(ssl);
		SSL_free(ssl);
		close(fd);
	}
	return 0;
}
