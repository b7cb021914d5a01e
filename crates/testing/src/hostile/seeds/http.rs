//! Exchanges of HTTP that no recorded session has, written by RFC 9112.

use super::spelt::Exchange;
use overhead_model::Side::{Request, Response};

/// Exchanges after which the connection can continue.
pub(super) fn exchanges() -> Vec<Exchange> {
    let talks: [&[(overhead_model::Side, &str)]; 12] = [
        &[(Request, "GET /get?key=k1&b=%41 HTTP/1.1\r\nHost: a\r\nUser-Agent: x/1\r\n\r\n"), (Response, OK)],
        &[
            (Request, "POST /set HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"),
            (Response, "HTTP/1.1 204 No Content\r\n\r\n"),
        ],
        &[
            (Request, "GET /chunks HTTP/1.1\r\n\r\n"),
            (
                Response,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\nA: b\r\n\r\n",
            ),
        ],
        &[
            (Request, "PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"),
            (Response, "HTTP/1.1 100 Continue\r\n\r\n"),
            (Request, "3\r\nabc\r\n0\r\n\r\n"),
            (Response, OK),
        ],
        &[
            (Request, "HEAD / HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\nDELETE /c HTTP/1.0\r\n\r\n"),
            (Response, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nHTTP/1.1 304 Not Modified\r\n\r\n"),
            (Response, "HTTP/1.1 404 Not Found\r\nServer: x/1\r\nContent-Length: 2\r\n\r\nno"),
        ],
        &[
            (Request, "POST /a HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123"),
            (Response, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"),
            (Request, "456789"),
        ],
        &[
            (
                Request,
                "POST /a HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            ),
            (Response, OK),
            (Response, OK),
        ],
        &[
            (Request, "\r\nGET http://h:1/p?q HTTP/1.1\nA:b\n c\n\n"),
            (Response, "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n"),
        ],
        &[(Request, "GET /a b HTTP/1.1\r\n\r\n"), (Response, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")],
        &[
            (Request, "GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"),
            (Response, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\u{1}"),
            (Request, "\u{1}\u{2}"),
        ],
        &[
            (Request, "CONNECT h:443 HTTP/1.1\r\n\r\n"),
            (Response, "HTTP/1.1 200 OK\r\n\r\n"),
            (Request, "\u{16}\u{3}\u{1}"),
        ],
        &[(Request, "GET / HTTP/1.0\r\n\r\n"), (Response, "HTTP/1.0 500 No\r\n\r\nuntil the end")],
    ];
    let bytes = |talk: &[(overhead_model::Side, &str)]| -> Exchange {
        talk.iter().map(|(side, text)| (*side, text.as_bytes().to_vec())).collect()
    };
    talks.into_iter().map(bytes).collect()
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
