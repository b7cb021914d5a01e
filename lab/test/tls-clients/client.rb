# client.rb PORT: waits for a line on standard input, and then sets and gets values by TLS of the version $TLS.
require 'socket'
require 'openssl'
context = OpenSSL::SSL::SSLContext.new
context.verify_mode = OpenSSL::SSL::VERIFY_NONE
context.min_version = context.max_version = { '1.2' => OpenSSL::SSL::TLS1_2_VERSION, '1.3' => OpenSSL::SSL::TLS1_3_VERSION }[ENV['TLS']]
puts 'ready'
$stdout.flush
$stdin.gets
socket = OpenSSL::SSL::SSLSocket.new(TCPSocket.new('127.0.0.1', ARGV[0].to_i), context)
socket.sync_close = true
socket.connect
[1, 100, 20_000].each do |length|
  socket.write("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$#{length}\r\n#{'v' * length}\r\n")
  socket.gets
  socket.write("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
  socket.gets
  socket.read(length + 2)
end
socket.close
