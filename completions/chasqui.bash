# bash breaks words at colons, and names and URLs have some: they are put together again before they are completed,
# and what stands before the last colon is taken off the answers.
_chasqui_completion() {
    local IFS=$'\n' words=() cword=0 at word before=
    for at in "${!COMP_WORDS[@]}"; do
        word=${COMP_WORDS[at]}
        if [[ $at -gt 0 && ( $word == :* || $before == *: ) ]]; then
            words[${#words[@]}-1]+=$word
        else
            words+=("$word")
        fi
        [[ $at -eq $COMP_CWORD ]] && cword=$(( ${#words[@]} - 1 ))
        before=$word
    done
    COMPREPLY=( $( env COMP_WORDS="${words[*]}" COMP_CWORD=$cword _CHASQUI_COMPLETE=complete_bash $1 ) )
    if [[ ${words[cword]} == *:* && $COMP_WORDBREAKS == *:* ]]; then
        word=${words[cword]}
        COMPREPLY=( "${COMPREPLY[@]#"${word%"${word##*:}"}"}" )
    fi
    return 0
}

complete -o default -F _chasqui_completion chasqui
