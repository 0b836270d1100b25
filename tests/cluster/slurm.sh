#!/usr/bin/env bash
# slurm.sh BUILD SOURCE - ranks that srun (Debian's slurm-wlm) starts, without an option of ours. The test makes a cluster
# of one node in its own folder, with its own key and ports: munged, slurmctld and slurmd, all ended at the end.
BUILD=$1 SOURCE=$2
. "$SOURCE/tests/cluster/lib.sh"
CLUSTER=$(mktemp -d)
DAEMONS=()
finish() {
  local status=$? pid i
  for ((i = ${#DAEMONS[@]} - 1; i >= 0; i--)); do kill "${DAEMONS[i]}" 2>/dev/null || true; done
  for pid in "${DAEMONS[@]}"; do
    for ((i = 0; i < 100; i++)); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    kill -9 "$pid" 2>/dev/null || true
  done
  wait 2>/dev/null || true
  rm -rf "$WORK" "$CLUSTER"
  exit "$status"
}
trap finish EXIT
trap 'exit 1' INT TERM
for program in setpriv munged slurmctld slurmd srun scontrol sbatch; do
  command -v "$program" >/dev/null || command -v "/usr/sbin/$program" >/dev/null ||
    skip "$program is not here (Debian: util-linux slurm-wlm munge)"
done
PATH=$PATH:/usr/sbin
[ "$(id -u)" = 0 ] || skip "a cluster of its own takes root: slurmd starts tasks as their users"

free_ports() { # N
  python3 -c 'import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
[s.bind(("", 0)) for s in sockets]
print(*[s.getsockname()[1] for s in sockets])' "$1"
}
begin() { # NAME command...: a daemon of ours in the foreground of its own process, which ends with us even when we are killed
  local name=$1
  shift
  setpriv --pdeathsig TERM "$@" >"$CLUSTER/$name.out" 2>&1 </dev/null &
  DAEMONS+=($!)
}
cannot() { # WHAT: the daemons are real ones, and a container may lack what they need
  tail -n 3 "$CLUSTER"/*.out "$CLUSTER"/*.log 2>/dev/null || true
  skip "$1"
}

chmod 755 "$CLUSTER"
mkdir "$CLUSTER/state" "$CLUSTER/spool"
read -r CONTROL NODE < <(free_ports 2)
HOST=$(hostname -s)
cat >"$CLUSTER/slurm.conf" <<CONF
ClusterName=ranks
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=$CONTROL
SlurmdPort=$NODE
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$CLUSTER/munge.socket
CredType=cred/munge
StateSaveLocation=$CLUSTER/state
SlurmdSpoolDir=$CLUSTER/spool
SlurmctldPidFile=$CLUSTER/slurmctld.pid
SlurmdPidFile=$CLUSTER/slurmd.pid
SlurmctldLogFile=$CLUSTER/slurmctld.log
SlurmdLogFile=$CLUSTER/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$HOST NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$CLUSTER/slurm.conf
head -c 1024 /dev/urandom >"$CLUSTER/munge.key"
chmod 400 "$CLUSTER/munge.key"
begin munged munged --foreground --force --socket "$CLUSTER/munge.socket" --key-file "$CLUSTER/munge.key" \
  --pid-file "$CLUSTER/munged.pid" --log-file "$CLUSTER/munged.log" --seed-file "$CLUSTER/munge.seed"
for ((i = 0; i < 100; i++)); do [ -S "$CLUSTER/munge.socket" ] && break; sleep 0.1; done
[ -S "$CLUSTER/munge.socket" ] || cannot "munged does not run here"
begin slurmctld slurmctld -D -c -f "$SLURM_CONF"
begin slurmd slurmd -D -f "$SLURM_CONF" -N "$HOST"
for ((i = 0; i < 200; i++)); do
  sinfo -h -o %T 2>/dev/null | grep -q '^idle' && break
  sleep 0.1
done
sinfo -h -o %T 2>/dev/null | grep -q '^idle' || cannot "no node of Slurm comes up here: $(sinfo -h -o '%T %E' 2>&1 | head -n 1)"

launch() { # JOB N arguments...: $WORK/<job>.<rank>.json
  local job=$1 size=$2
  shift 2
  timeout 100 srun -n "$size" --output "$WORK/$job.%t.json" --error "$WORK/$job.%t.err" "$ATTUNE" tune --device host --json "$@" \
    >"$WORK/$job.log" 2>&1 </dev/null || { cat "$WORK/$job.log" "$WORK/$job".*.err; fail "$job: srun ended with $?"; }
}

echo "three tasks of srun divide a problem's candidates"
launch divided 3 --problem "$PROBLEM"
S=("$WORK"/divided.{0,1,2}.json)
answers divided '[r["rank"] for r in ranks] == [0, 1, 2] and all(r["size"] == 3 and r["launcher"] == "Slurm" for r in ranks)' "${S[@]}"
answers divided 'same(r["job"] for r in ranks) and "ranks" in ranks[0]["job"]' "${S[@]}"
answers divided 'same(row[0]["winner"] for row in rows) and all(row[0]["complete"] and row[0]["tried"] == 14 for row in rows)' "${S[@]}"
answers divided 'sum(not row[0]["ranks"]["adopted"] for row in rows) == 1 and len(journals()) == 3 and len(records()) == 1' "${S[@]}"

echo "through pmi2 they are the same ranks"
SLURM_MPI_TYPE=pmi2 launch pmi 2 --problem "$PROBLEM"
answers pmi 'all(r["launcher"] == "PMI" for r in ranks) and same(r["job"] for r in ranks)' "$WORK"/pmi.{0,1}.json
answers pmi 'all(row[0]["complete"] for row in rows) and len(journals()) == 5' "$WORK"/pmi.{0,1}.json

echo "a batch script is one process, its steps are ranks of their own jobs"
cat >"$WORK/batch.sh" <<BATCH
#!/bin/bash
"$ATTUNE" tune --device host --json --problem "$PROBLEM" >"$WORK/batch.json" 2>"$WORK/batch.err"
for step in 1 2; do
  srun -n 2 --output "$WORK/step\$step.%t.json" --error "$WORK/step\$step.%t.err" "$ATTUNE" tune --device host --json --problem "$PROBLEM"
done
touch "$WORK/batch.done"
BATCH
sbatch -n 4 --output "$WORK/batch.log" "$WORK/batch.sh" >"$WORK/sbatch.log" 2>&1 || { cat "$WORK/sbatch.log"; fail "batch: sbatch ended with $?"; }
for ((i = 0; i < 1000; i++)); do [ -e "$WORK/batch.done" ] && break; sleep 0.1; done # sbatch --wait looks every ten seconds
[ -e "$WORK/batch.done" ] || { cat "$WORK/batch.log" "$WORK/batch.err"; fail "batch: not done after 100 s"; }
answers batch 'ranks == [None] and rows[0][0]["complete"]' "$WORK/batch.json"
answers batch 'all(r["size"] == 2 for r in ranks) and ranks[0]["job"] == ranks[1]["job"] != ranks[2]["job"] == ranks[3]["job"]' \
  "$WORK"/step1.{0,1}.json "$WORK"/step2.{0,1}.json

echo "a task that is killed is no harm to the others"
cat >"$WORK/one-dies" <<DIES
#!/bin/sh
[ "\$SLURM_PROCID" != 1 ] || kill -9 \$\$
exec "$ATTUNE" "\$@"
DIES
chmod +x "$WORK/one-dies"
timeout 100 srun --kill-on-bad-exit=0 -n 3 --output "$WORK/dies.%t.json" --error "$WORK/dies.%t.err" "$WORK/one-dies" tune --device host \
  --json --peer-limit 1s --problem "$PROBLEM" >"$WORK/dies.log" 2>&1 </dev/null && fail "dies: srun knows of no dead task"
answers dies 'same(row[0]["winner"] for row in rows) and all(row[0]["ranks"]["answered"] == 1 and row[0]["ranks"]["lost"] == 1 for row in rows)' \
  "$WORK"/dies.{0,2}.json
echo "slurm.sh: all held"
