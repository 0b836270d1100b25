#!/usr/bin/env bash
# readme.sh PROGRAM README - the commands under "Look inside" do what they say. One candidate stands for a cover; a compiler or a
# GPU that is not here (exit code 3) is no fault of theirs, and a simulator nobody has.
set -eu
PROGRAM=$1 README=$2
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
export ATTUNE_CACHE="$WORK/cache"
attune() { "$PROGRAM" "$@"; }

ran=0
while IFS= read -r line; do
  command=$(sed -E 's/^    //; s/ +#.*//; s/--cover [0-9]+/--cover 1/' <<<"$line")
  case $command in
    P=*) eval "$command" ;;
    *sim:*) ;;
    attune*)
      code=0
      eval "$command" >"$WORK/output" 2>&1 || code=$?
      case $code in
        0) ran=$((ran + 1)) ;;
        3) echo "not here: $command" ;;
        *) cat "$WORK/output"; echo "FAILED: exit code $code: $command"; exit 1 ;;
      esac ;;
  esac
done < <(sed -n '/^## Look inside/,/^Every command/p' "$README" | grep '^    ')
echo "$ran commands ran"
[ "$ran" -ge 5 ]
