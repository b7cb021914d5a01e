
# Verbs that are programs of their own complete as these do.
function __fish_overhead_beside
    set -l words (commandline -opc)
    complete -C "overhead-$words[2] "(string join ' ' -- (string escape -- $words[3..-1]) (commandline -ct))
end
complete -c overhead -n "__fish_overhead_using_subcommand bench export" -a "(__fish_overhead_beside)"

# Interfaces are those of now.
complete -c overhead -n "__fish_overhead_using_subcommand capture sweep top" -s i -l iface -x -a "any (command ls /sys/class/net 2>/dev/null)"
