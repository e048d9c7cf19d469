#compdef chasqui

_chasqui_completion() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _CHASQUI_COMPLETE=complete_zsh chasqui)
}

compdef _chasqui_completion chasqui
