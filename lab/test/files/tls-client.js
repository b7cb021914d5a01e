// tls-client.js PORT: waits for a line on standard input, and then asks tls-server by TLS of the version $TLS.
const tls = require('tls');
const sizes = [1, 100, 4000, 70000, 500000], version = `TLSv${process.env.TLS}`;
console.log('ready');
process.stdin.once('data', () => {
    const options = {port: +process.argv[2], host: '127.0.0.1', rejectUnauthorized: false, minVersion: version, maxVersion: version};
    let wanted = 0;
    const socket = tls.connect(options, () => ask());
    const ask = () => {
        if (!sizes.length) { socket.end(); process.stdin.destroy(); return; }
        const n = sizes.shift();
        wanted = '+PONG\r\n'.length + `$${n}\r\n`.length + n + 2;
        socket.write(`PING\r\nGET ${n}\r\n`);
    };
    socket.on('data', data => { if ((wanted -= data.length) === 0) ask(); });
});
