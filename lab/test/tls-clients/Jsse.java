// Main PORT: waits for a line on standard input, and then sets and gets values by TLS of the version $TLS, with Java's own TLS.
import java.io.InputStream;
import java.io.OutputStream;
import java.security.cert.X509Certificate;
import javax.net.ssl.*;

class Main extends X509ExtendedTrustManager {
    public void checkClientTrusted(X509Certificate[] chain, String kind) {}
    public void checkServerTrusted(X509Certificate[] chain, String kind) {}
    public void checkClientTrusted(X509Certificate[] chain, String kind, java.net.Socket socket) {}
    public void checkServerTrusted(X509Certificate[] chain, String kind, java.net.Socket socket) {}
    public void checkClientTrusted(X509Certificate[] chain, String kind, SSLEngine engine) {}
    public void checkServerTrusted(X509Certificate[] chain, String kind, SSLEngine engine) {}
    public X509Certificate[] getAcceptedIssuers() { return new X509Certificate[0]; }

    public static void main(String[] arguments) throws Exception {
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, new TrustManager[] {new Main()}, null);
        System.out.println("ready");
        System.in.read();
        try (SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket("127.0.0.1", Integer.parseInt(arguments[0]))) {
            socket.setEnabledProtocols(new String[] {"TLSv" + System.getenv("TLS")});
            InputStream in = socket.getInputStream();
            OutputStream out = socket.getOutputStream();
            for (int length : new int[] {1, 100, 20000}) {
                String text = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$" + length + "\r\n" + "v".repeat(length) + "\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
                out.write(text.getBytes());
                in.readNBytes(("+OK\r\n$" + length + "\r\n\r\n").length() + length);
            }
        }
    }
}
