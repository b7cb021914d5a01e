/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * tls-client PORT: waits for a line on standard input, and then asks tls-server by TLS of the version $TLS, with GnuTLS, which
 * logs its secrets to $SSLKEYLOGFILE itself.
 */
#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what)
{
	fprintf(stderr, "tls-client: %s\n", what);
	return 1;
}

static int ask(gnutls_session_t session, int n)
{
	char text[64], answer[16384];
	long left = strlen("+PONG\r\n") + snprintf(text, sizeof(text), "$%d\r\n", n) + n + 2;
	long got;

	snprintf(text, sizeof(text), "PING\r\nGET %d\r\n", n);
	if (gnutls_record_send(session, text, strlen(text)) < 0)
		return 0;
	while (left > 0) {
		got = gnutls_record_recv(session, answer, sizeof(answer));
		if (got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED)
			continue;
		if (got <= 0)
			return 0;
		left -= got;
	}
	return 1;
}

int main(int count, char **words)
{
	static const int sizes[] = {1, 100, 4000, 70000, 500000};
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	const char *version = getenv("TLS");
	char priorities[64];
	gnutls_certificate_credentials_t credentials;
	gnutls_session_t session;
	int fd = socket(AF_INET, SOCK_STREAM, 0), at;

	if (count != 2 || !version)
		return fail("usage: TLS=1.3 tls-client PORT");
	snprintf(priorities, sizeof(priorities), "NORMAL:-VERS-ALL:+VERS-TLS%s", version);
	puts("ready");
	fflush(stdout);
	getchar();
	name.sin_port = htons(atoi(words[1]));
	if (connect(fd, (struct sockaddr *)&name, sizeof(name)))
		return fail("the server does not listen");
	gnutls_certificate_allocate_credentials(&credentials);
	gnutls_init(&session, GNUTLS_CLIENT);
	gnutls_priority_set_direct(session, priorities, NULL);
	gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
	gnutls_transport_set_int(session, fd);
	if (gnutls_handshake(session) < 0)
		return fail("the handshake failed");
	for (at = 0; at < 5; at++)
		if (!ask(session, sizes[at]))
			return fail("an answer is missing");
	gnutls_bye(session, GNUTLS_SHUT_WR);
	return 0;
}
