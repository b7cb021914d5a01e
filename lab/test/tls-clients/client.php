<?php
// client.php PORT: waits for a line on standard input, and then sets and gets values by TLS of the version $TLS.
$methods = ['1.2' => STREAM_CRYPTO_METHOD_TLSv1_2_CLIENT, '1.3' => STREAM_CRYPTO_METHOD_TLSv1_3_CLIENT];
$options = ['verify_peer' => false, 'verify_peer_name' => false, 'crypto_method' => $methods[getenv('TLS')]];
echo "ready\n";
fgets(STDIN);
$socket = stream_socket_client("tls://127.0.0.1:$argv[1]", $code, $text, 5, STREAM_CLIENT_CONNECT, stream_context_create(['ssl' => $options]));
foreach ([1, 100, 20000] as $length) {
    fwrite($socket, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$$length\r\n" . str_repeat('v', $length) . "\r\n");
    fgets($socket);
    fwrite($socket, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    fgets($socket);
    for ($left = $length + 2; $left > 0; $left -= strlen(fread($socket, $left)));
}
fclose($socket);
