
# Verbs that are programs of their own complete as these do, whose completions lie beside this file. Interfaces are those of now.
_overhead_or_beside() {
    if [[ $3 == -i || $3 == --iface ]] && [[ " ${COMP_WORDS[*]:1:COMP_CWORD-1} " != *" -- "* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "any $(command ls /sys/class/net 2>/dev/null)" -- "$2")
        return
    fi
    local program=overhead-${COMP_WORDS[1]-}
    local completes=_${program//-/__}
    if [[ $COMP_CWORD -gt 1 && $program =~ ^overhead-(bench|export)$ ]]; then
        declare -F "$completes" >/dev/null || . "${BASH_SOURCE[0]%/*}/$program" 2>/dev/null
        if declare -F "$completes" >/dev/null; then
            COMP_WORDS=("$program" "${COMP_WORDS[@]:2}")
            COMP_CWORD=$((COMP_CWORD - 1))
            "$completes" "$program" "$2" "${COMP_WORDS[COMP_CWORD - 1]}"
            return
        fi
    fi
    _overhead "$@"
}
complete -F _overhead_or_beside -o bashdefault -o default overhead
