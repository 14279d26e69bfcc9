#!/usr/bin/env bash
# Asks GitHub for a deployment to each target, or for one that starts a rollout, and waits for their ends where that
# is wanted.
#
# Everything from outside is data: inputs come as variables, go into JSON by jq, and are printed so
# that the runner takes none of it for a command. Runs on bash 3.2 (macOS), curl and jq.
#
# shellcheck disable=SC2016 # backticks are for people here
#
# Exit codes: 0 done; 1 a target was refused or its deployment did not succeed; 2 an input is wrong;
# 3 the time was over.
set -euo pipefail
set -f # no glob of an input becomes file names

# shellcheck source=github.sh
source "$(dirname "${BASH_SOURCE[0]}")/github.sh"

# The longest rest between two looks, in seconds.
LONGEST_REST=30
# More targets than GitHub lets anybody create things for in a minute are a mistake.
MOST_TARGETS=50
# What is taken from an answer into a header or a link.
ETAG='^(W/)?"[^"[:cntrl:]]*"$'
WEB='^https?://[^[:space:]<>"]+$'

main() {
  for tool in curl jq; do
    command -v "$tool" >/dev/null || wrong "this runner has no \`$tool\`: install it before this step"
  done
  read_inputs
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  deadline=$(($(now) + limit))
  late=0
  local n
  for n in "${!targets[@]}"; do
    ids[n]='' states[n]=refused said[n]='' logs[n]='' seen[n]=0 etags[n]='' misses[n]=0
  done
  for n in "${!targets[@]}"; do
    ((n == 0)) || sleep 1 # as GitHub asks between two writes
    create "$n"
  done
  [[ $wait == false ]] || wait_for_all
  tell
}

# Inputs

read_inputs() {
  tag=${INPUT_TAG-} app=${INPUT_APP-} ref=${INPUT_REF:-${GITHUB_SHA-}} task=${INPUT_TASK:-deploy} rollout=${INPUT_ROLLOUT-} wait=${INPUT_WAIT:-false}
  plan=null
  token=${INPUT_TOKEN-}
  unset INPUT_TOKEN # no child of ours needs it
  repository=${GITHUB_REPOSITORY-}
  api=${INPUT_API_URL:-${GITHUB_API_URL:-https://api.github.com}}
  api=${api%/}
  description=${INPUT_DESCRIPTION:-"${GITHUB_WORKFLOW:-a workflow}, run ${GITHUB_RUN_NUMBER:-by hand} by ${GITHUB_ACTOR:-somebody}"}
  server=${GITHUB_SERVER_URL:-https://github.com}
  targets=() globs=()
  local word
  for word in $(words_of "${INPUT_TARGETS-}"); do
    is_among "$word" ${targets[@]+"${targets[@]}"} || targets+=("$word")
  done
  for word in $(words_of "${INPUT_PRODUCTION-}"); do globs+=("$word"); done
  read_rollout
  ((${#targets[@]} > 0)) || wrong '`targets` is empty: name at least one, or a `rollout`'
  ((${#targets[@]} <= MOST_TARGETS)) || wrong "\`targets\` has more than $MOST_TARGETS"
  [[ -n $tag ]] || wrong '`tag` is empty: name the image tag to deploy'
  [[ $app =~ ^(\.weave\.yaml|[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$ ]] || wrong '`app` is no name of a file in the folder `.weave`'
  [[ -n $ref ]] || wrong '`ref` is empty, and there is no GITHUB_SHA'
  [[ $wait == true || $wait == false ]] || wrong '`wait` is neither `true` nor `false`'
  [[ $token =~ ^[A-Za-z0-9._~+/=-]+$ ]] || wrong '`token` is empty or no token'
  [[ $repository =~ ^[A-Za-z0-9._-]+/[A-Za-z0-9._-]+$ ]] || wrong 'GITHUB_REPOSITORY is no OWNER/NAME'
  [[ $api =~ ^https://[^[:space:]]+$ || $api =~ ^http://(127\.0\.0\.1|localhost)(:[0-9]+)?(/[^[:space:]]*)?$ ]] ||
    wrong '`api-url` is no https:// address: https://api.github.com, or https://HOST/api/v3'
  read_timeout "${INPUT_TIMEOUT:-15m}"
}

# Makes one deployment of a rollout, whose statuses are those of the whole. What it is to do is in the payload.
read_rollout() {
  local input label options=0
  for input in MATCH LABELS PARALLEL BAKE ON_FAILURE MAX_FAILURES TARGET_TIMEOUT; do
    input=INPUT_$input
    [[ -z ${!input-} ]] || options=1
  done
  [[ -z $rollout || -z ${INPUT_TASK-} ]] || wrong 'both `task` and `rollout` are given: the task of a rollout is `rollout`'
  if [[ $rollout == true ]]; then
    ((${#targets[@]} > 0)) || [[ -n ${INPUT_MATCH-}${INPUT_LABELS-} ]] ||
      wrong '`rollout` is `true`, and there is none of `targets`, `match` and `labels`: say over which targets'
    [[ ${INPUT_PARALLEL-} =~ ^[0-9]{0,3}$ ]] || wrong '`parallel` is no number'
    [[ ${INPUT_MAX_FAILURES-} =~ ^[0-9]{0,3}$ ]] || wrong '`max-failures` is no number'
    case ${INPUT_ON_FAILURE-} in '' | undo | pause | continue) ;; *) wrong '`on-failure` is none of `undo`, `pause` and `continue`' ;; esac
    for label in $(words_of "${INPUT_LABELS-}"); do
      [[ $label == ?*=* ]] || wrong '`labels` has one that is not `KEY=VALUE`'
    done
    request_of_rollout
    task=rollout targets=(rollout/targets)
    return
  fi
  ((options == 0)) || wrong 'an input of a rollout over targets is given: set `rollout: true`, or leave it out'
  [[ -n $rollout ]] || return 0
  ((${#targets[@]} == 0)) || wrong 'both `targets` and `rollout` are given: a rollout has its own targets; `true` in place of its name makes one of `targets`'
  [[ $rollout =~ ^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$ ]] || wrong '`rollout` is no name of a rollout of the WAML'
  plan=$(jq -n --arg name "$rollout" '$name')
  task=rollout targets=("rollout/$rollout")
}

# Describes a rollout over targets, with the keys of the service's API.
request_of_rollout() {
  plan=$(jq -n --arg labels "$(words_of "${INPUT_LABELS-}")" --arg match "${INPUT_MATCH-}" \
    --arg parallel "${INPUT_PARALLEL-}" --arg bake "${INPUT_BAKE-}" --arg on_failure "${INPUT_ON_FAILURE-}" \
    --arg max_failures "${INPUT_MAX_FAILURES-}" --arg timeout "${INPUT_TARGET_TIMEOUT-}" '
    def given($key; $value): if $value == "" then {} else {($key): $value} end;
    def number($key; $value): if $value == "" then {} else {($key): ($value | tonumber)} end;
    ($labels | split(" ") | map(select(. != "") | index("=") as $at | {(.[:$at]): .[$at + 1:]}) | add) as $labels |
    {targets: $ARGS.positional} + (if $labels == null then {} else {labels: $labels} end)
    + given("match"; $match) + number("parallel"; $parallel) + given("bake"; $bake)
    + given("on_failure"; $on_failure) + number("max_failures"; $max_failures) + given("timeout"; $timeout)' \
    --args ${targets[@]+"${targets[@]}"})
}

words_of() { printf '%s' "$1" | tr ',\r\n\t' '    '; }

is_among() {
  local one=$1 other
  shift
  for other in "$@"; do [[ $one != "$other" ]] || return 0; done
  return 1
}

read_timeout() {
  [[ $1 =~ ^([0-9]{1,6})([smh]?)$ ]] || wrong '`timeout` is no time: write it like 90s, 15m or 1h'
  limit=$((10#${BASH_REMATCH[1]}))
  case ${BASH_REMATCH[2]} in
    m) limit=$((limit * 60)) ;;
    h) limit=$((limit * 3600)) ;;
  esac
}

# Creating

# Asks for the deployment to target number $1. A request that may have arrived is never sent again
# before a look whether it has: the payload carries a word of which there is no second.
create() {
  local n=$1 target=${targets[$1]} request
  request=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
  deployment "$target" "$request" >"$work/request"
  for _ in 1 2 3; do
    call POST "repos/$repository/deployments" "$work/request"
    if [[ $status == 201 ]] && created "$n" "$(jq -r '.id' "$work/body")"; then return; fi
    said[n]="HTTP $status: $(words). $(remedy)"
    case $status in
      000 | 201 | 5*) ! looked_up "$n" "$target" "$request" || return 0 ;;
      *)
        asks_to_wait || break
        say "$target  GitHub asks to wait for $pause s"
        rest "$pause" || break
        ;;
    esac
  done
  annotate error "$target is not deployed" "GitHub created no deployment. ${said[n]}"
}

deployment() {
  local production=null glob
  for glob in ${globs[@]+"${globs[@]}"}; do
    # shellcheck disable=SC2053 # a glob is meant
    if [[ $1 == $glob ]]; then production=true; else [[ $production == true ]] || production=false; fi
  done
  jq -n --arg ref "$ref" --arg environment "$1" --arg tag "$tag" --arg app "$app" --arg request "$2" --arg task "$task" \
    --arg description "$description" --argjson production "$production" --arg actor "${GITHUB_ACTOR-}" \
    --arg contexts "${INPUT_REQUIRED_CONTEXTS-}" --argjson rollout "$plan" '
    ($contexts | split("\n") | map(gsub("^\\s+|\\s+$"; "")) | map(select(. != ""))) as $contexts |
    {ref: $ref, environment: $environment, task: $task, auto_merge: false,
     payload: ({tag: $tag, request: $request} + (if $app == "" then {} else {app: $app} end) + (if $actor == "" then {} else {actor: $actor} end)
       + (if $rollout == null then {} else {rollout: $rollout} end)),
     description: (if ($description | length) > 140 then $description[:139] + "…" else $description end)}
    + (if $contexts == ["*"] then {} else {required_contexts: $contexts} end)
    + (if $production == null then {} else {production_environment: $production} end)'
}

# Whether a request that got no answer has come through all the same.
looked_up() {
  local n=$1 target=$2 request=$3 query look id
  query="environment=$(escaped "$target")&per_page=30"
  for look in 1 2 3; do
    rest $((look * 2)) || return 1
    call GET "repos/$repository/deployments?$query"
    [[ $status == 200 ]] || continue
    id=$(jq -r --arg request "$request" \
      '[.[] | select((.payload | if type == "string" then (fromjson? // {}) else . end | .request?) == $request)][0].id // empty' \
      "$work/body")
    [[ -z $id ]] || { created "$n" "$id" && return; }
  done
  return 1
}

created() {
  [[ $2 =~ ^[0-9]+$ ]] || return 1
  ids[$1]=$2
  states[$1]=pending
  said[$1]=''
  say "${targets[$1]}  deployment $2 is created"
}

escaped() { jq -rn --arg text "$1" '$text | @uri'; }

# Waiting

wait_for_all() {
  local backoff=2 n left
  slowest=0
  while is_open; do
    left=$((deadline - $(now)))
    # The last look is when the time is over, unless GitHub wants to be left alone for longer.
    if ((left <= 0 || slowest > left)); then
      late=1
      return
    fi
    ((left <= backoff)) || left=$backoff
    ((left >= slowest)) || left=$slowest
    sleep "$left"
    slowest=0
    for n in "${!targets[@]}"; do
      ! is_waited_for "$n" || look "$n"
    done
    backoff=$((backoff * 3 / 2))
    ((backoff <= LONGEST_REST)) || backoff=$LONGEST_REST
  done
}

is_open() {
  local n
  for n in "${!targets[@]}"; do ! is_waited_for "$n" || return 0; done
  return 1
}

is_waited_for() {
  case ${states[$1]} in
    refused | success | failure | error | inactive | unknown) return 1 ;;
  esac
}

# Looks at the statuses of target number $1. What did not change costs nothing of the rate limit.
look() {
  local n=$1
  call GET "repos/$repository/deployments/${ids[n]}/statuses?per_page=100" '' "${etags[n]}"
  spread
  case $status in
    200)
      misses[n]=0
      etags[n]=$(header etag)
      [[ ${etags[n]} =~ $ETAG ]] || etags[n]=''
      news "$n"
      ;;
    304) misses[n]=0 ;;
    # A fault passes, and a deployment that is new is not everywhere at once.
    000 | 5* | 404 | 403 | 429)
      if asks_to_wait; then
        ((slowest >= pause)) || slowest=$pause
      elif [[ $status == 403 ]] || { [[ $status == 404 ]] && ((++misses[n] > 5)); }; then
        lost "$n"
      fi
      ;;
    *) lost "$n" ;;
  esac
}

# When a quarter of the rate limit is left, it is spread over the time until it is filled again.
spread() {
  local most remaining reset left
  most=$(header x-ratelimit-limit)
  remaining=$(header x-ratelimit-remaining)
  reset=$(header x-ratelimit-reset)
  [[ $most =~ ^[0-9]{1,9}$ && $remaining =~ ^[0-9]{1,9}$ && $reset =~ ^[0-9]{1,12}$ ]] || return 0
  left=$((10#$reset - $(now)))
  ((left > 0 && 10#$remaining < 10#$most / 4)) || return 0
  left=$((left * ${#targets[@]} / (10#$remaining + 1)))
  ((slowest >= left)) || slowest=$left
}

# Prints every status that was not seen before, oldest first.
news() {
  local n=$1 id state text log
  while IFS=$'\x1f' read -r id state text log; do
    [[ $id =~ ^[0-9]{1,18}$ ]] || continue
    ((id > seen[n])) || continue
    seen[n]=$id
    text=$(plain "$text")
    [[ $log =~ $WEB ]] || log=''
    say "${targets[n]}  $state  $text${log:+  $log}"
    said[n]=$text
    [[ -z $log ]] || logs[n]=$log
    # A success that a newer deployment has replaced was a success.
    [[ ${states[n]} == success && $state == inactive ]] || states[n]=$state
  done < <(jq -r 'sort_by(.id) | .[] | [.id, .state, .description, (.log_url // .target_url)]
    | map(. // "" | tostring | gsub("[\u0000-\u001f]"; " ")) | join("\u001f")' "$work/body")
}

# Nothing more can be found out about target number $1.
lost() {
  states[$1]=unknown
  said[$1]="HTTP $status: $(words). $(remedy)"
  annotate error "${targets[$1]}: its statuses cannot be read" "${said[$1]}"
}

# Telling

tell() {
  local n code=0
  for n in "${!targets[@]}"; do
    case ${states[n]} in
      failure | error)
        annotate error "${targets[n]}: ${states[n]}" "${said[n]:-no words}${logs[n]:+ ${logs[n]}}"
        code=1
        ;;
      inactive)
        annotate error "${targets[n]} is not deployed: superseded" "${said[n]:-a newer deployment has taken its place}"
        code=1
        ;;
      refused | unknown) code=1 ;;
      success) ;;
      *)
        ((late == 1)) || continue
        annotate error "${targets[n]}: not ended in time" \
          "It is ${states[n]} after ${limit} s (\`timeout\`), and goes on without this job: ${said[n]:-nothing was heard of it}${logs[n]:+ ${logs[n]}}"
        ((code == 1)) || code=3
        ;;
    esac
  done
  outputs
  summary
  exit "$code"
}

outputs() {
  [[ -n ${GITHUB_OUTPUT-} ]] || return 0
  {
    echo "ids=$(table | jq -sc 'map(select(.id != "") | {(.target): (.id | tonumber)}) | add // {}')"
    echo "states=$(table | jq -sc 'map({(.target): .state}) | add // {}')"
  } >>"$GITHUB_OUTPUT"
}

summary() {
  [[ -n ${GITHUB_STEP_SUMMARY-} ]] || return 0
  {
    echo '| target | deployment | state | |'
    echo '|---|---|---|---|'
    table | jq -r --arg pages "$server/$repository/deployments" '
      # Every sign that Markdown or HTML knows becomes a number.
      def text: [explode[] | if (. >= 48 and . <= 57) or (. >= 65 and . <= 90) or (. >= 97 and . <= 122)
        or . == 32 or . > 127 then [.] | implode else "&#\(.);" end] | add // "";
      "| \(.target | text) | \(if .id == "" then "" else "[\(.id)](\($pages))" end) | \(.state | text) | \(.said | text)\(
        if .log == "" then "" else " [log](<\(.log)>)" end) |"'
  } >>"$GITHUB_STEP_SUMMARY"
}

table() {
  local n
  for n in "${!targets[@]}"; do
    jq -cn --arg target "${targets[n]}" --arg id "${ids[n]}" --arg state "${states[n]}" \
      --arg said "${said[n]}" --arg log "${logs[n]}" '$ARGS.named'
  done
}

# A line of the log. It begins with a sign of ours, so that the runner finds no command in it.
say() { echo "- $(plain "$1")"; }

# An annotation, escaped as the runner wants it.
annotate() {
  local title text
  title=$(plain "$2") text=$(plain "$3")
  title=${title//%/%25} title=${title//:/%3A} title=${title//,/%2C}
  echo "::$1 title=$title::${text//%/%25}"
}

wrong() {
  annotate error 'the-deployer: an input is wrong' "$1"
  exit 2
}

main
