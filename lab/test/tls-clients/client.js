// client.js PORT: waits for a line on standard input, and then sets and gets values by TLS of the version $TLS.
const tls = require('tls'), version = `TLSv${process.env.TLS}`, lengths = [1, 100, 20000];
console.log('ready');
process.stdin.once('data', () => {
    const options = {port: +process.argv[2], host: '127.0.0.1', rejectUnauthorized: false, minVersion: version, maxVersion: version};
    let left = 0;
    const socket = tls.connect(options, () => ask());
    const ask = () => {
        if (!lengths.length) { socket.end(); process.stdin.destroy(); return; }
        const length = lengths.shift();
        left = `+OK\r\n$${length}\r\n\r\n`.length + length;
        socket.write(`*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$${length}\r\n${'v'.repeat(length)}\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`);
    };
    socket.on('data', data => { if ((left -= data.length) === 0) ask(); });
});
