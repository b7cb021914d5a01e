# shellcheck shell=bash
# A client, a router and a Redis server in network namespaces of their own, and taps on the way. Sourced, never run. The caller has set
# WORK, and calls end_routed in the end.

tcpdumps=() files=()

# routed NAME…: runs a command in the client's, the router's or the server's namespace.
routed() { local side=$1; shift; exec_as_root ip netns exec "routed-$side" "$@"; }

# route nat|hairpin|mirror|ends: makes the namespaces, and starts the server at $HOST as the client sees it.
#   nat      the router publishes the server under its own address, and hides the client's
#   hairpin  so does its public address, and both are behind one interface of the router
#   mirror   the router has a port, `mirror`, that gets both directions of both its interfaces
route() {
    local side net rules=''
    for side in client router server; do (exec_as_root ip netns add "routed-$side"); (routed "$side" ip link set lo up); done
    for side in client server; do
        net=10.77.1
        [ "$side" = client ] || net=10.77.2
        (routed router ip link add "$side" type veth peer name eth0 netns "routed-$side")
        (routed router ip addr add "$net.1/24" dev "$side")
        (routed router ip link set "$side" up)
        (routed "$side" ip addr add "$net.2/24" dev eth0)
        (routed "$side" ip link set eth0 up)
        (routed "$side" ip route add default via "$net.1")
    done
    (routed router sysctl -qw net.ipv4.ip_forward=1)
    export HOST=10.77.2.2
    case $1 in
        nat | hairpin)
            HOST=10.77.1.1
            [ "$1" = nat ] || hairpin
            rules="table ip nat {
                chain before { type nat hook prerouting priority -100; tcp dport 6379 dnat to 10.77.2.2; }
                chain after { type nat hook postrouting priority 100; oifname { server, lan } masquerade; }
            }"
            ;;
        mirror)
            (routed router ip link add tap type veth peer name mirror)
            for side in tap mirror; do (routed router ip link set "$side" up); done
            rules="table netdev taps {"
            for side in client server; do
                for hook in ingress egress; do
                    rules+="
                    chain $side-$hook { type filter hook $hook device $side priority 0; dup to tap; }"
                done
            done
            rules+="
            }"
            ;;
    esac
    [ -z "$rules" ] || (routed router nft -f - <<<"${rules//; \}/;
    \}}")
    (routed server redis-server --bind 10.77.2.2 --save '' --protected-mode no >/dev/null) &
    wait_until 10 ping_routed
}

# hairpin: joins the client's and the server's sides to one network.
hairpin() {
    HOST=203.0.113.1
    (routed router ip link add lan type bridge)
    for side in client server; do (routed router ip addr flush dev "$side") && (routed router ip link set "$side" master lan); done
    for net in 10.77.1.1 10.77.2.1; do (routed router ip addr add "$net/24" dev lan); done
    (routed router ip link set lan up) && (routed router ip addr add "$HOST/32" dev lo)
}

ping_routed() { (routed server redis-cli -h 10.77.2.2 ping) 2>/dev/null | grep -q PONG; }

# tap NAMESPACE INTERFACE [OPTION…]: starts a capture of its own, into the next of $files.
tap() {
    local file=$WORK/${#files[@]}.pcap
    (routed "$1" tcpdump --immediate-mode -s 65600 -B 131072 --time-stamp-precision=nano -U -n -Z "$(id -un)" -w "$file" -i "$2" "${@:3}" tcp port 6379) \
        2>"$file.log" &
    tcpdumps+=($!)
    files+=("$file")
    wait_until 10 grep -qs 'listening on' "$file.log" || die "tcpdump does not start: $(cat "$file.log")"
}

end_taps() {
    local tcpdump
    sleep 1
    for tcpdump in "${tcpdumps[@]}"; do end_as_root "$tcpdump"; wait "$tcpdump" || true; done
    tcpdumps=()
}

end_routed() {
    local pid side
    for side in client router server; do
        for pid in $(ip netns pids "routed-$side" 2>/dev/null); do end_as_root "$pid" || true; done
        (exec_as_root ip netns delete "routed-$side") 2>/dev/null || true
    done
}
