// Main PORT: waits for a line on standard input, and then sets and gets values by TLS of the version $TLS, with Netty's BoringSSL.
import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.*;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.ssl.*;
import io.netty.handler.ssl.util.InsecureTrustManagerFactory;
import java.nio.charset.StandardCharsets;

class Main extends SimpleChannelInboundHandler<ByteBuf> {
    private final int[] lengths = {1, 100, 20000};
    private int at = 0, left = 0;

    private void ask(ChannelHandlerContext context) {
        if (at == lengths.length) { context.close(); return; }
        int length = lengths[at++];
        left = ("+OK\r\n$" + length + "\r\n\r\n").length() + length;
        String text = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$" + length + "\r\n" + "v".repeat(length) + "\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        context.writeAndFlush(Unpooled.copiedBuffer(text, StandardCharsets.US_ASCII));
    }

    @Override public void userEventTriggered(ChannelHandlerContext context, Object event) {
        if (event instanceof SslHandshakeCompletionEvent done && done.isSuccess()) ask(context);
    }

    @Override protected void channelRead0(ChannelHandlerContext context, ByteBuf part) {
        if ((left -= part.readableBytes()) == 0) ask(context);
    }

    public static void main(String[] arguments) throws Exception {
        SslContext tls = SslContextBuilder.forClient().sslProvider(SslProvider.OPENSSL).trustManager(InsecureTrustManagerFactory.INSTANCE)
            .endpointIdentificationAlgorithm(null).protocols("TLSv" + System.getenv("TLS")).build();
        System.out.println("ready");
        System.in.read();
        EventLoopGroup group = new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory());
        ChannelHandler start = new ChannelInitializer<Channel>() {
            @Override protected void initChannel(Channel channel) {
                channel.pipeline().addLast(tls.newHandler(channel.alloc()), new Main());
            }
        };
        Bootstrap client = new Bootstrap().group(group).channel(NioSocketChannel.class).handler(start);
        client.connect("127.0.0.1", Integer.parseInt(arguments[0])).sync().channel().closeFuture().sync();
        group.shutdownGracefully(0, 1, java.util.concurrent.TimeUnit.SECONDS).sync();
    }
}
