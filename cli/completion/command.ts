import { defineCommand } from '../command.ts';
import { UsageError } from '../options.ts';
import { say } from '../terminal.ts';

/**
 * What each shell loads once; it then asks the program at each Tab. Bash also splits words at `=`, `:` and `@`, and
 * replaces only the last part, which is `$2`: parts without a blank between them are joined.
 */
const scripts = {
  bash: `_millwright() {
  local IFS=$'\\n' line=" $COMP_LINE" words=() i=-1 part
  for part in "\${COMP_WORDS[@]:0:$COMP_CWORD+1}"; do
    [[ $line == [[:space:]]* ]] && i=$((i + 1))
    words[i]+=$part
    line=\${line#*"$part"}
  done
  COMPREPLY=($(millwright __complete "\${words[@]:1}" 2>/dev/null))
  COMPREPLY=("\${COMPREPLY[@]#"\${words[i]%"$2"}"}")
}
complete -o default -F _millwright millwright`,
  zsh: `#compdef millwright
_millwright() {
  local -a found
  found=("\${(@f)$(millwright __complete "\${(@)words[2,$CURRENT]}" 2>/dev/null)}")
  compadd -- $found
}
compdef _millwright millwright`,
  fish: `complete -c millwright -f -a '(millwright __complete (commandline -opc)[2..] (commandline -ct))'`,
} as const;

export const completionCommand = defineCommand({
  name: 'completion',
  description: `Print what makes a shell complete commands, flags, their values, namespaces, contexts and the names of objects. For bash: source <(millwright completion bash). kubectl completes the plugin by itself where kubectl_complete-machine is on PATH.`,
  arguments: [['shell', 'bash, zsh or fish', Object.keys(scripts)]],
  flags: [],
  examples: [['completion bash >> ~/.bashrc', 'for each new shell']],
  async run(_options, [shell = '']) {
    const script = new Map(Object.entries(scripts)).get(shell);
    if (script === undefined)
      throw new UsageError(`shell is '${shell}': give one of ${Object.keys(scripts).join(', ')}`);
    say(script);
  },
});
