# needs: httpx==0.28.1
"""httpx: bodies with a length and in chunks, answers without a body and to HEAD, refused methods, a pool of connections, forms of files."""

import httpx
from driver import PORT, say

db = httpx.Client(base_url=f"http://127.0.0.1:{PORT}")
for id in range(20):
    assert db.put("/set", params={"key": f"k{id}"}, content=b"v" * id * 100).status_code == 204
    assert len(db.get("/get", params={"key": f"k{id}"}).content) == id * 100
assert db.get("/get", params={"key": "nothing"}).status_code == 404
for id in range(5):  # in chunks
    assert db.put("/set", params={"key": f"chunks{id}"}, content=(b"piece" * 200 for _ in range(id))).status_code == 204
assert db.put("/set", params={"key": "large"}, content=b"x" * 5_000_000).status_code == 204
with db.stream("GET", "/get", params={"key": "large"}) as answer:
    assert sum(len(part) for part in answer.iter_bytes()) == 5_000_000
assert db.head("/get", params={"key": "large"}).headers["content-length"] == "5000000"
assert db.post("/mget", content="k1\nk2\nnothing").content.endswith(b"-1\n")
assert db.post("/set", params={"key": "form"}, files={"file": ("name", b"y" * 3_000)}).status_code == 204
assert db.options("/set").status_code == 405 and db.delete("/set").status_code == 405
assert db.get("/nowhere").status_code == 404
assert db.get("/get", params={"key": "k1"}, headers={"Connection": "close"}).status_code == 200
assert db.get("/get", params={"key": "k1"}).status_code == 200
text = "Text in more than one encoding: ä, €, 𝄞"
assert db.put("/set", params={"key": text}, content=text).status_code == 204
assert db.get("/get", params={"key": text}).text == text

asked = {"PUT /set": 27, "GET /get": 25, "HEAD /get": 1, "POST /mget": 1, "POST /set": 1, "OPTIONS /set": 1, "DELETE /set": 1, "GET /nowhere": 1}
say("httpx", asked, {"GET /get": 1, "OPTIONS /set": 1, "DELETE /set": 1, "GET /nowhere": 1})
db.close()
