#!/usr/bin/env bash
# ranks.sh BUILD SOURCE - ranks of one job without a launcher: processes with --rank R/N --job NAME that share a cache.
BUILD=$1 SOURCE=$2
. "$SOURCE/tests/cluster/lib.sh"
trap 'status=$?; kill $(jobs -p) 2>/dev/null || true; wait || true; rm -rf "$WORK"; exit $status' EXIT

rank() { # JOB R/N arguments...
  local job=$1 place=$2
  shift 2
  "$ATTUNE" tune --device host --rank "$place" --job "$job" --json "$@" >"$WORK/$job.${place%/*}.json" 2>"$WORK/$job.${place%/*}.err"
}
all() { # JOB N arguments...: all at once; fails when one does
  local job=$1 size=$2 pids=() status=0
  shift 2
  for ((r = 0; r < size; r++)); do
    rank "$job" "$r/$size" "$@" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
  [ "$status" = 0 ] || { cat "$WORK/$job".*.err; fail "$job: a rank ended with $status"; }
}

refuse() { # TEXT arguments...
  local text=$1
  shift
  if "$ATTUNE" tune --problem "$PROBLEM" "$@" >"$WORK/refused" 2>&1; then fail "not refused: $*"; fi
  grep -qF -e "$text" "$WORK/refused" || { cat "$WORK/refused"; fail "no word of '$text': $*"; }
}

echo "one problem's candidates are divided, and every rank ends with the choice of a process alone"
"$ATTUNE" tune --device host --problem "$PROBLEM" --seed 3 --retry-blocked --json >"$WORK/alone.json" 2>/dev/null
all divided 3 --problem "$PROBLEM" --seed 3
answers divided 'same(row[0]["winner"] for row in rows)' "$WORK"/{alone,divided.0,divided.1,divided.2}.json
D=("$WORK"/divided.{0,1,2}.json)
answers divided '[r["rank"] for r in ranks] == [0, 1, 2] and all(r["size"] == 3 and r["divided"] == "candidates" for r in ranks)' "${D[@]}"
answers divided 'all(row[0]["complete"] and row[0]["tried"] == row[0]["candidates"] == 14 and row[0]["looks"] == row[0]["outcomes"]["right"] == 9 for row in rows)' "${D[@]}"
answers divided 'all(row[0]["ranks"]["answered"] == 2 and len(row[0]["ranks"]["journals"]) == 3 for row in rows)' "${D[@]}"
answers divided 'sorted(len(outcomes(run)) for run in rows[0][0]["ranks"]["journals"])[0] >= 1 and sum(len(outcomes(run)) for run in rows[0][0]["ranks"]["journals"]) == 14 + 2' "${D[@]}"
answers divided 'sum(not row[0]["ranks"]["adopted"] for row in rows) == 1 and sum(record["candidate"] == rows[0][0]["winner"] for record in records()) == 2' "${D[@]}"

echo "a list of problems is dealt out, and every rank tells all choices"
for n in 1 2 3 4 5; do echo "p$n: test.share elements=$((n * 8))"; done >"$WORK/list"
echo "again: test.share elements=8" >>"$WORK/list"
all dealt 2 --problems "$WORK/list"
L=("$WORK"/dealt.{0,1}.json)
answers dealt 'all([r["name"] for r in row] == ["p1", "p2", "p3", "p4", "p5"] for row in rows)' "${L[@]}"
answers dealt '[r["winner"] for r in rows[0]] == [r["winner"] for r in rows[1]] and all(r["complete"] for row in rows for r in row)' "${L[@]}"
answers dealt 'all([(r["rank"], r["turn"]) for r in row] == [(0, 0), (1, 0), (0, 0), (1, 0), (0, 0)] for row in rows)' "${L[@]}"
answers dealt '[r["journal"] for r in rows[0]] == [r["journal"] for r in rows[1]] and len(set(r["journal"] for r in rows[0])) == 5' "${L[@]}"

echo "a rank that is killed is waited for, then counted with what it has; one that comes late takes what was chosen"
export ATTUNE_CACHE=$WORK/second
# Rank 3 owns modes 8 and 9, rank 2 owns 5, 12 and 14, which are right. Rank 2 finds 5 right and dies; 8 would go before it.
for mode in 8 5 12 14 2 3 6 11 4; do echo "mode=$mode"; done >"$WORK/order"
K=(--problem "$PROBLEM" --candidates "$WORK/order" --peer-limit 1s)
cat >"$WORK/slow-c++" <<'SLOW'
#!/bin/sh
case " $* " in *" -c "*) # the source comes on stdin
  source=$(mktemp) && cat >"$source"
  ! grep -q "$SLOW" "$source" || sleep 3
  exec <"$source"
  rm "$source" ;;
esac
exec c++ "$@"
SLOW
chmod +x "$WORK/slow-c++"
SLOW='test_share_1[24]' ATTUNE_CXX=$WORK/slow-c++ "$ATTUNE" tune --device host --rank 2/4 --job killed "${K[@]}" >"$WORK/victim.log" 2>&1 &
VICTIM=$!
written() { cat "$ATTUNE_CACHE"/journals/*.jsonl 2>/dev/null | grep -c "$1" || true; }
for ((i = 0; i < 1200 && $(written '"right"') < 1; i++)); do sleep 0.05; done
kill -9 "$VICTIM"
wait "$VICTIM" 2>/dev/null || true
[ "$(written '"right"')" = 1 ] && [ "$(written '"end"')" = 0 ] || { cat "$WORK/victim.log"; fail "killed: not in the middle of its share"; }
rank killed 0/4 "${K[@]}" &
FIRST=$!
rank killed 1/4 "${K[@]}" || fail "killed: rank 1: $(cat "$WORK/killed.1.err")"
wait "$FIRST" || fail "killed: rank 0: $(cat "$WORK/killed.0.err")"
A=("$WORK"/killed.{0,1}.json)
answers killed 'all(row[0]["winner"] == "test.share/plain mode=5" for row in rows) and sum(not row[0]["ranks"]["adopted"] for row in rows) == 1' "${A[@]}"
answers killed 'all([p["state"] for p in row[0]["ranks"]["peers"]] == ["answered", "lost", "absent"] for row in rows)' "${A[@]}"
answers killed 'all(not row[0]["complete"] and row[0]["ranks"]["lost"] == 2 and len(row[0]["ranks"]["journals"]) == 3 for row in rows)' "${A[@]}"
grep -q 'rank 2 is counted with what it has' "$WORK/killed.0.err" || fail "killed: rank 0 says nothing of rank 2"
grep -q 'waits for the other ranks' "$WORK/killed.0.err" || fail "killed: rank 0 says nothing of its waiting"
grep -q 'rank 3 has no journal here' "$WORK/killed.0.err" || fail "killed: rank 0 says nothing of rank 3"
rank killed 3/4 "${K[@]}" || fail "killed: rank 3: $(cat "$WORK/killed.3.err")"
answers killed 'rows[0][0]["winner"] == "test.share/plain mode=5" and rows[0][0]["ranks"]["adopted"] and "right" in [l["outcome"] for l in journals()[rows[0][0]["ranks"]["journals"][0]] if l["kind"] == "outcome" and l["candidate"].endswith("mode=8")]' "$WORK/killed.3.json"
answers killed 'rows[0][0]["looks"] == 8 and rows[0][0]["tried"] == sum(rows[0][0]["outcomes"].values()) == 8' "$WORK/killed.3.json"
answers killed 'len(records()) == 1 and records()[0]["candidate"] == rows[0][0]["winner"]' "$WORK/killed.3.json"

echo "the problems of a rank that never came are done by the others, each by one"
head -n 5 "$WORK/list" >"$WORK/five"
rank left 0/3 --problems "$WORK/five" --peer-limit 1s &
FIRST=$!
rank left 1/3 --problems "$WORK/five" --peer-limit 1s || fail "left: rank 1: $(cat "$WORK/left.1.err")"
wait "$FIRST" || fail "left: rank 0: $(cat "$WORK/left.0.err")"
answers left 'all(len(row) == 5 for row in rows) and [r["winner"] for r in rows[0]] == [r["winner"] for r in rows[1]]' "$WORK"/left.{0,1}.json
answers left '[r["journal"] for r in rows[0]] == [r["journal"] for r in rows[1]] and [(r["rank"], r["turn"]) for r in rows[0]] == [(0, 0), (1, 0), (2, 1), (0, 0), (1, 0)]' "$WORK"/left.{0,1}.json

answers left 'sum(not row[2]["ranks"]["adopted"] for row in rows) == 1 and [l["kind"] for l in journals()[rows[0][2]["ranks"]["journals"][0]]].count("begin") == 1' "$WORK"/left.{0,1}.json

echo "what was taken over a late rank takes as it is, its own problems too"
left() { find "$ATTUNE_CACHE/journals" -name '*.jsonl' | wc -l; }
BEFORE=$(left)
rank left 2/3 --problems "$WORK/five" --peer-limit 30s || fail "left: rank 2: $(cat "$WORK/left.2.err")"
answers left '[(r["journal"], r["winner"], r["turn"]) for r in rows[0]] == [(r["journal"], r["winner"], r["turn"]) for r in rows[1]]' "$WORK"/left.{0,2}.json
answers left 'not any(r["ranks"]["here"] for r in rows[0]) and all(r["ranks"]["adopted"] for r in rows[0])' "$WORK/left.2.json"
[ "$(left)" = "$BEFORE" ] || fail "left: a late rank tuned again what was there"
grep -q 'waits for' "$WORK/left.2.err" && fail "left: a late rank waits for what is there"

echo "what people read tells whose a problem was and who tuned it, by the problem's name"
export ATTUNE_CACHE=$WORK/words
tell() { "$ATTUNE" tune --device host --job words --peer-limit 0.3s --problems "$1" --rank "$2" >"$WORK/words.txt" 2>"$WORK/words.err" || { cat "$WORK/words.err"; fail "words: rank $2"; }; }
said() { grep -qF -e "$1" "$WORK"/words.{txt,err} || { cat "$WORK"/words.{txt,err}; fail "words: no '$1'"; }; }
head -n 2 "$WORK/list" >"$WORK/two"
tell "$WORK/two" 0/2
said "p2: rank 1 left no journal of it (it is gone, or has another list of problems); this rank tunes it"
said "tuned by rank 0, this one"
said "rank 1, whose it was, did not come to its end: this rank tuned it"
[ "$(grep -c -e died -e "problem 2" "$WORK/words.txt")" = 0 ] || fail "words: of a rank that never came"
echo "test.share elements=88" >"$WORK/nameless"
tell "$WORK/nameless" 0/2
said "the other rank did not answer; this one published the choice, from 1 journal"
said ": not every rank came to the end of its share"
tell "$WORK/nameless" 1/2
said ": the choice was published before every rank had come to the end of its share"
said "the other rank answered; another one published the choice; there are 2 journals"

echo "a job that died goes on with --resume, and comes to its choice"
export ATTUNE_CACHE=$WORK/third
for mode in 8 9 2 12; do echo "mode=$mode"; done >"$WORK/order" # 8 and 9 are rank 1's of 2
N=(--problem "$PROBLEM" --candidates "$WORK/order")
VICTIMS=()
for r in 0 1; do
  SLOW='test_share_\(9\|12\)' ATTUNE_CXX=$WORK/slow-c++ "$ATTUNE" tune --device host --rank $r/2 --job night "${N[@]}" >"$WORK/victim.log" 2>&1 &
  VICTIMS+=($!)
done
for ((i = 0; i < 1200 && $(written '"right"') < 2; i++)); do sleep 0.05; done
kill -9 "${VICTIMS[@]}"
wait "${VICTIMS[@]}" 2>/dev/null || true
[ "$(written '"right"')" = 2 ] && [ "$(written '"end"')" = 0 ] || { cat "$WORK/victim.log"; fail "night: not in the middle"; }
refuse "--resume goes on with it" --device host --rank 0/2 --job night
rank night 0/2 "${N[@]}" --resume --seed 9 && fail "night: it went on with another seed"
grep -q "with another seed" "$WORK/night.0.err" || { cat "$WORK/night.0.err"; fail "night: no word of the seed"; }
all night 2 "${N[@]}" --resume
R=("$WORK"/night.{0,1}.json)
answers night 'all(row[0]["winner"] == "test.share/plain mode=8" and row[0]["complete"] and row[0]["resumed"] and row[0]["held"] == 2 for row in rows)' "${R[@]}"
answers night 'len(journals()) == 2 and sum(l.get("candidate", "").endswith("mode=8") for j in journals().values() for l in j if l["kind"] == "outcome") == 1' "${R[@]}"
BEFORE=$(written '"outcome"')
all night 2 "${N[@]}" --resume
answers night 'all(row[0]["winner"] == "test.share/plain mode=8" and row[0]["already_done"] and row[0]["ranks"]["adopted"] for row in rows)' "${R[@]}"
[ "$(written '"outcome"')" = "$BEFORE" ] || fail "night: what was done is done again"
"$ATTUNE" tune --device host "${N[@]}" --resume --json >"$WORK/lone.json" 2>/dev/null || fail "night: a process alone"
answers night 'not rows[0][0]["resumed"] and len(journals()) == 3' "$WORK/lone.json"

if command -v clang++ >/dev/null && command -v g++ >/dev/null; then
  echo "only an object that a rank found right is published, whoever compiled it"
  for kept in yes no; do
    export ATTUNE_CACHE=$WORK/made-$kept
    ATTUNE_CXX=clang++ "$ATTUNE" tune --device host --rank 1/2 --job made "${N[@]}" >"$WORK/victim.log" 2>&1 &
    VICTIM=$!
    for ((i = 0; i < 1200 && $(written '"end"') < 1; i++)); do sleep 0.05; done
    kill -9 "$VICTIM"
    wait "$VICTIM" 2>/dev/null || true
    [ "$kept" = yes ] || rm -rf "$ATTUNE_CACHE/objects" "$ATTUNE_CACHE/sources"
    ATTUNE_CXX=g++ rank made 0/2 "${N[@]}" || fail "made: $(cat "$WORK/made.0.err")"
    if [ "$kept" = yes ]; then
      answers made 'rows[0][0]["winner"] == "test.share/plain mode=8" and rows[0][0]["compiler"].startswith("clang")' "$WORK/made.0.json"
    else # mode 8 by this rank's compiler is another object, which nobody looked at
      answers made 'rows[0][0]["winner"] == "test.share/plain mode=2" and rows[0][0]["compiler"].startswith("g++")' "$WORK/made.0.json"
      grep -q 'is passed over' "$WORK/made.0.err" || fail "made: no word of what was passed over"
    fi
  done
else
  echo "skipped: no g++ and clang++, for objects of two compilers"
fi

case ${ATTUNE_TEST_SIZE:-ci} in ci) ROUNDS=2 ;; full) ROUNDS=200 ;; *) fail "ATTUNE_TEST_SIZE is ci or full" ;; esac
echo "whichever rank is killed whenever, the others agree: $ROUNDS rounds"
RANDOM=7
for ((round = 0; round < ROUNDS; round++)); do
  export ATTUNE_CACHE=$WORK/round
  rm -rf "$ATTUNE_CACHE"
  pids=()
  for r in 0 1 2; do
    rank round $r/3 --problem "$PROBLEM" --seed $((round + 1)) --peer-limit 1s &
    pids+=($!)
  done
  sleep 0.$((RANDOM % 6))$((RANDOM % 10))
  dead=$((RANDOM % 3))
  kill -9 $(pgrep -P "${pids[dead]}" -x attune) "${pids[dead]}" 2>/dev/null || true # not there: it had ended
  ended=()
  for r in 0 1 2; do
    if wait "${pids[r]}" 2>/dev/null; then ended+=("$WORK/round.$r.json"); fi
  done
  [ ${#ended[@]} -ge 2 ] || { cat "$WORK"/round.*.err; fail "round $round: rank $dead was killed, and only ${#ended[@]} ranks ended well"; }
  answers round 'same(row[0]["winner"] for row in rows) and len(records()) == 1 and records()[0]["candidate"] == rows[0][0]["winner"]' "${ended[@]}" >/dev/null
done

FAKE=$BUILD/tests/runtime/libfake_cuda.so
if [ -f "$FAKE" ]; then
  echo "of two GPUs the local rank picks one; without it tuning is refused"
  for local in 0 1 2 3; do
    OMPI_COMM_WORLD_RANK=$local OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=$local PMIX_NAMESPACE=x ATTUNE_CUDA_LIBRARY=$FAKE \
      "$ATTUNE" tune --problem "$PROBLEM" --dry-run --json >"$WORK/local.$local.json" 2>/dev/null || fail "local rank $local"
    answers local 'answers[0]["plan"][0]["devices"] == ["cuda:'$((local % 2))'"] and ranks[0]["rank"] == '$local "$WORK/local.$local.json"
  done
  ATTUNE_CUDA_LIBRARY=$FAKE refuse "2 GPUs" --rank 0/4 --job other
else
  echo "skipped: the stand-in for a CUDA driver is not built here"
fi

echo "a trace is dealt out by its shares; what a budget leaves of others is counted, not done"
export ATTUNE_CACHE=$WORK/traced
for n in 1 2 3 4; do echo "{\"calls\":$n,\"problem\":\"test.share elements=$((n * 8))\"}"; done >"$WORK/calls.jsonl"
all traced 2 --trace "$WORK/calls.jsonl" --budget 1h
answers traced 'all([(r["calls"], r["rank"]) for r in row] == [(4, 0), (3, 1), (2, 0), (1, 1)] for row in rows)' "$WORK"/traced.{0,1}.json
rank alone 0/2 --trace "$WORK/calls.jsonl" --budget 1h --retune --peer-limit 0.2s || fail "alone: $(cat "$WORK/alone.0.err")"
answers alone '[r["calls"] for r in rows[0]] == [4, 2] and answers[0]["peers_not_begun"] == 2' "$WORK/alone.0.json"

echo "what is no rank, or one that is there already, is refused"
export ATTUNE_CACHE=$WORK/round
refuse "has a journal of this problem already" --device host --rank 0/3 --job round
refuse "0 to 3" --device host --rank 4/4 --job other
refuse "one device" --device host,host --rank 0/4 --job other
refuse "--peer-limit" --device host --peer-limit 5s
refuse "ranks of one job meet in the cache folder" --device host --rank 0/4 --job other --store /proc/nowhere
echo "ranks.sh: all held"
