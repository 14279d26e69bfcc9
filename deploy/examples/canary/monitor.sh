#!/usr/bin/env bash
# Sends traffic to the app while a deployment is analysed, and waits for its end.
#
#   DEPLOYMENT        the number of the GitHub Deployment
#   APPLICATION_URL   where the gateway of the cluster answers: http://203.0.113.7
#   APPLICATION_HOST  the app's host, sent as the header Host; empty: that of the address
#   METRIC_TYPE       `error` or `sleep`: which path gets the traffic
#   AMOUNT            percent of errors, or milliseconds
#   TIMEOUT, POLL     seconds; 300 and 1.5
#   TOKEN             reads deployments; GITHUB_API_URL and GITHUB_REPOSITORY as in a workflow
#
# Ends with 0 when this deployment has succeeded, and with 1 when it failed, is not there or took too long. It asks for
# this deployment alone, so the end of an earlier one is never taken for its own, and both waits, for the beginning and
# for the end, are within TIMEOUT. Needs bash, curl and jq.
set -uo pipefail

: "${DEPLOYMENT:?}" "${APPLICATION_URL:?}" "${TOKEN:?}" "${GITHUB_REPOSITORY:?}"
metric=${METRIC_TYPE:-error} amount=${AMOUNT:-0}
timeout=${TIMEOUT:-300} poll=${POLL:-1.5} workers=${WORKERS:-4}
api=${GITHUB_API_URL:-https://api.github.com}

case $metric in
  error) most=100 ;;
  sleep) most=60000 ;;
  *) echo "METRIC_TYPE is error or sleep, not $metric" >&2; exit 1 ;;
esac
if ! [[ $amount =~ ^[0-9]{1,5}$ && $DEPLOYMENT =~ ^[0-9]{1,18}$ ]] || ((amount > most)); then
  echo "AMOUNT is a number from 0 to $most, and DEPLOYMENT a number" >&2
  exit 1
fi

place=$(mktemp -d)
requests=0
finish() {
  # shellcheck disable=SC2046 # each number is a word of its own
  kill $(jobs -p) 2>/dev/null
  wait 2>/dev/null
  requests=$(cat "$place"/answers.* 2>/dev/null | wc -l)
  echo "traffic: $requests requests to /$metric/$amount: $(cat "$place"/answers.* 2>/dev/null | sort | uniq -c |
    awk '{ printf "%s%s × %s", separator, $1, $2; separator = ", " }')"
  rm -rf "$place"
}
trap finish EXIT

host=()
if [ -n "${APPLICATION_HOST:-}" ]; then host=(--header "Host: $APPLICATION_HOST"); fi

# One request after the other. The pause is a read of what nobody writes to.
send_traffic() {
  exec 9<> <(:)
  while :; do
    curl --silent --output /dev/null --max-time 65 --write-out '%{http_code}\n' \
      ${host[@]+"${host[@]}"} "${APPLICATION_URL%/}/$metric/$amount" >>"$place/answers.$1"
    read -rt 0.2 -u 9
  done
}
for ((worker = 0; worker < workers; worker++)); do send_traffic "$worker" & done

# The newest status of the deployment; nothing where GitHub does not answer, `404` where there is none. The token is
# given on standard input: arguments are seen by every program of the machine.
ask() {
  local code
  code=$(printf 'header = "Authorization: Bearer %s"\n' "$TOKEN" |
    curl --disable --config - --silent --max-time 20 --output "$place/answer" --write-out '%{http_code}' \
      --etag-compare "$place/etag" --etag-save "$place/etag" \
      --header 'Accept: application/vnd.github+json' --header 'User-Agent: canary-monitor' \
      "$api/repos/$GITHUB_REPOSITORY/deployments/$DEPLOYMENT/statuses?per_page=1")
  case $code in
    200) cp "$place/answer" "$place/newest" ;;
    404) return 4 ;;
  esac
}

begun=$(date +%s) state='' description=''
: >"$place/etag"
while :; do
  ask || { echo "there is no deployment $DEPLOYMENT" >&2; exit 1; }
  line=$(jq -r '.[0] // {} | [.state // "", .description // ""] | @tsv' "$place/newest" 2>/dev/null)
  if [ -n "$line" ] && [ "$line" != "$state"$'\t'"$description" ]; then
    IFS=$'\t' read -r state description <<<"$line"
    passed=$(($(date +%s) - begun))
    if [ -n "$state" ]; then echo "$passed s  $state  $description"; fi
  fi
  case $state in
    success) exit 0 ;;
    failure | error | inactive) exit 1 ;;
  esac
  if (($(date +%s) - begun >= timeout)); then
    echo "deployment $DEPLOYMENT has no end after $timeout s: ${state:-no status} ${description}" >&2
    exit 1
  fi
  sleep "$poll"
done
