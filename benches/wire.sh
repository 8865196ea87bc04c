#!/bin/sh
# Checks a second of the server alone: rolegate with the policy of the people (Basic, verified password, cached) beside an
# always-allow server on tonic and beside our own lane on hyper. The server has one core, h2load the other; 2 connections
# with 32 streams each; rounds are interleaved, so that a slow minute of the machine hits all.
# Prints a line a run: checks a second, and the processor time of a check, which other load on the machine sways less.
#
#   cargo build --release -p sidecar --bin rolegate && cargo build --release -p benches --examples
#   benches/wire.sh [ROUNDS] [SECONDS]
set -eu
rounds=${1:-5} seconds=${2:-5}
root=$(cd "$(dirname "$0")/.." && pwd)
release=${CARGO_TARGET_DIR:-$root/target}/release
work=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$work"' EXIT
"$release/examples/check_message" "$work/alice"

# Prints the process id.
start() {
    taskset -c 0 "$@" >>"$work/log" 2>&1 &
    echo $!
}
rolegate=$(start "$release/rolegate" serve --policy "$root/policies/people" --listen 127.0.0.1:9401 \
    --admin 127.0.0.1:9402 --threads 1)
tonic=$(start "$release/examples/always_allow" 127.0.0.1:9403)
hyper=
[ ! -x "$release/examples/check_on_hyper" ] || hyper=$(start "$release/examples/check_on_hyper" 127.0.0.1:9404 "$root/policies/people/policy.yaml")
pids="$rolegate $tonic $hyper"
sleep 1

load() {
    taskset -c 1 h2load -c 2 -m 32 -t 1 -D "$2" -d "$work/alice" \
        -H 'content-type: application/grpc' -H 'te: trailers' \
        "http://127.0.0.1:$1/envoy.service.auth.v3.Authorization/Check"
}
# Nanoseconds that a process has run (the first field of schedstat, summed over its threads).
ran() {
    cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f", sum }'
}
echo "round server checks/s cpu_ns_per_check"
for round in $(seq "$rounds"); do
    for server in "rolegate 9401 $rolegate" "tonic 9403 $tonic" "hyper 9404 $hyper"; do
        # shellcheck disable=SC2086
        set -- $server
        [ -n "${3-}" ] || continue
        load "$2" 1 >/dev/null
        before=$(ran "$3")
        load "$2" "$seconds" >"$work/result"
        after=$(ran "$3")
        rate=$(sed -n 's/^finished in .*, \(.*\) req\/s.*/\1/p' "$work/result")
        checks=$(sed -n 's/^status codes: \([0-9]*\) 2xx.*/\1/p' "$work/result")
        echo "$round $1 $rate $(((after - before) / checks))"
    done
done
