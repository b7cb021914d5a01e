"""curl.py PORT: waits for a line on standard input, and then gets two pages by TLS of the version $TLS, with the BoringSSL of curl_cffi."""
import os
import sys

from curl_cffi import Curl, CurlOpt

version = {"1.2": 6, "1.3": 7}[os.environ["TLS"]]
print("ready", flush=True)
sys.stdin.readline()
curl = Curl()
for page in ("", "more"):
    curl.setopt(CurlOpt.URL, f"https://127.0.0.1:{sys.argv[1]}/{page}".encode())
    for option, value in ((CurlOpt.SSL_VERIFYPEER, 0), (CurlOpt.SSL_VERIFYHOST, 0), (CurlOpt.HTTP_VERSION, 2), (CurlOpt.SSLVERSION, version | version << 16)):
        curl.setopt(option, value)
    curl.perform()
curl.close()
